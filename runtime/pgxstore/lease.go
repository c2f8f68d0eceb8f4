package pgxstore

import (
	"context"
	"fmt"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// AcquireLease implements [idempotency.Leaser]. It costs two round trips and a
// commit; a replay is answered after one round trip.
func (s *Store) AcquireLease(ctx context.Context, req idempotency.Request, token idempotency.LeaseToken) (idempotency.Result, error) {
	if err := check(req); err != nil {
		return idempotency.Result{}, err
	}
	// Where nobody can say whether the claim was committed, the next try finds
	// its own token or claims again.
	return again(ctx, func(int, *conflict) (idempotency.Result, error) { return s.acquire(ctx, req, token) })
}

func (s *Store) acquire(ctx context.Context, req idempotency.Request, token idempotency.LeaseToken) (idempotency.Result, error) {
	a, err := s.connect(ctx, req.Identity)
	if err != nil {
		return idempotency.Result{}, err
	}
	if !a.recall() {
		err = a.claim(a.sql.beginOwn)
	}
	if a, err = a.begun(ctx, err); err != nil {
		return idempotency.Result{}, err
	}
	if r := a.record; r != nil && r.claim() && r.token == token {
		a.rollback()
		return idempotency.Result{}, nil
	}
	if a.live() {
		return a.replay(ctx, req)
	}
	if a.held {
		err = a.admit(req)
	} else {
		err = idempotency.ErrInFlight
	}
	if err != nil {
		a.rollback()
		return idempotency.Result{}, err
	}
	statements := make([]bound, 0, 3)
	if a.record != nil { // over
		statements = append(statements, a.sql.remove.with(a.id[:]))
	}
	statements = append(statements,
		a.sql.lease.with(a.id[:], token[:], encodeInterval(req.Lease), encodeInterval(req.Retention),
			[]byte(req.Scope), []byte(req.Operation), []byte(req.Key), req.Fingerprint[:]),
		a.sql.commit.with())
	_, tag, err := pipeline(a.pc, a.finishBy(), statements...)
	a.rollback()
	switch {
	case err == nil && tag == "COMMIT":
		return idempotency.Result{}, nil
	case err == nil:
		return idempotency.Result{}, fmt.Errorf("pgxstore: the server answered COMMIT with %s: the key is not claimed", tag)
	case isUnsure(err), isConflict(err), isUnprepared(err), state(err) == stateUnique:
		return idempotency.Result{}, &conflict{err}
	}
	return idempotency.Result{}, unavailable("the key could not be claimed", err)
}

// ExtendLease implements [idempotency.Leaser], in one round trip.
func (s *Store) ExtendLease(ctx context.Context, req idempotency.Request, token idempotency.LeaseToken, d time.Duration) error {
	return s.step(ctx, req, s.sql.extendLease, token, encodeInterval(d), encodeInterval(req.Retention))
}

// CompleteLease implements [idempotency.Leaser], in one round trip.
func (s *Store) CompleteLease(ctx context.Context, req idempotency.Request, token idempotency.LeaseToken, resp idempotency.Response) error {
	if resp.Status < 100 || resp.Status > 999 {
		return fmt.Errorf("pgxstore: %s: the answer's status is %d; it cannot be stored", req.Operation, resp.Status)
	}
	header, body, err := idempotency.EncodeAnswer(ctx, s.cfg.codec, req, resp)
	if err != nil {
		return err
	}
	err = s.step(ctx, req, s.sql.completeLease, token,
		encodeInterval(req.Retention), encodeInt2(resp.Status), header, nonNil(body))
	if err == nil {
		_, lock := req.Hash()
		s.recent.add(lock)
	}
	return err
}

// ReleaseLease implements [idempotency.Leaser], in one round trip.
func (s *Store) ReleaseLease(ctx context.Context, req idempotency.Request, token idempotency.LeaseToken) error {
	return s.step(ctx, req, s.sql.releaseLease, token)
}

// step changes the record of req if token holds it.
func (s *Store) step(ctx context.Context, req idempotency.Request, change *statement, token idempotency.LeaseToken, params ...[]byte) error {
	a, err := s.connect(ctx, req.Identity)
	if err != nil {
		return err
	}
	defer a.rollback()
	held := false
	params = append([][]byte{a.id[:], token[:]}, params...)
	_, _, err = pipeline(a.pc, a.claimBy, a.sql.beginOwn.with(), change.with(params...).into(func([][]byte) error {
		held = true
		return nil
	}), a.sql.commit.with())
	switch {
	case err != nil:
		return unavailable("the claim could not be changed, or nobody knows", err)
	case !held:
		return idempotency.ErrLeaseLost
	}
	return nil
}
