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
	now   func() time.Time
	codec idempotency.Codec // nil where answers are stored as they are

	mu      sync.Mutex
	running map[idempotency.Identity]struct{} // claims; an entry lives as long as its work
	records map[idempotency.Identity]*record
	puts    uint64 // how many records there have been
}

type record struct {
	number             uint64 // among all that there have been
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
	_ idempotency.Lister               = (*Store)(nil)
)

// Option changes a default of [New].
type Option func(*Store)

// WithClock makes the store read the time from now instead of [time.Now], so
// that a test can let an answer expire. The function must be safe for
// concurrent use.
func WithClock(now func() time.Time) Option {
	return func(s *Store) { s.now = now }
}

// WithCodec sets the form in which answers are kept, such as that of package
// answercodec. Defaults to none.
func WithCodec(c idempotency.Codec) Option {
	return func(s *Store) { s.codec = c }
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
		return s.replay(ctx, req, found)
	}

	var finished *record // stays nil when work fails or panics
	defer func() { s.settle(req, finished) }()
	resp, err := work(ctx, struct{}{})
	if err != nil {
		return idempotency.Result{}, err
	}
	if finished, err = s.newRecord(ctx, req, resp); err != nil {
		return idempotency.Result{}, err
	}
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
func (s *Store) newRecord(ctx context.Context, req idempotency.Request, resp idempotency.Response) (*record, error) {
	header, body, err := idempotency.EncodeAnswer(ctx, s.codec, req, resp)
	if err != nil {
		return nil, err
	}
	return &record{
		fingerprint: req.Fingerprint,
		status:      resp.Status,
		header:      header,
		body:        append([]byte{}, body...),
	}, nil
}

func (s *Store) keep(req idempotency.Request, r *record) {
	r.createdAt = s.now()
	r.expires = r.createdAt.Add(req.Retention)
	s.put(req.Identity, r)
}

func (s *Store) put(id idempotency.Identity, r *record) {
	s.puts++
	r.number = s.puts
	s.records[id] = r
}

// replay answers req from r.
func (s *Store) replay(ctx context.Context, req idempotency.Request, r *record) (idempotency.Result, error) {
	resp, err := s.response(ctx, req.Identity, r)
	return idempotency.Result{Response: resp, Replayed: err == nil}, err
}

// response returns a copy of the stored answer, so that nobody who changes it
// changes the record.
func (s *Store) response(ctx context.Context, id idempotency.Identity, r *record) (idempotency.Response, error) {
	return idempotency.DecodeAnswer(ctx, s.codec, idempotency.StoredAnswer{
		Identity: id, Fingerprint: r.fingerprint[:], Status: r.status, Header: r.header, Body: append([]byte{}, r.body...),
	})
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
func (s *Store) Lookup(ctx context.Context, id idempotency.Identity) (rec idempotency.Record, err error) {
	s.mu.Lock()
	r := s.records[id]
	if r == nil {
		s.mu.Unlock()
		return idempotency.Record{}, idempotency.ErrNotFound
	}
	found := *r // a claim is extended in place
	s.mu.Unlock()
	rec = idempotency.Record{
		Identity:    id,
		Fingerprint: append([]byte{}, found.fingerprint[:]...),
		CreatedAt:   found.createdAt,
		ExpiresAt:   found.expires,
		LeaseUntil:  found.leaseUntil,
	}
	if found.leaseUntil.IsZero() {
		rec.Response, err = s.response(ctx, id, &found)
	}
	return rec, err
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
