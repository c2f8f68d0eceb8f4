package sqlstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// leaser makes the steps of a lease in one database. Each is one statement, which
// is a transaction of its own, and says how many records it has changed.
type leaser interface {
	// seize makes the claim of req under token, unless an attempt in a transaction
	// is known to be at work: as a new record, or in place of over, where that is
	// not nil and has not changed since.
	seize(ctx context.Context, k key, req idempotency.Request, token idempotency.LeaseToken, over *record) (int64, error)
	// extend makes the lease of token's claim last for d from now, if it does not
	// last longer.
	extend(ctx context.Context, id [16]byte, token idempotency.LeaseToken, d, retention time.Duration) (int64, error)
	// settle replaces the claim of token by the answer, or its answer by the same.
	settle(ctx context.Context, id [16]byte, token idempotency.LeaseToken, retention time.Duration, kept answer) (int64, error)
	// free deletes the claim of token. Its statement is sent once: another one would
	// find the claim gone and take it for lost.
	free(ctx context.Context, id [16]byte, token idempotency.LeaseToken) (int64, error)
}

// leaseStatements are those of a leaser. A claim is kept for its retention after
// its lease, so that expires_at alone tells a sweeper. Its token stays in the
// answer, so that a completion can be repeated.
type leaseStatements struct{ insert, takeOver, extend, complete, free string }

// AcquireLease implements [idempotency.Leaser]. It makes two statements and one
// commit, a look at the record and the claim; a replay makes the first alone. A
// claim that loses a conflict is made again, four times in all.
func (s *Store) AcquireLease(ctx context.Context, req idempotency.Request, token idempotency.LeaseToken) (idempotency.Result, error) {
	if err := check(req); err != nil {
		return idempotency.Result{}, err
	}
	k := keyOf(req.Identity)
	switch {
	case s.claims.has(k.id):
		return idempotency.Result{}, idempotency.ErrInFlight
	case s.engine.oneWriter() && s.within(ctx):
		return idempotency.Result{}, errNested
	}
	ctx, cancel := context.WithTimeout(ctx, s.claimTimeout)
	defer cancel()
	res, err := again(ctx, func(int, *lostError) (idempotency.Result, error) { return s.acquire(ctx, k, req, token) })
	return res, settled(err)
}

// acquire claims req or answers from what is stored. Where nobody can say whether
// the claim was made, the next try finds it or makes it.
func (s *Store) acquire(ctx context.Context, k key, req idempotency.Request, token idempotency.LeaseToken) (idempotency.Result, error) {
	for range 2 {
		now, r, err := s.engine.find(ctx, k.id)
		switch {
		case err != nil:
			return idempotency.Result{}, &lostError{err}
		case r.claimedBy(token):
			return idempotency.Result{}, nil
		case r.live():
			return s.answer(ctx, r, req)
		}
		if err := r.admit(req, now); err != nil {
			return idempotency.Result{}, err
		}
		n, err := s.engine.seize(ctx, k, req, token, r)
		switch {
		case err == nil && n > 0:
			return idempotency.Result{}, nil
		case err != nil && s.engine.judge(err) == refused:
			return idempotency.Result{}, unsettled(err)
		case err != nil && s.engine.judge(err) != taken:
			return idempotency.Result{}, &lostError{err}
		}
		// Another attempt was first. What it has left decides; where that is
		// nothing, it is a transaction that has not ended.
	}
	return idempotency.Result{}, idempotency.ErrInFlight
}

// ExtendLease implements [idempotency.Leaser], by one statement.
func (s *Store) ExtendLease(ctx context.Context, req idempotency.Request, token idempotency.LeaseToken, d time.Duration) error {
	return s.step(ctx, req, token,
		func(ctx context.Context, id [16]byte) (int64, error) {
			return s.engine.extend(ctx, id, token, d, req.Retention)
		},
		func(r *record) bool { return r.leaseUntil >= r.readAt+milliseconds(d) })
}

// CompleteLease implements [idempotency.Leaser], by one statement.
func (s *Store) CompleteLease(ctx context.Context, req idempotency.Request, token idempotency.LeaseToken, resp idempotency.Response) error {
	if resp.Status < 100 || resp.Status > 999 {
		return fmt.Errorf("sqlstore: %s: the answer's status is %d; it cannot be stored", req.Operation, resp.Status)
	}
	header, body, err := idempotency.EncodeAnswer(ctx, s.codec, req, resp)
	if err != nil {
		return err
	}
	return s.step(ctx, req, token,
		func(ctx context.Context, id [16]byte) (int64, error) {
			return s.engine.settle(ctx, id, token, req.Retention, answer{resp.Status, header, body})
		},
		func(r *record) bool { return !r.claim() })
}

// ReleaseLease implements [idempotency.Leaser], by one statement.
func (s *Store) ReleaseLease(ctx context.Context, req idempotency.Request, token idempotency.LeaseToken) error {
	return s.step(ctx, req, token,
		func(ctx context.Context, id [16]byte) (int64, error) { return s.engine.free(ctx, id, token) },
		func(*record) bool { return false })
}

// errUnchanged says that a statement has not found a claim that is there. A node
// of a cluster can be behind the others.
var errUnchanged = errors.New("sqlstore: the claim is there, and could not be changed")

// step changes the record of req if token holds it. Where the database says that
// it has changed nothing, the record decides: MySQL does not count a row that has
// these values already. An error whose meaning nobody knows is for the caller to
// try again: only who has seen it can tell a claim that is gone from one that was
// freed before.
func (s *Store) step(ctx context.Context, req idempotency.Request, token idempotency.LeaseToken,
	change func(context.Context, [16]byte) (int64, error), done func(*record) bool,
) error {
	if s.engine.oneWriter() && s.within(ctx) {
		return errNested
	}
	ctx, cancel := context.WithTimeout(ctx, s.claimTimeout)
	defer cancel()
	id := req.ID()
	_, err := again(ctx, func(int, *lostError) (none idempotency.Result, _ error) {
		n, err := change(ctx, id)
		switch {
		case err != nil && s.engine.judge(err) == conflict:
			return none, &lostError{err}
		case err != nil:
			return none, unsettled(err)
		case n > 0:
			return none, nil
		}
		_, r, err := s.engine.find(ctx, id)
		switch {
		case err != nil:
			return none, unsettled(err)
		case r == nil || !bytes.Equal(r.token, token[:]):
			return none, idempotency.ErrLeaseLost
		case done(r):
			return none, nil
		case !r.claim():
			return none, idempotency.ErrLeaseLost
		}
		return none, &lostError{errUnchanged}
	})
	return settled(err)
}

// settled is the error of a step that may not be made again.
func settled(err error) error {
	var lost *lostError
	if errors.As(err, &lost) {
		return unsettled(lost.error)
	}
	return err
}
