package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

const (
	// sweepBatch is how many records one transaction deletes.
	sweepBatch = 1000
	// sweepPause lets other writers have their turn between two batches.
	sweepPause = 20 * time.Millisecond
)

// Sweep implements [idempotency.Keeper]. It deletes 1,000 records at a time
// and pauses for 20 ms in between. Of sweepers in several processes one works
// at a time; on SQLite, and on the nodes of a Galera cluster, they share the
// work.
func (s *Store) Sweep(ctx context.Context) (int64, error) {
	if !s.sweeping.TryLock() {
		return 0, nil
	}
	defer s.sweeping.Unlock()
	var swept int64
	for {
		n, err := s.engine.sweep(ctx, sweepBatch)
		swept += n
		if err != nil {
			return swept, fmt.Errorf("sqlstore: sweep: %w", err)
		}
		if n < sweepBatch {
			return swept, nil
		}
		if err := sleep(ctx, sweepPause); err != nil {
			return swept, fmt.Errorf("sqlstore: sweep: %w", err)
		}
	}
}

// Lookup implements [idempotency.Keeper].
func (s *Store) Lookup(ctx context.Context, id idempotency.Identity) (idempotency.Record, error) {
	_, r, err := s.engine.find(ctx, id.ID())
	if err != nil {
		return idempotency.Record{}, err
	}
	if r == nil || r.Identity != id {
		return idempotency.Record{}, idempotency.ErrNotFound
	}
	rec := idempotency.Record{
		Identity:    r.Identity,
		Fingerprint: r.fingerprint,
		CreatedAt:   time.UnixMilli(r.created),
		ExpiresAt:   time.UnixMilli(r.expiresAt),
	}
	if r.claim() {
		rec.LeaseUntil = time.UnixMilli(r.leaseUntil)
		return rec, nil
	}
	rec.Response, err = s.response(ctx, r)
	return rec, err
}

// Release implements [idempotency.Keeper]. On SQLite it knows the claims of
// this Store alone, on a Galera cluster those of its own node. It deletes the
// record that it has found when it was called, and never one that an attempt
// in another process has completed since.
func (s *Store) Release(ctx context.Context, id idempotency.Identity) error {
	if k := keyOf(id); s.claims.has(k.id) { // whose transaction may hold the only connection
		return s.locked(k)
	}
	found := idempotency.Entry{Identity: id} // of no record
	for e, err := range s.List(ctx, idempotency.Filter{ID: id.ID()}) {
		if err != nil {
			return err
		}
		if e.Identity == id {
			found = e
		}
	}
	found.State = 0 // a claim that is live stays
	err := s.ReleaseEntry(ctx, found)
	if errors.Is(err, idempotency.ErrChanged) {
		return idempotency.ErrNotFound
	}
	return err
}

// releasable says why the record of id cannot be released, or nil: it is in flight
// while a transaction has its claim.
func (s *Store) releasable(ctx context.Context, k key, id idempotency.Identity) error {
	if s.claims.has(k.id) {
		return s.locked(k)
	}
	var r *record
	var err error
	if s.engine.oneWriter() {
		_, r, err = s.engine.find(ctx, k.id)
	} else {
		var a *attempt
		if a, err = s.engine.claim(ctx, k); err == nil {
			a.end(s.finishTimeout)
			if r = a.record; !a.held && !r.live() {
				return s.locked(k)
			}
		}
	}
	switch {
	case err != nil:
		return fmt.Errorf("sqlstore: release: %w", err)
	case r == nil, r.Identity != id:
		return idempotency.ErrNotFound
	}
	return nil
}

// locked says that a transaction holds the claim of k, and how an operator ends
// it.
func (s *Store) locked(k key) error {
	return &idempotency.Error{
		Code: idempotency.CodeInFlight,
		Err:  errors.New("a transaction holds the claim, and only its end gives it back; " + s.engine.listing().terminate(k)),
	}
}
