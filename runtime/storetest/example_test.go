package storetest_test

import (
	"context"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/storetest"
)

// The author of a store calls the suite from a test of the store. Here the store
// is one on a ledger whose clock the test can move on.
func Example() { //nolint:testableexamples // needs a *testing.T
	TestConformance := func(t *testing.T) {
		storetest.Run(t, storetest.Harness[*ledgerTx]{
			Open: func(*testing.T) storetest.Fixture[*ledgerTx] {
				l := newLedger()
				return storetest.Fixture[*ledgerTx]{
					Store:   newLedgerStore(l, ""),
					Replica: newLedgerStore(l, ""), // as another process would have it
					Effect:  func(_ context.Context, tx *ledgerTx, label string) error { return tx.write(label) },
					Effects: func(_ context.Context, label string) (int, error) { return l.count(label), nil },
					Advance: func(_ context.Context, d time.Duration) error { l.advance(d); return nil },
				}
			},
			Faults: map[string]func(context.Context, *ledgerTx) error{
				"rollback": func(_ context.Context, tx *ledgerTx) error { tx.rollback(); return nil },
			},
		})
	}
	_ = TestConformance
}
