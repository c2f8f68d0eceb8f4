package pgxstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// Lookup implements [idempotency.Keeper].
func (s *Store) Lookup(ctx context.Context, id idempotency.Identity) (idempotency.Record, error) {
	a, deadline, err := s.connect(ctx)
	if err != nil {
		return idempotency.Record{}, err
	}
	defer a.done()
	hash := id.ID()
	if _, _, err := pipeline(a.pc, deadline, s.sql.row.with(hash[:]).into(a.found)); err != nil {
		return idempotency.Record{}, unavailable("the record could not be read", err)
	}
	r := a.record
	if r == nil || r.Identity != id {
		return idempotency.Record{}, idempotency.ErrNotFound
	}
	resp, err := r.response()
	if err != nil {
		return idempotency.Record{}, err
	}
	return idempotency.Record{
		Identity:    r.Identity,
		Fingerprint: r.Fingerprint,
		Response:    resp,
		CreatedAt:   r.createdAt,
		ExpiresAt:   r.expiresAt,
	}, nil
}

// A replay holds its claim for a moment after it is answered, so Release asks
// again before it calls a claim on a live record held.
const (
	releaseTries = 20
	releasePause = 10 * time.Millisecond
)

// Release implements [idempotency.Keeper].
func (s *Store) Release(ctx context.Context, id idempotency.Identity) error {
	for range releaseTries {
		a, err := s.claimed(ctx, id)
		if err != nil {
			return err
		}
		switch {
		case a.held:
			return a.remove(id)
		case !a.live():
			a.rollback()
			return idempotency.ErrInFlight
		}
		a.rollback()
		if err := sleep(ctx, releasePause); err != nil {
			return unavailable("the release was cancelled", err)
		}
	}
	return idempotency.ErrInFlight
}

// remove deletes the record that the claim has found, and commits.
func (a *attempt) remove(id idempotency.Identity) error {
	if r := a.record; r == nil || r.placeholder() || r.Identity != id {
		a.rollback()
		return idempotency.ErrNotFound
	}
	hash := id.ID()
	_, _, err := pipeline(a.pc, a.finishBy(), a.sql.release.with(hash[:]), a.sql.commit.with())
	a.rollback()
	if err != nil {
		return unavailable("the record could not be deleted, or nobody knows; look it up", err)
	}
	return nil
}

// Sweep implements [idempotency.Keeper]. Each batch is one transaction that
// skips records locked by others; between two it pauses, see [WithSweepBatch].
// One sweeper is at work at a time over all processes.
func (s *Store) Sweep(ctx context.Context) (int64, error) {
	var total int64
	for {
		n, err := s.sweepBatch(ctx)
		total += n
		if err != nil || n < int64(s.cfg.batch) {
			return total, err
		}
		if err := sleep(ctx, s.cfg.pause); err != nil {
			return total, err
		}
	}
}

// sweepBatch deletes one batch, or nothing while another sweeper does.
func (s *Store) sweepBatch(ctx context.Context) (int64, error) {
	a, deadline, err := s.connect(ctx)
	if err != nil {
		return 0, err
	}
	defer a.rollback()
	alone := s.insertFirst // no lock to be had: then skipping locked records is enough
	begin := []bound{s.sql.sweepBegin.with()}
	if !s.insertFirst {
		begin = append(begin, s.sql.sweepLock.with(encodeInt8(s.space)).into(func(v [][]byte) error {
			alone = len(v[0]) == 1 && v[0][0] == 1
			return nil
		}))
	}
	if _, _, err := pipeline(a.pc, deadline, begin...); err != nil {
		return 0, unavailable("the sweep could not begin", err)
	}
	if !alone {
		return 0, nil
	}
	_, tag, err := pipeline(a.pc, time.Time{}, s.sql.sweep.with())
	if err != nil {
		return 0, unavailable("the sweep failed", err)
	}
	if _, _, err := pipeline(a.pc, a.finishBy(), s.sql.commit.with()); err != nil {
		return 0, unavailable("the sweep could not be committed", err)
	}
	return pgconn.NewCommandTag(tag).RowsAffected(), nil
}
