package idempotency

import (
	"errors"
	"time"
)

// Code names a refusal. It is the member "code" of the problem document that
// a client receives.
type Code string

// The codes, with the status that the HTTP edge answers by default.
const (
	CodeKeyMissing       Code = "key_missing"        // 400
	CodeKeyInvalid       Code = "key_invalid"        // 400
	CodeBodyInvalid      Code = "body_invalid"       // 400
	CodeScopeMissing     Code = "scope_missing"      // 401
	CodeInFlight         Code = "in_flight"          // 409
	CodeKeyExpired       Code = "key_expired"        // 412
	CodeBodyTooLarge     Code = "body_too_large"     // 413
	CodeMismatch         Code = "mismatch"           // 422
	CodeInternal         Code = "internal"           // 500
	CodeResponseTooLarge Code = "response_too_large" // 500
	CodeTransactionEnded Code = "transaction_ended"  // 500
	CodeUnavailable      Code = "unavailable"        // 503
	CodeOutcomeUnknown   Code = "outcome_unknown"    // 503
)

// Retryable reports whether the same request with the same key can succeed
// later: true for in_flight, unavailable and outcome_unknown. Without a key the
// last one cannot be found out, and [Problem.Retryable] is false.
func (c Code) Retryable() bool {
	return c == CodeInFlight || c == CodeUnavailable || c == CodeOutcomeUnknown
}

// Error is a refusal: what a [Store] or the HTTP edge answers instead of
// running the handler or keeping its effects. Two errors are the same to
// errors.Is when their codes are.
type Error struct {
	Code   Code
	Detail string // one sentence for the caller; holds no payload and no secrets
	// RetryAfter is when a retry makes sense; 0 leaves it to the edge (1 s for
	// retryable codes).
	RetryAfter time.Duration
	Err        error // the cause, for logs; never sent to the caller
}

func (e *Error) Error() string {
	s := "idempotency: " + string(e.Code)
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is an [*Error] with the same code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// Errors to compare with errors.Is.
var (
	ErrInFlight       error = &Error{Code: CodeInFlight}
	ErrMismatch       error = &Error{Code: CodeMismatch}
	ErrExpired        error = &Error{Code: CodeKeyExpired}
	ErrKeyInvalid     error = &Error{Code: CodeKeyInvalid}
	ErrUnavailable    error = &Error{Code: CodeUnavailable}
	ErrOutcomeUnknown error = &Error{Code: CodeOutcomeUnknown}
)

// CommitError says that the database refused at the commit what work had
// written, such as by a deferred constraint or by the condition of a queued
// write. Nothing is kept and the key is free. A generated server hands it to its
// error handler, as if the handler had returned it.
type CommitError struct {
	Err error // the database's, as its client returns it
}

func (e *CommitError) Error() string { return e.Err.Error() }

// Unwrap returns the database's error.
func (e *CommitError) Unwrap() error { return e.Err }

// ErrNotFound is returned by [Keeper] and [Lister] for an identity that has no record.
var ErrNotFound = errors.New("idempotency: no record for this scope, operation and key")
