package idempotency

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// Work is what a [Store] runs under a claim. It makes its effects through tx
// and returns the answer to be committed with them. When it returns an error
// nothing it did through tx is kept.
type Work[Tx any] func(ctx context.Context, tx Tx) (Response, error)

// Store claims keys, runs work and keeps answers. Tx is the transaction that
// work is given: pgx.Tx, *sql.Tx or struct{} for the stores of this module.
type Store[Tx any] interface {
	// Execute claims req, runs work in a transaction, and commits the work's
	// effects together with its answer; or it answers from what is stored,
	// without running work.
	//
	// Result.Replayed says which of the two happened. If work returns an error
	// or panics, the transaction is rolled back, the key is free again, and
	// the error comes back as it was (a panic goes on). A serialization
	// failure or a deadlock runs work again in a new transaction, at most
	// three times in all, unless work has called [NoRerun].
	//
	// A [*CommitError] says that the database refused work's effects at the
	// commit. Other errors are an [*Error] and match one of these with errors.Is:
	//   - [ErrInFlight]: another attempt holds the claim.
	//   - [ErrMismatch]: the key is stored with another fingerprint.
	//   - [ErrExpired]: nothing is stored and the key is older than its retention.
	//   - [ErrKeyInvalid]: nothing is stored and the key's own time lies ahead.
	//   - [ErrUnavailable]: the store cannot be reached, or work lost too many
	//     conflicts; nothing was kept.
	//   - [ErrOutcomeUnknown]: the connection was lost in COMMIT and nobody can
	//     say yet; or the answer is stored and cannot be read here, see
	//     [DecodeAnswer].
	// After each of them a retry with the same key is safe.
	//
	// Work gets ctx (or a child of it). Commit and rollback run on a context
	// that the caller cannot cancel, with a deadline of their own (5 s).
	Execute(ctx context.Context, req Request, work Work[Tx]) (Result, error)

	// Transact runs work in a plain transaction and records nothing, for
	// requests that came without a key to an operation that allows it
	// (required: false). Errors, panics, contexts and deadlines are as in
	// Execute, but work runs once: a serialization failure, a deadlock or a
	// store that cannot be reached is [ErrUnavailable], and then nothing was
	// kept. After [ErrOutcomeUnknown] nobody can find out, and a retry may
	// repeat what was done.
	Transact(ctx context.Context, work Work[Tx]) (Response, error)
}

// Keeper is what every store offers beside Execute, for operators.
type Keeper interface {
	// Sweep deletes expired records in batches until none is left or ctx ends,
	// and says how many it deleted. It never touches a live claim. When
	// another sweeper is at work it returns 0 and no error.
	Sweep(ctx context.Context) (int64, error)
	// Lookup returns the stored record of id, expired or not; a claim only
	// where it is a record, in lease mode. It returns [ErrNotFound] where there
	// is none. Where the answer cannot be read the error wraps an
	// [*UnreadableError], and header and body alone are missing in the Record.
	Lookup(ctx context.Context, id Identity) (Record, error)
	// Release deletes the stored record of id, so that the next request with
	// this key runs again. It returns [ErrNotFound] where there is none and
	// [ErrInFlight] while a claim is held. A claim whose lease has passed is
	// deleted.
	Release(ctx context.Context, id Identity) error
}

// Identity is what makes a record unique.
type Identity struct {
	Scope     string // the caller: a tenant, a user, a hash of a credential
	Operation string // the operation's id in the spec, or "POST /path"
	Key       string // the idempotency key, bare
}

// ID returns the 16 bytes that identify a record in a store: SHA-256 over the
// length-framed scope, operation and key, cut to 16 bytes. When the key is a
// UUIDv7 (RFC 9562), its 48-bit time comes first and 80 bits of the hash
// follow, so that rows written together lie together. Stores keep and compare
// scope, operation and key as well: a collision is a mismatch, never another
// caller's answer.
func (i Identity) ID() [16]byte {
	id, _ := i.Hash()
	return id
}

// Hash returns [Identity.ID] and a 64-bit number for an advisory lock. The
// number is always taken from the hash, because the leading bytes of UUIDv7
// ids collide within a millisecond.
func (i Identity) Hash() (id [16]byte, lock int64) {
	var frame [512]byte
	b := appendFramed(frame[:0], i.Scope)
	b = appendFramed(b, i.Operation)
	b = appendFramed(b, i.Key)
	sum := sha256.Sum256(b)
	copy(id[:], sum[:16])
	if ms, ok := uuidv7Time(i.Key); ok {
		var ts [8]byte
		binary.BigEndian.PutUint64(ts[:], uint64(ms)<<16)
		copy(id[:6], ts[:6])
	}
	return id, int64(binary.BigEndian.Uint64(sum[16:24]))
}

// appendFramed appends s with its length in front, so that no two lists of
// strings share one encoding.
func appendFramed(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// Request is one attempt to execute an operation under a key.
type Request struct {
	Identity
	// Fingerprint says what the request contains. It is compared with the
	// stored one on every path that finds a record.
	Fingerprint Fingerprint
	// Retention is how long the answer is kept, counted from its commit.
	// It must be positive.
	Retention time.Duration
	// KeyHasTime says that the operation requires UUIDv7 keys, so that a key
	// for which nothing is stored is judged by its own time: see
	// [Request.CheckAge].
	KeyHasTime bool
	// Lease is how long a claim holds that nothing extends, where a [Lease]
	// stands for the transaction; see [Leases].
	Lease time.Duration

	call *Call // the attempt, where there is one
}

// Matches reports whether a stored fingerprint is that of r. A record written
// under another version is compared under that version; where it cannot be
// computed the answer is no.
func (r Request) Matches(stored []byte) bool {
	if len(stored) != len(r.Fingerprint) {
		return false
	}
	if stored[0] == r.Fingerprint[0] {
		return string(stored) == string(r.Fingerprint[:])
	}
	if r.call == nil {
		return false
	}
	other, err := r.call.fingerprint(stored[0])
	return err == nil && string(stored) == string(other[:])
}

// MayRerun reports whether work may run again after a serialization failure
// or a deadlock. It becomes false once work has called [NoRerun].
func (r Request) MayRerun() bool { return r.call == nil || !r.call.noRerun.Load() }

// maxKeyAhead is how far ahead of the store's clock a UUIDv7 key may be.
const maxKeyAhead = 5 * time.Minute

// CheckAge judges a key for which no record was found by its own time, given
// the store's clock. It returns nil unless KeyHasTime is set; [ErrExpired] for
// a key older than Retention, whose record may be gone, so that it is never
// silently executed again; and [ErrKeyInvalid] for one more than 5 minutes
// ahead of now.
func (r Request) CheckAge(now time.Time) error {
	if !r.KeyHasTime {
		return nil
	}
	ms, ok := uuidv7Time(r.Key)
	if !ok {
		return &Error{Code: CodeKeyInvalid, Detail: "the key is not a UUIDv7"}
	}
	age := now.Sub(time.UnixMilli(ms))
	switch {
	case age > r.Retention:
		return &Error{Code: CodeKeyExpired, Detail: "the key is older than the time its answer is kept; check what became of the first request, then use a new key"}
	case age < -maxKeyAhead:
		return &Error{Code: CodeKeyInvalid, Detail: "the key's time lies more than 5 minutes ahead; check the clock of the machine that made it"}
	}
	return nil
}

// Result is what Execute answers.
type Result struct {
	Response
	// Replayed is true when the answer was stored by an earlier attempt.
	Replayed bool
}

// Record is a stored answer, or the claim of a [Lease].
type Record struct {
	Identity
	Fingerprint []byte
	Response    Response  // Status is 0 for a claim
	CreatedAt   time.Time // when it was committed, by the store's clock
	ExpiresAt   time.Time
	// LeaseUntil is when the lease of a claim ends, or has ended; zero for a
	// stored answer.
	LeaseUntil time.Time
}
