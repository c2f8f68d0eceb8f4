package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

var codes = []idempotency.Code{
	idempotency.CodeKeyMissing, idempotency.CodeKeyInvalid, idempotency.CodeBodyInvalid, idempotency.CodeScopeMissing,
	idempotency.CodeInFlight, idempotency.CodeKeyExpired, idempotency.CodeBodyTooLarge, idempotency.CodeMismatch,
	idempotency.CodeInternal, idempotency.CodeResponseTooLarge, idempotency.CodeUnavailable, idempotency.CodeOutcomeUnknown,
}

// An error matches the code of its problem, an unknown outcome, and its cause.
func TestCallErrorMatches(t *testing.T) {
	t.Parallel()
	for _, unknown := range []bool{false, true} {
		for _, of := range append(codes, "") {
			e := &idempotency.CallError{OutcomeUnknown: unknown, Err: fmt.Errorf("slow: %w", context.DeadlineExceeded)}
			if of != "" {
				e.Problem = &idempotency.Problem{Code: of}
			}
			err := fmt.Errorf("pay: %w", e)
			for _, code := range codes {
				want := code == of || unknown && code == idempotency.CodeOutcomeUnknown
				if errors.Is(err, &idempotency.Error{Code: code}) != want {
					t.Errorf("problem %q, outcome unknown %t: matches %s is not %t", of, unknown, code, want)
				}
			}
			var call *idempotency.CallError
			if !errors.As(err, &call) || call != e || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
				t.Errorf("%v", err)
			}
		}
	}
}

// An error says what happened, how often it was tried, and what to do.
func TestCallErrorText(t *testing.T) {
	t.Parallel()
	cause := errors.New("connection refused")
	for want, e := range map[string]idempotency.CallError{
		"idempotency: pay: connection refused; nothing was sent": {Operation: "pay", Err: cause},
		"idempotency: pay: connection refused":                   {Operation: "pay", Key: "k", Attempts: 1, Err: cause},
		"idempotency: pay: connection refused; 2 attempts were made; it may have been executed: call it again with the same request to learn its outcome": {Operation: "pay", Key: "k", Attempts: 2, OutcomeUnknown: true, Err: cause},
		"idempotency: pay: connection refused; it may have been executed, and without a key a repeat would execute it again":                              {Operation: "pay", Attempts: 1, OutcomeUnknown: true, Err: cause},
		"idempotency: pay: old; it may have been executed before, and its record is gone: find out by other means before you use a new key":               {Operation: "pay", Key: "k", Attempts: 1, OutcomeUnknown: true, Problem: &idempotency.Problem{Code: idempotency.CodeKeyExpired}, Err: errors.New("old")},
	} {
		if e.Error() != want {
			t.Errorf("got  %s\nwant %s", e.Error(), want)
		}
	}
}
