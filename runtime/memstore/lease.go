package memstore

import (
	"context"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// AcquireLease implements [idempotency.Leaser].
func (s *Store) AcquireLease(ctx context.Context, req idempotency.Request, token idempotency.LeaseToken) (idempotency.Result, error) {
	if err := ctx.Err(); err != nil {
		return idempotency.Result{}, cancelled(err)
	}
	found, err := s.acquire(req, token)
	if err != nil || found == nil {
		return idempotency.Result{}, err
	}
	return s.replay(ctx, req, found)
}

// acquire returns the stored answer of req, or claims it if there is none.
func (s *Store) acquire(req idempotency.Request, token idempotency.LeaseToken) (*record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if s.holder(req, token) != nil {
		return nil, nil
	}
	found, err := s.find(req, now)
	if err != nil || found != nil {
		return found, err
	}
	r := &record{fingerprint: req.Fingerprint, createdAt: now, token: token}
	r.extend(now.Add(req.Lease), req.Retention)
	s.put(req.Identity, r)
	return nil, nil
}

// ExtendLease implements [idempotency.Leaser].
func (s *Store) ExtendLease(_ context.Context, req idempotency.Request, token idempotency.LeaseToken, d time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.holder(req, token)
	if r == nil {
		return idempotency.ErrLeaseLost
	}
	r.extend(s.now().Add(d), req.Retention)
	return nil
}

// CompleteLease implements [idempotency.Leaser].
func (s *Store) CompleteLease(ctx context.Context, req idempotency.Request, token idempotency.LeaseToken, resp idempotency.Response) error {
	r, err := s.newRecord(ctx, req, resp)
	if err != nil {
		return err
	}
	r.token = token
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.records[req.Identity]; r == nil || r.token != token {
		return idempotency.ErrLeaseLost
	}
	s.keep(req, r)
	return nil
}

// ReleaseLease implements [idempotency.Leaser].
func (s *Store) ReleaseLease(_ context.Context, req idempotency.Request, token idempotency.LeaseToken) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holder(req, token) == nil {
		return idempotency.ErrLeaseLost
	}
	delete(s.records, req.Identity)
	return nil
}

// holder returns the claim of req if token holds it.
func (s *Store) holder(req idempotency.Request, token idempotency.LeaseToken) *record {
	r := s.records[req.Identity]
	if r == nil || r.token != token || r.leaseUntil.IsZero() {
		return nil
	}
	return r
}

// extend moves the lease's end on to until. A claim is kept for its retention
// after that.
func (r *record) extend(until time.Time, retention time.Duration) {
	if until.After(r.leaseUntil) {
		r.leaseUntil, r.expires = until, until.Add(retention)
	}
}
