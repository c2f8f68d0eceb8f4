package sqlstore

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// expired is a database with a number of expired records.
type expired struct {
	engine
	records int64
}

func (e *expired) sweep(_ context.Context, limit int) (int64, error) {
	n := min(e.records, int64(limit))
	e.records -= n
	return n, nil
}

// Between two batches, and only there, a sweeper lets other writers have their
// turn.
func TestSweepPauses(t *testing.T) {
	t.Parallel()
	for records, pauses := range map[int64]time.Duration{0: 0, 999: 0, 1000: 20 * time.Millisecond, 2500: 40 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			s := &Store{engine: &expired{records: records}}
			began := time.Now()
			n, err := s.Sweep(t.Context())
			if n != records || err != nil {
				t.Errorf("%d records swept, %v; want %d", n, err, records)
			}
			if took := time.Since(began); took != pauses {
				t.Errorf("%d records: pauses of %v, want %v", records, took, pauses)
			}
		})
	}
}
