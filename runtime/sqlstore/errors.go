package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// errNested is answered to work that executes another request. It would wait
// for the transaction that it is in.
var errNested = errors.New("sqlstore: Execute or Transact was called inside work of the same store, which runs one transaction at a time: " +
	"make the effects through the transaction at hand, or call it after work has returned")

// errEnded is the answer when work has ended its transaction, or has left it
// in a state in which it cannot be completed.
var errEnded = errors.New("sqlstore: work ended its transaction (COMMIT, ROLLBACK, a statement that commits by itself, or an error that rolled it back) or left a writing statement open, so no answer was stored: " +
	"leave COMMIT and ROLLBACK to the store, return the errors of statements, and close rows")

// errReader is the answer to [WithReader] where a reader could miss a record.
var errReader = errors.New("sqlstore: WithReader is for SQLite: a pool on a replica could miss a record that was just committed; leave it out")

// missingTable says how to create a table. Kind is the database as idemctl calls
// it, and client what takes statements there.
func missingTable(table, kind, client string) error {
	return fmt.Errorf("table %s does not exist in this database: create it with sqlstore.Migrate, or by %s | %s", table, schemaCommand(kind, table), client)
}

// errView refuses a view, which nothing is stored in.
func errView(table string) error {
	return fmt.Errorf("%s is a view: choose another name with sqlstore.WithTable", table)
}

// schemaCommand is the command that prints what [Schema] returns.
func schemaCommand(kind, table string) string {
	return "idemctl schema -store " + kind + " -table " + table
}

func transactionEnded(err error) error {
	return &idempotency.Error{
		Code: idempotency.CodeTransactionEnded,
		Err:  fmt.Errorf("%w: %w", errEnded, err),
	}
}

// abortedError is the answer to work that goes on after a statement has failed,
// in a database that then takes no other one.
type abortedError struct{ error }

func (e *abortedError) Error() string {
	return "sqlstore: work returned an answer although a statement of its transaction had failed: nothing is kept; return the error, or put a savepoint before statements that may fail: " + e.error.Error()
}

func (e *abortedError) Unwrap() error { return e.error }

// lostError says that a transaction was rolled back because another one was
// in its way, and that it may be run again.
type lostError struct{ error }

func unavailable(err error) error {
	return &idempotency.Error{
		Code:   idempotency.CodeUnavailable,
		Detail: "the database could not be used; nothing was kept",
		Err:    late(err),
	}
}

// unsettled is the error of a step of a lease of which nobody knows what it has done.
func unsettled(err error) error {
	var refusal *idempotency.Error
	if errors.As(err, &refusal) {
		return err
	}
	return &idempotency.Error{
		Code:   idempotency.CodeUnavailable,
		Detail: "the database could not be used, or nobody knows what became of the claim",
		Err:    late(err),
	}
}

// late says what was waited for in vain where err is that of a context alone.
func late(err error) error {
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("the pool had no free connection in time (see SetMaxOpenConns), or the database gave no answer: %w", err)
}

func outcomeUnknown(err error) error {
	return &idempotency.Error{
		Code:   idempotency.CodeOutcomeUnknown,
		Detail: "the database failed in COMMIT, and it is not known whether the effects were kept",
		Err:    err,
	}
}
