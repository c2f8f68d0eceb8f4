package sqlstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// record is a row. Times are Unix milliseconds by the database's clock.
type record struct {
	idempotency.Identity
	fingerprint        []byte
	status             int
	header, body       []byte
	created, expiresAt int64
	readAt             int64
	token              []byte // of the lease that made it, of an answer in transaction mode, or nil
	leaseUntil         int64  // 0 in a stored answer; elsewhere the record is a claim
}

// scanner is a row that has been asked for.
type scanner interface{ Scan(dest ...any) error }

// scan reads the database's clock and a record's scope, operation, key,
// fingerprint, status, header, body, created_at, expires_at, lease_token and
// lease_until, all null where there is none; before them, what first takes.
func scan(row scanner, first ...any) (now int64, r *record, err error) {
	var rec record
	var scope, operation, name sql.NullString
	var status, created, expires, lease sql.NullInt64
	err = row.Scan(append(first, &now, &scope, &operation, &name, &rec.fingerprint, &status,
		&rec.header, &rec.body, &created, &expires, &rec.token, &lease)...)
	if err != nil {
		return 0, nil, fmt.Errorf("sqlstore: read the record: %w", err)
	}
	if !expires.Valid {
		return now, nil, nil
	}
	rec.Identity = idempotency.Identity{Scope: scope.String, Operation: operation.String, Key: name.String}
	rec.status, rec.created, rec.expiresAt, rec.readAt = int(status.Int64), created.Int64, expires.Int64, now
	rec.leaseUntil = lease.Int64
	return now, &rec, nil
}

// claim reports whether r is the claim of a lease.
func (r *record) claim() bool { return r.leaseUntil != 0 }

// claimedBy reports whether r is the claim of token, whose lease may have passed.
func (r *record) claimedBy(token idempotency.LeaseToken) bool {
	return r != nil && r.claim() && bytes.Equal(r.token, token[:])
}

// live reports whether there is a record and it decides a request. A claim whose
// lease has passed does not.
func (r *record) live() bool {
	return r != nil && !r.expired() && (!r.claim() || r.readAt < r.leaseUntil)
}

// admit judges a request that may run as far as r, which is not live or nil, is
// concerned. One that takes over the claim of a lease has begun before, whatever
// its key's age.
func (r *record) admit(req idempotency.Request, now int64) error {
	if r != nil && !r.expired() {
		return r.of(req)
	}
	return req.CheckAge(time.UnixMilli(now))
}

func (r *record) expired() bool { return r.readAt >= r.expiresAt }

// of says why r cannot be the record of req, or nil. Two identities that share
// an id are told apart here.
func (r *record) of(req idempotency.Request) error {
	if r.Identity != req.Identity || !req.Matches(r.fingerprint) {
		return idempotency.ErrMismatch
	}
	return nil
}

// answer replays r to req, unless it belongs to another request.
func (s *Store) answer(ctx context.Context, r *record, req idempotency.Request) (idempotency.Result, error) {
	if err := r.of(req); err != nil {
		return idempotency.Result{}, err
	}
	if r.claim() {
		return idempotency.Result{}, idempotency.ErrInFlight
	}
	resp, err := s.response(ctx, r)
	return idempotency.Result{Response: resp, Replayed: err == nil}, err
}

// response decodes the stored answer.
func (s *Store) response(ctx context.Context, r *record) (idempotency.Response, error) {
	return idempotency.DecodeAnswer(ctx, s.codec, idempotency.StoredAnswer{
		Identity: r.Identity, Fingerprint: r.fingerprint, Status: r.status, Header: r.header, Body: r.body,
	})
}

// answer is what is stored of one.
type answer struct {
	status       int
	header, body []byte
}

// newToken is stored with an answer in transaction mode where times are in
// milliseconds: in one of them a key can be answered, released and answered again.
func newToken() (token idempotency.LeaseToken) {
	rand.Read(token[:])
	return token
}

// check refuses requests that could not be stored after they have run.
func check(req idempotency.Request) error {
	if req.Retention <= 0 {
		return fmt.Errorf("sqlstore: %s: the retention is %v; it must be positive", req.Operation, req.Retention)
	}
	for _, part := range []struct{ name, value string }{{"scope", req.Scope}, {"operation", req.Operation}, {"key", req.Key}} {
		if !utf8.ValidString(part.value) || strings.IndexByte(part.value, 0) >= 0 {
			return fmt.Errorf("sqlstore: %s: the %s %q is not UTF-8 text without zero bytes, as databases keep it", req.Operation, part.name, part.value)
		}
	}
	return nil
}

// milliseconds rounds a retention up to what tables keep.
func milliseconds(retention time.Duration) int64 {
	return (retention + time.Millisecond - 1).Milliseconds()
}

// nonNil makes an empty body empty: drivers store a nil slice as NULL.
func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
