package pgxstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// Lookup implements [idempotency.Keeper].
func (s *Store) Lookup(ctx context.Context, id idempotency.Identity) (idempotency.Record, error) {
	a, err := s.connect(ctx, id)
	if err != nil {
		return idempotency.Record{}, err
	}
	defer a.rollback()
	if _, _, err := pipeline(a.pc, a.claimBy, s.sql.beginOwn.with(), s.sql.row.with(a.id[:]).into(a.found), s.sql.commit.with()); err != nil {
		return idempotency.Record{}, unavailable("the record could not be read", err)
	}
	r := a.record
	if r == nil || r.Identity != id {
		return idempotency.Record{}, idempotency.ErrNotFound
	}
	rec := idempotency.Record{
		Identity:    r.Identity,
		Fingerprint: r.Fingerprint,
		Response:    idempotency.Response{Status: r.status},
		CreatedAt:   r.createdAt,
		ExpiresAt:   r.expiresAt,
		LeaseUntil:  r.leaseUntil,
	}
	if !r.claim() {
		rec.Response, err = r.response(ctx, s.cfg.codec)
	}
	return rec, err
}

// Release implements [idempotency.Keeper].
func (s *Store) Release(ctx context.Context, id idempotency.Identity) error {
	err := s.free(ctx, id, s.sql.release)
	if errors.Is(err, idempotency.ErrChanged) { // a live claim, which is over by now
		err = idempotency.ErrInFlight
	}
	return err
}

// ReleaseEntry implements [idempotency.Lister].
func (s *Store) ReleaseEntry(ctx context.Context, e idempotency.Entry) error {
	return s.free(ctx, e.Identity, s.sql.releaseEntry, []byte(e.Version), encodeBool(e.State == idempotency.StateClaim))
}

// free deletes the record of id by remove, or says what has kept it from that.
func (s *Store) free(ctx context.Context, id idempotency.Identity, remove *statement, params ...[]byte) error {
	a, err := s.claimed(ctx, id)
	if err != nil {
		return err
	}
	defer a.rollback()
	switch {
	case !a.held && !a.live():
		return a.locked()
	case !a.recordOf(id):
		return idempotency.ErrNotFound
	}
	deleted := false
	a.record = nil
	a.recent.remove(a.lock)
	_, _, err = pipeline(a.pc, a.finishBy(),
		remove.with(append([][]byte{a.id[:]}, params...)...).into(func([][]byte) error {
			deleted = true
			return nil
		}),
		s.sql.row.with(a.id[:]).into(a.found), s.sql.commit.with())
	switch {
	case err != nil:
		return unavailable("the record could not be deleted, or nobody knows; look it up", err)
	case deleted:
		return nil
	case !a.recordOf(id): // another release was first
		return idempotency.ErrNotFound
	case a.live() && a.record.claim():
		return idempotency.ErrInFlight
	}
	return idempotency.ErrChanged
}

// recordOf reports whether what was found is a record of id.
func (a *attempt) recordOf(id idempotency.Identity) bool {
	return a.record != nil && !a.record.placeholder() && a.record.Identity == id
}

// locked says that a transaction holds the claim, and how an operator ends it.
func (a *attempt) locked() error {
	find := "pg_stat_activity shows it, if it waits for its client, as idle in transaction"
	if !a.insertFirst {
		number := uint64(a.lock ^ a.space)
		find = fmt.Sprintf("this does it, and rolls back what it has written: SELECT pg_terminate_backend(pid) FROM pg_locks"+
			" WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"+
			" AND classid = %d AND objid = %d AND objsubid = 1", number>>32, number&math.MaxUint32)
	}
	return &idempotency.Error{
		Code: idempotency.CodeInFlight,
		Err:  errors.New("a transaction holds the claim, and only its end gives it back; " + find),
	}
}

// Sweep implements [idempotency.Keeper]. Each batch is one transaction that
// skips records locked by others; between two it pauses, see [WithSweepBatch].
// One sweeper is at work at a time over all processes.
//
// Of a partitioned table Sweep also makes the partitions of the time ahead, and
// drops those whose records have all expired, which it counts first; it lets
// requests wait no longer than [WithSweepWait] says. For that its user must own the
// table.
func (s *Store) Sweep(ctx context.Context) (int64, error) {
	if s.cfg.table.partitioned {
		return s.sweepPartitions(ctx)
	}
	return s.sweepRecords(ctx, s.sql.sweepLock, s.sql.sweep)
}

// sweepPartitions sweeps a partitioned table.
func (s *Store) sweepPartitions(ctx context.Context) (int64, error) {
	var total int64
	var rest []string
	u := newUpkeep(s.cfg, s.cfg.table)
	err := s.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		if err := u.checkOwner(ctx, conn.Conn()); err != nil {
			return err
		}
		missing := u.create(ctx, conn.Conn())
		if !u.begun {
			return missing
		}
		var err error
		total, rest, err = u.drop(ctx, conn.Conn())
		return errors.Join(missing, err)
	})
	if err != nil {
		err = unavailable("the partitions could not be kept up", err)
	}
	for _, name := range rest {
		n, errRest := s.sweepRecords(ctx, s.sql.sweepWait, sweepStatement(name, s.cfg.batch))
		total += n
		if errRest != nil {
			return total, errors.Join(err, errRest)
		}
	}
	return total, err
}

// sweepRecords deletes expired records with the statement batch, which begins with
// that of lock.
func (s *Store) sweepRecords(ctx context.Context, lock, batch *statement) (int64, error) {
	var total int64
	for {
		n, err := s.sweepBatch(ctx, lock, batch)
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
func (s *Store) sweepBatch(ctx context.Context, lock, batch *statement) (int64, error) {
	a, err := s.connect(ctx, idempotency.Identity{})
	if err != nil {
		return 0, err
	}
	defer a.rollback()
	alone := s.insertFirst // no lock to be had: then skipping locked records is enough
	begin := []bound{s.sql.beginOwn.with()}
	if !s.insertFirst {
		begin = append(begin, lock.with(encodeInt8(s.space)).into(func(v [][]byte) error {
			alone = len(v[0]) == 1 && v[0][0] == 1
			return nil
		}))
	}
	if _, _, err := pipeline(a.pc, a.claimBy, begin...); err != nil {
		return 0, unavailable("the sweep could not begin", err)
	}
	if !alone {
		return 0, nil
	}
	_, tag, err := pipeline(a.pc, time.Time{}, batch.with())
	if err != nil {
		return 0, unavailable("the sweep failed", err)
	}
	if _, _, err := pipeline(a.pc, a.finishBy(), s.sql.commit.with()); err != nil {
		return 0, unavailable("the sweep could not be committed", err)
	}
	return pgconn.NewCommandTag(tag).RowsAffected(), nil
}
