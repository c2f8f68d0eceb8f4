package sqlstore

import (
	"context"
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
// and pauses for 20 ms in between. Sweepers in several processes take turns
// and share the work.
func (s *Store) Sweep(ctx context.Context) (int64, error) {
	if !s.sweeping.TryLock() {
		return 0, nil
	}
	defer s.sweeping.Unlock()
	var swept int64
	for {
		result, err := s.db.ExecContext(ctx, s.texts.sweep, sweepBatch)
		if err != nil {
			return swept, fmt.Errorf("sqlstore: sweep: %w", err)
		}
		n, err := result.RowsAffected()
		if err != nil {
			return swept, fmt.Errorf("sqlstore: sweep: %w", err)
		}
		swept += n
		if n < sweepBatch {
			return swept, nil
		}
		select {
		case <-ctx.Done():
			return swept, fmt.Errorf("sqlstore: sweep: %w", ctx.Err())
		case <-time.After(sweepPause):
		}
	}
}

// Lookup implements [idempotency.Keeper].
func (s *Store) Lookup(ctx context.Context, id idempotency.Identity) (idempotency.Record, error) {
	r, err := find(ctx, s.stmts.read, id.ID())
	if err != nil {
		return idempotency.Record{}, err
	}
	if r == nil || r.Identity != id {
		return idempotency.Record{}, idempotency.ErrNotFound
	}
	resp, err := r.response()
	if err != nil {
		return idempotency.Record{}, err
	}
	return idempotency.Record{
		Identity:    r.Identity,
		Fingerprint: r.fingerprint,
		Response:    resp,
		CreatedAt:   time.UnixMilli(r.created),
		ExpiresAt:   time.UnixMilli(r.expiresAt),
	}, nil
}

// Release implements [idempotency.Keeper]. It knows the claims of this process
// alone. It deletes the record that it has found when it was called, and never
// one that an attempt in another process has completed since.
func (s *Store) Release(ctx context.Context, id idempotency.Identity) error {
	row := id.ID()
	if s.claims.has(row) {
		return idempotency.ErrInFlight
	}
	rec, err := s.Lookup(ctx, id)
	if err != nil {
		return err
	}
	result, err := s.db.ExecContext(ctx, s.texts.release, row[:], rec.CreatedAt.UnixMilli())
	if err != nil {
		return fmt.Errorf("sqlstore: release: %w", err)
	}
	n, err := result.RowsAffected()
	if err != nil {
		return fmt.Errorf("sqlstore: release: %w", err)
	}
	if n == 0 { // swept or released by somebody else meanwhile
		return idempotency.ErrNotFound
	}
	return nil
}
