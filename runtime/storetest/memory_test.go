package storetest_test

import (
	"context"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
	"github.com/idemgen/idemgen/runtime/storetest"
)

// memory is a store that lists its records and has leases. Its flaw is what it
// does not look at when a record is released: see [releaseFlaws].
type memory struct {
	*memstore.Store
	flaw string
}

// ReleaseEntry implements [idempotency.Lister].
func (m memory) ReleaseEntry(ctx context.Context, e idempotency.Entry) error {
	for now := range m.List(ctx, idempotency.Filter{ID: e.ID()}) {
		switch {
		case m.flaw == "ignores the version":
			e.Version = now.Version
		case m.flaw == "ignores the state" && now.State == idempotency.StateClaim:
			e.State = now.State
		}
	}
	err := m.Store.ReleaseEntry(ctx, e)
	if m.flaw == "does not tell what was released" {
		return nil
	}
	return err
}

func memoryHarness(flaw string) storetest.Harness[struct{}] {
	return storetest.Harness[struct{}]{
		Open: func(*testing.T) storetest.Fixture[struct{}] {
			var ahead atomic.Int64
			clock := memstore.WithClock(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
			return storetest.Fixture[struct{}]{
				Store:   memory{memstore.New(clock), flaw},
				Advance: func(_ context.Context, d time.Duration) error { ahead.Add(int64(d)); return nil },
			}
		},
	}
}

func TestMemory(t *testing.T) {
	t.Parallel()
	storetest.Run(t, memoryHarness(os.Getenv(envFlaw)))
}

func TestMemoryLeases(t *testing.T) {
	t.Parallel()
	storetest.RunLeases(t, memoryHarness(os.Getenv(envFlaw)))
}
