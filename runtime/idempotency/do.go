package idempotency

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
)

// Do runs fn at most once for req's scope, operation and key, for callers that
// are not HTTP: queue consumers, webhooks, jobs. fn makes its effects through
// tx; its value is stored as JSON in the same commit, and a repeat gets it
// back with replayed set, without running fn.
//
// Fill req from the message:
//   - Scope is whose message it is: a tenant, or the queue.
//   - Operation is what fn does. Consumers that do different things with the
//     same message have different ones.
//   - Key is the id that its publisher gave the message and keeps when it
//     publishes again; an offset tells the copies apart. It is taken as an
//     Idempotency-Key header is: hash an id that is longer than 255 bytes or
//     holds anything but visible ASCII, a quote or a comma.
//   - Fingerprint is [FingerprintOf] all that fn can tell apart.
//   - Retention is longer than the longest time after which the message can
//     come again: the age at which the queue drops it, and what people resend.
//
// Acknowledge the message only when Do has returned no error. What is done
// with the value outside tx, such as publishing it, comes between the two and
// is done on a replay too, since a crash may have prevented it. Otherwise:
//   - [ErrInFlight]: another delivery is at work. Put the message back, for a
//     while.
//   - [ErrUnavailable], [ErrOutcomeUnknown]: put it back. The next delivery
//     runs fn, or gets the value if it was committed.
//   - [ErrMismatch]: two messages have one id, and fn did not see this one. Set
//     it aside and tell its publisher: no later delivery succeeds.
//   - Any other [*Error]: its [Code.Retryable] says which of the two.
//   - An error of fn comes back as it is, and a panic goes on: nothing was kept
//     and the key is free. Whether it can succeed later, fn knows.
//   - An error with replayed set: the effects are in place, but the stored
//     value does not fit into T.
//   - Any other error: req is incomplete, or the value cannot be stored;
//     nothing was kept.
//
// T must survive JSON: what a repeat gets is what json.Unmarshal makes of it.
// [Observed] has each call reported.
func Do[T, Tx any](ctx context.Context, store Store[Tx], req Request, fn func(ctx context.Context, tx Tx) (T, error)) (value T, replayed bool, err error) {
	if err := checkRequest(&req); err != nil {
		if s, ok := store.(*observed[Tx]); ok {
			s.observe(ctx, Event{Operation: req.Operation, Outcome: OutcomeInvalid, Err: err})
		}
		return value, false, err
	}
	call := &Call{message: &req, scope: req.Scope, key: req.Key}
	req.call = call
	result, err := store.Execute(call.within(ctx), req, func(ctx context.Context, tx Tx) (Response, error) {
		v, err := fn(ctx, tx)
		if err != nil {
			return Response{}, &handlerError{err}
		}
		body, err := json.Marshal(v)
		if err != nil {
			return Response{}, fmt.Errorf("idempotency: the value cannot be stored: %w", err)
		}
		value = v
		return Response{Status: 200, Body: body}, nil
	})
	var zero T
	switch {
	case err != nil:
		if own := handlersOwn(err); own != nil {
			err = own.err
		}
		return zero, false, err
	case !result.Replayed:
		return value, false, nil
	}
	value = zero
	if err := json.Unmarshal(result.Body, &value); err != nil {
		return zero, true, fmt.Errorf("idempotency: the stored value does not fit into %T; it was stored by another version of this program: %w", value, err)
	}
	return value, true, nil
}

// checkRequest refuses a request that would share a record with another or
// never be kept.
func checkRequest(req *Request) error {
	switch {
	case !validName(req.Scope):
		return &Error{Code: CodeScopeMissing, Detail: "Request.Scope is empty, not UTF-8, or holds a NUL byte"}
	case !validName(req.Operation):
		return errors.New("idempotency: Request.Operation is empty, not UTF-8, or holds a NUL byte")
	case req.Retention <= 0:
		return errors.New("idempotency: Request.Retention must be positive")
	case req.Fingerprint == Fingerprint{}:
		return errors.New("idempotency: Request.Fingerprint is not set; use FingerprintOf")
	}
	key, err := normalizeKey(KeyRule{}, []string{req.Key})
	if err != nil {
		return err
	}
	req.Key = key
	return nil
}

// messageVersion leads the fingerprints of messages. It never changes: there is
// no message to compute another version from.
const messageVersion = 1

// FingerprintOf returns the fingerprint of a message: SHA-256 over its
// length-framed parts. Give it everything that the function can tell apart.
// The same parts have the same fingerprint in every release.
func FingerprintOf(parts ...[]byte) Fingerprint {
	var b []byte
	for _, p := range parts {
		b = binary.AppendUvarint(b, uint64(len(p)))
		b = append(b, p...)
	}
	sum := sha256.Sum256(b)
	f := Fingerprint{messageVersion}
	copy(f[1:], sum[:])
	return f
}
