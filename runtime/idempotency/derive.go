package idempotency

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
)

// ErrNoCall is returned by [Derive] and [DeriveUUID] for a context that is not
// that of a running call.
var ErrNoCall = errors.New("idempotency: the context is not that of a running call; pass the one that the handler, or the function given to Do, was called with")

// Derive returns the key for a request to Op that a handler, or the function
// given to [Do], makes while it runs. The same call derives the same key for
// the same step, however often it runs: after a deadlock, in a retry after a
// crash, in another process, under a later release of this package. So the
// other service executes the request once, although the handler may send it
// several times.
//
// ctx is the context that the handler was given; inside Do inside a handler it
// is Do's call that counts. The key is made from that call's scope, operation,
// key and fingerprint, from the operation Op, and from step, which names what
// the request is for. Each of them makes another key: two callers that both
// send the key 1 share none, and neither do two steps, or two operations under
// one step. Give a constant, and for several requests of one kind add what tells
// them apart, such as the number of an order line, never an attempt or a time.
// The retention plays no part, but the other service must keep its answers for
// as long as this call can be repeated. A release of the program that changes an
// operation's id, or what of a request counts for its fingerprint, derives other
// keys.
//
// The key is a UUIDv8 (RFC 9562 section 5.8), or 26 letters and digits for an
// operation whose keys hold less than its 36 bytes.
//
// The zero Key comes only with an error: [ErrNoCall]; or an [*Error] with
// [CodeKeyMissing] for a call without a key (required: false), which no retry is
// known to repeat; or one that matches [ErrKeyInvalid] for an empty step, and
// for an operation whose keys cannot hold a derived one: those that must be
// UUIDv7, and those of less than 26 bytes.
func Derive[Op OpType](ctx context.Context, step string) (Key[Op], error) {
	target := operationOf[Op]()
	sum, err := derive(ctx, target.ID, step)
	if err != nil {
		return Key[Op]{}, err
	}
	text := formatUUID(derivedUUID(sum))
	if target.Key.maxLength() < len(text) {
		text = base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16])
	}
	key, err := ParseKey[Op](text)
	if err != nil {
		return Key[Op]{}, &Error{
			Code:   CodeKeyInvalid,
			Detail: "no key of " + target.ID + " can be derived; write its request through the transaction under a new key, and send it after the commit",
			Err:    err,
		}
	}
	return key, nil
}

// DeriveUUID is [Derive] for a system that has no generated operation, such as
// a payment provider: it returns the text to be sent as that system's key, a
// UUIDv8 in lower case. Name the system and its operation in step. No key of
// Derive equals it. Errors are those of Derive, without the one for an
// operation's keys.
func DeriveUUID(ctx context.Context, step string) (string, error) {
	sum, err := derive(ctx, "", step)
	if err != nil {
		return "", err
	}
	return formatUUID(derivedUUID(sum)), nil
}

const (
	// derivedPrefix sets these hashes apart from all others. A key that was
	// derived once must be derived for good: another way to do it takes another
	// prefix and another function.
	derivedPrefix = "github.com/idemgen/idemgen derived key 1"

	// derivedFingerprint is the version of the fingerprint in derived keys,
	// whatever the version of new records is: a call that crashed under one
	// release and is repeated under the next one derives the same key.
	derivedFingerprint = 1
)

// derive returns SHA-256 over the length-framed prefix, id of the target
// operation, scope, operation, key and fingerprint of the call in ctx, and
// step. target is empty where there is no operation, which has no empty id.
func derive(ctx context.Context, target, step string) (sum [sha256.Size]byte, err error) {
	call, ok := callFrom(ctx)
	switch {
	case !ok:
		return sum, ErrNoCall
	case step == "":
		return sum, &Error{Code: CodeKeyInvalid, Detail: "no key can be derived for a step without a name"}
	case call.key == "":
		return sum, &Error{Code: CodeKeyMissing, Detail: "no key can be derived from a request to " + call.op.ID + " that came without one"}
	}
	id, fingerprint, err := call.origin()
	if err != nil {
		return sum, err
	}
	var frame [512]byte
	b := frame[:0]
	for _, part := range [...]string{derivedPrefix, target, id.Scope, id.Operation, id.Key, string(fingerprint[:]), step} {
		b = appendFramed(b, part)
	}
	return sha256.Sum256(b), nil
}

// derivedUUID returns the UUIDv8 that begins as sum does: 122 bits of it beside
// version and variant (RFC 9562 section 5.8 and appendix B.2).
func derivedUUID(sum [sha256.Size]byte) (u [16]byte) {
	copy(u[:], sum[:])
	u[6] = u[6]&0x0f | 0x80 // version 8
	u[8] = u[8]&0x3f | 0x80 // the variant of RFC 9562
	return u
}
