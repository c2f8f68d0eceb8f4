package sqlstore

import (
	"errors"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// errNested is answered to work that executes another request. It would wait
// for the transaction that it is in.
var errNested = errors.New("sqlstore: Execute or Transact was called inside work of the same store, which runs one transaction at a time: " +
	"make the effects through the transaction at hand, or call it after work has returned")

// errEnded is the answer when work has ended its transaction, or has left it
// in a state in which it cannot be completed.
var errEnded = errors.New("sqlstore: work ended its transaction (COMMIT, ROLLBACK, or an error that rolled it back) or left a writing statement open, so no answer was stored: " +
	"leave COMMIT and ROLLBACK to the store, return the errors of statements, and close rows")

// lostError says that a transaction was rolled back because another one was
// in its way, and that it may be run again.
type lostError struct{ error }

func unavailable(err error) error {
	return &idempotency.Error{
		Code:   idempotency.CodeUnavailable,
		Detail: "the database could not be used; nothing was kept",
		Err:    err,
	}
}

func outcomeUnknown(err error) error {
	return &idempotency.Error{
		Code:   idempotency.CodeOutcomeUnknown,
		Detail: "the database failed in COMMIT, and it is not known yet whether the effects were kept",
		Err:    err,
	}
}
