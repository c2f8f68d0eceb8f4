package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

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
}

// find reads the record of id with a statement of this name, in a transaction
// or not. It returns nil where there is none.
func find(ctx context.Context, stmt *sql.Stmt, id [16]byte) (*record, error) {
	var r record
	err := stmt.QueryRowContext(ctx, id[:]).Scan(&r.readAt, &r.Scope, &r.Operation, &r.Key,
		&r.fingerprint, &r.status, &r.header, &r.body, &r.created, &r.expiresAt)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("sqlstore: read the record: %w", err)
	}
	return &r, nil
}

// live reports whether there is a record and it decides a request.
func (r *record) live() bool { return r != nil && r.readAt < r.expiresAt }

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
	if r.status < 200 || r.status > 999 {
		return idempotency.Response{}, fmt.Errorf("sqlstore: stored status %d is damaged", r.status)
	}
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
	_, err := tx.StmtContext(ctx, s.stmts.insert).ExecContext(ctx, id[:], req.Scope, req.Operation, req.Key,
		req.Fingerprint[:], resp.Status, idempotency.MarshalHeader(resp.Header), body, retention)
	return err
}
