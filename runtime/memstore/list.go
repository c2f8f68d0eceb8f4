package memstore

import (
	"context"
	"iter"
	"strconv"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// List implements [idempotency.Lister]. It is one page: the records as they are
// when it begins.
func (s *Store) List(ctx context.Context, filter idempotency.Filter) iter.Seq2[idempotency.Entry, error] {
	return func(yield func(idempotency.Entry, error) bool) {
		for _, e := range s.entries() {
			if err := ctx.Err(); err != nil {
				yield(idempotency.Entry{}, err)
				return
			}
			if filter.Selects(e) && !yield(e, nil) {
				return
			}
		}
	}
}

// Stats implements [idempotency.Lister].
func (s *Store) Stats(ctx context.Context) (stats idempotency.Stats, err error) {
	for _, e := range s.entries() {
		stats.Add(e.Operation, e.Counts())
	}
	return stats, ctx.Err()
}

// ReleaseEntry implements [idempotency.Lister].
func (s *Store) ReleaseEntry(_ context.Context, e idempotency.Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, running := s.running[e.Identity]; running {
		return idempotency.ErrInFlight
	}
	r := s.records[e.Identity]
	if r == nil {
		return idempotency.ErrNotFound
	}
	live := s.now().Before(r.leaseUntil)
	switch same := r.version() == e.Version; {
	case live && (!same || e.State != idempotency.StateClaim):
		return idempotency.ErrInFlight
	case !same:
		return idempotency.ErrChanged
	}
	delete(s.records, e.Identity)
	return nil
}

// version is [idempotency.Entry.Version].
func (r *record) version() string { return strconv.FormatUint(r.number, 10) }

func (s *Store) entries() []idempotency.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	entries := make([]idempotency.Entry, 0, len(s.records))
	for id, r := range s.records {
		entries = append(entries, idempotency.Entry{
			Identity:   id,
			State:      idempotency.StateOf(now, r.leaseUntil, r.expires),
			Status:     r.status,
			Bytes:      int64(len(r.header) + len(r.body)),
			CreatedAt:  r.createdAt,
			ExpiresAt:  r.expires,
			LeaseUntil: r.leaseUntil,
			Version:    r.version(),
		})
	}
	return entries
}
