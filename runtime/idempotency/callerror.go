package idempotency

import (
	"net/http"
	"strconv"
	"strings"
)

// CallError is what the call of a marked operation through a generated client
// fails with. It matches, with errors.Is, the error of its Problem
// ([ErrMismatch], [ErrInFlight] and so on), [ErrOutcomeUnknown] if
// OutcomeUnknown is set, and whatever Err matches: the context's error, or one
// of net/http.
type CallError struct {
	Operation string
	// Key is the key that was sent, "" if the request had none. It is whole:
	// treat it as confidential.
	Key string
	// Attempts is how many attempts the client has begun; 0 if the request was
	// refused before the first. net/http can have sent one twice, see package
	// retry.
	Attempts int
	// OutcomeUnknown says that the operation may have been executed: call it
	// again with the same request to learn its outcome. After [CodeKeyExpired]
	// and [CodeTransactionEnded] that does not help: the server does not know
	// it. It is set in every case of doubt, such as an error that a transport
	// around net/http's makes by itself, for want of a token. If it is false, no
	// attempt of this call has had an effect.
	OutcomeUnknown bool
	// Response is the answer to the last attempt, nil if none came. Its body has
	// been read as far as it came, of a status that is sent again at most 1 MiB,
	// and can be read again from memory.
	Response *http.Response
	// Problem is what Response says if it is a refusal of an idempotent server,
	// nil otherwise.
	Problem *Problem
	// Err is what ended the call, never nil.
	Err error
}

// Error says what happened, how often it was tried, and what to do. It leaves
// the key out, so that logs do not hold it.
func (e *CallError) Error() string {
	var b strings.Builder
	b.WriteString("idempotency: ")
	b.WriteString(e.Operation)
	b.WriteString(": ")
	b.WriteString(e.Err.Error())
	switch {
	case e.Attempts == 0:
		b.WriteString("; nothing was sent")
	case e.Attempts > 1:
		b.WriteString("; " + strconv.Itoa(e.Attempts) + " attempts were made")
	}
	switch {
	case e.Problem != nil && e.Problem.Code == CodeKeyExpired:
		b.WriteString("; it may have been executed before, and its record is gone: find out by other means before you use a new key")
	case e.Problem != nil && e.Problem.Code == CodeTransactionEnded:
		b.WriteString("; it may have been executed, and a repeat would execute it again")
	case e.OutcomeUnknown && e.Key == "":
		b.WriteString("; it may have been executed, and without a key a repeat would execute it again")
	case e.OutcomeUnknown:
		b.WriteString("; it may have been executed: call it again with the same request to learn its outcome")
	}
	return b.String()
}

// Unwrap returns Err.
func (e *CallError) Unwrap() error { return e.Err }

// Is reports whether target is the [*Error] of the problem, or of an unknown
// outcome.
func (e *CallError) Is(target error) bool {
	t, ok := target.(*Error)
	if !ok {
		return false
	}
	return e.Problem != nil && t.Code == e.Problem.Code || e.OutcomeUnknown && t.Code == CodeOutcomeUnknown
}
