package pgxstore

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// SQLSTATEs that decide what happens next (PostgreSQL, appendix A).
const (
	stateNotNull          = "23502"
	stateUnique           = "23505"
	stateNoStatement      = "26000" // a prepared statement has gone
	stateStatementExists  = "42P05"
	stateSerialization    = "40001"
	stateDeadlock         = "40P01"
	stateCompletionUnsure = "40003"
	stateLockTimeout      = "55P03"
	stateAborted          = "25P02" // the transaction failed before
	stateInvalidParameter = "22023"
	stateNotSupported     = "0A000"
	stateNoFunction       = "42883"
	stateSyntax           = "42601"
	stateNoTable          = "42P01"
	stateDenied           = "42501"
	stateCanceled         = "57014" // by statement_timeout
	stateLive             = "IDM01" // of the store's own: a record has not expired
)

// state returns the SQLSTATE of err, or "" if the server did not send it.
func state(err error) string {
	if err == nil {
		return "" // spares the common case an allocation
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// isConflict reports whether err says that the transaction lost against
// another one and can be tried again.
func isConflict(err error) bool {
	switch state(err) {
	case stateSerialization, stateDeadlock:
		return true
	}
	return false
}

// isUnprepared reports whether err comes from a pooler that mixes up prepared
// statements.
func isUnprepared(err error) bool {
	switch state(err) {
	case stateNoStatement, stateStatementExists:
		return true
	}
	return false
}

// isLost reports whether err says that the connection has ended.
func isLost(err error) bool {
	if err == nil {
		return false // as in state
	}
	var lost *lostError
	return errors.As(err, &lost)
}

// isUnsure reports whether a COMMIT that failed with err may have been carried
// out: the connection ended, or the server says that it does not know.
func isUnsure(err error) bool {
	s := state(err)
	return isLost(err) || s == stateCompletionUnsure || len(s) == 5 && s[:2] == "08"
}

func unavailable(detail string, err error) error {
	return &idempotency.Error{Code: idempotency.CodeUnavailable, Detail: detail, Err: err}
}
