package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// record is what a database says of an id. Times are Unix milliseconds.
type record struct {
	now    int64 // the database's clock
	stored bool  // whether there is a row; the rest is its content
	idempotency.Identity
	fingerprint        []byte
	status             int
	header, body       []byte
	created, expiresAt int64
}

// find reads the record of id, through a pool or in a transaction.
func (s *Store) find(ctx context.Context, db interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}, id [16]byte) (record, error) {
	var (
		r                            record
		scope, operation, key        sql.NullString
		status, createdAt, expiresAt sql.NullInt64
	)
	err := db.QueryRowContext(ctx, s.sql.find, id[:]).Scan(&r.now,
		&scope, &operation, &key, &r.fingerprint, &status, &r.header, &r.body, &createdAt, &expiresAt)
	if err != nil {
		return record{}, fmt.Errorf("sqlstore: read the record: %w", err)
	}
	r.stored = createdAt.Valid
	r.Identity = idempotency.Identity{Scope: scope.String, Operation: operation.String, Key: key.String}
	r.status, r.created, r.expiresAt = int(status.Int64), createdAt.Int64, expiresAt.Int64
	return r, nil
}

// live reports whether r decides a request.
func (r *record) live() bool { return r.stored && r.now < r.expiresAt }

// answer replays r to req, unless it belongs to another request. Two
// identities that share an id are told apart here.
func (r *record) answer(req idempotency.Request) (idempotency.Result, error) {
	if r.Identity != req.Identity || !req.Matches(r.fingerprint) {
		return idempotency.Result{}, idempotency.ErrMismatch
	}
	resp, err := r.response()
	if err != nil {
		return idempotency.Result{}, err
	}
	return idempotency.Result{Response: resp, Replayed: true}, nil
}

func (r *record) response() (idempotency.Response, error) {
	h, err := idempotency.UnmarshalHeader(r.header)
	if err != nil {
		return idempotency.Response{}, err
	}
	return idempotency.Response{Status: r.status, Header: h, Body: r.body}, nil
}

// insert completes req with resp in tx.
func (s *Store) insert(ctx context.Context, tx *transaction, id [16]byte, req idempotency.Request, resp idempotency.Response) error {
	// Drivers store a nil slice as NULL, and an empty one as it is.
	body := resp.Body
	if body == nil {
		body = []byte{}
	}
	retention := (req.Retention + time.Millisecond - 1).Milliseconds()
	_, err := tx.ExecContext(ctx, s.sql.insert, id[:], req.Scope, req.Operation, req.Key,
		req.Fingerprint[:], resp.Status, idempotency.MarshalHeader(resp.Header), body, retention)
	return err
}
