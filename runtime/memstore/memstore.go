// Package memstore keeps records in the memory of one process.
//
// It is for tests and demos. Do not serve customers with it: a second replica
// knows nothing of the first one's keys, a restart forgets every answer, and
// there is no transaction, so that effects made before a crash are made again
// by the retry. Use pgxstore or sqlstore where a duplicate costs something.
//
// Apart from that it behaves as every store does, and it passes the suite in
// package storetest.
package memstore

import (
	"context"
	"sync"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// Store keeps records in a map. Its Tx is struct{}: work that fails is not
// rolled back, because there is nothing to roll back. It is safe for
// concurrent use. Expired records stay in memory until [Store.Sweep] is called.
type Store struct {
	now func() time.Time

	mu      sync.Mutex
	running map[idempotency.Identity]struct{} // claims; an entry lives as long as its work
	records map[idempotency.Identity]*record
}

type record struct {
	fingerprint        idempotency.Fingerprint
	status             int
	header, body       []byte
	createdAt, expires time.Time

	token      idempotency.LeaseToken // of the lease that holds or has completed it
	leaseUntil time.Time              // zero where an answer is stored
}

var (
	_ idempotency.LeaseStore[struct{}] = (*Store)(nil)
	_ idempotency.Keeper               = (*Store)(nil)
)

// Option changes a default of [New].
type Option func(*Store)

// WithClock makes the store read the time from now instead of [time.Now], so
// that a test can let an answer expire. The function must be safe for
// concurrent use.
func WithClock(now func() time.Time) Option {
	return func(s *Store) { s.now = now }
}

// New returns an empty store.
func New(opts ...Option) *Store {
	s := &Store{
		now:     time.Now,
		running: make(map[idempotency.Identity]struct{}),
		records: make(map[idempotency.Identity]*record),
	}
	for _, o := range opts {
		o(s)
	}
	return s
}

// Execute implements [idempotency.Store].
func (s *Store) Execute(ctx context.Context, req idempotency.Request, work idempotency.Work[struct{}]) (idempotency.Result, error) {
	if err := ctx.Err(); err != nil {
		return idempotency.Result{}, cancelled(err)
	}
	found, err := s.claim(req)
	if err != nil {
		return idempotency.Result{}, err
	}
	if found != nil {
		resp, err := found.response()
		return idempotency.Result{Response: resp, Replayed: true}, err
	}

	var finished *record // stays nil when work fails or panics
	defer func() { s.settle(req, finished) }()
	resp, err := work(ctx, struct{}{})
	if err != nil {
		return idempotency.Result{}, err
	}
	finished = newRecord(req, resp)
	return idempotency.Result{Response: resp}, nil
}

// Transact implements [idempotency.Store].
func (s *Store) Transact(ctx context.Context, work idempotency.Work[struct{}]) (idempotency.Response, error) {
	if err := ctx.Err(); err != nil {
		return idempotency.Response{}, cancelled(err)
	}
	resp, err := work(ctx, struct{}{})
	if err != nil {
		return idempotency.Response{}, err
	}
	return resp, nil
}

func cancelled(err error) error {
	return &idempotency.Error{
		Code:   idempotency.CodeUnavailable,
		Detail: "the request was cancelled before it was executed",
		Err:    err,
	}
}

// claim returns the live record of req, or holds the claim if there is none.
func (s *Store) claim(req idempotency.Request) (*record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	r, err := s.find(req, now)
	if err != nil || r != nil {
		return r, err
	}
	delete(s.records, req.Identity)
	s.running[req.Identity] = struct{}{}
	return nil, nil
}

// find returns the stored answer of req, or nil if the key can be claimed.
func (s *Store) find(req idempotency.Request, now time.Time) (*record, error) {
	r := s.records[req.Identity]
	if r != nil && !now.Before(r.expires) {
		r = nil
	}
	_, running := s.running[req.Identity]
	switch {
	case r != nil && !req.Matches(r.fingerprint[:]):
		return nil, idempotency.ErrMismatch
	case r != nil && r.leaseUntil.IsZero():
		return r, nil
	case running, r != nil && now.Before(r.leaseUntil):
		return nil, idempotency.ErrInFlight
	case r != nil:
		return nil, nil // taken over; its key is not judged
	}
	return nil, req.CheckAge(now)
}

// settle gives up the claim and keeps r, unless it is nil.
func (s *Store) settle(req idempotency.Request, r *record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, req.Identity)
	if r != nil {
		s.keep(req, r)
	}
}

// newRecord returns a record of the answer, which is to be kept.
func newRecord(req idempotency.Request, resp idempotency.Response) *record {
	return &record{
		fingerprint: req.Fingerprint,
		status:      resp.Status,
		header:      idempotency.MarshalHeader(resp.Header),
		body:        append([]byte{}, resp.Body...),
	}
}

func (s *Store) keep(req idempotency.Request, r *record) {
	r.createdAt = s.now()
	r.expires = r.createdAt.Add(req.Retention)
	s.records[req.Identity] = r
}

// response returns a copy of the stored answer, so that nobody who changes it
// changes the record.
func (r *record) response() (idempotency.Response, error) {
	h, err := idempotency.UnmarshalHeader(r.header)
	if err != nil {
		return idempotency.Response{}, err
	}
	return idempotency.Response{Status: r.status, Header: h, Body: append([]byte{}, r.body...)}, nil
}

// Sweep implements [idempotency.Keeper].
func (s *Store) Sweep(ctx context.Context) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	var n int64
	for id, r := range s.records {
		if !now.Before(r.expires) {
			delete(s.records, id)
			n++
		}
	}
	return n, nil
}

// Lookup implements [idempotency.Keeper].
func (s *Store) Lookup(_ context.Context, id idempotency.Identity) (idempotency.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.records[id]
	if r == nil {
		return idempotency.Record{}, idempotency.ErrNotFound
	}
	resp, err := r.response()
	return idempotency.Record{
		Identity:    id,
		Fingerprint: append([]byte{}, r.fingerprint[:]...),
		Response:    resp,
		CreatedAt:   r.createdAt,
		ExpiresAt:   r.expires,
		LeaseUntil:  r.leaseUntil,
	}, err
}

// Release implements [idempotency.Keeper].
func (s *Store) Release(_ context.Context, id idempotency.Identity) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, held := s.running[id]; held {
		return idempotency.ErrInFlight
	}
	switch r := s.records[id]; {
	case r == nil:
		return idempotency.ErrNotFound
	case s.now().Before(r.leaseUntil):
		return idempotency.ErrInFlight
	}
	delete(s.records, id)
	return nil
}
