package dynamostore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/idemgen/idemgen/runtime/dynamostore"
	"github.com/idemgen/idemgen/runtime/idempotency"
)

// A first request makes two round trips, and a replay one, or two where the
// server does not send what stands in the way of a claim.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	for _, s := range servers {
		for name, sends := range map[string]bool{"SendsItems": true, "DoesNot": false} {
			t.Run(s.name+name, func(t *testing.T) {
				t.Parallel()
				if s.name == service.name && !sends {
					t.Skip("the service itself always sends items")
				}
				more := int64(0)
				if !sends {
					more = 1
				}
				p := newProxy(t, s.url(t))
				p.oldItems.Store(sends)
				store := s.open(t, newClient(p.URL))
				work := s.pay(t, prefixOf(t), "first")
				trips := func(what string, want int64, f func()) {
					t.Helper()
					before := p.trips.Load()
					f()
					if n := p.trips.Load() - before; n != want {
						t.Errorf("%s: %d round trips, want %d", what, n, want)
					}
				}
				execute := func(req idempotency.Request, work idempotency.Work[*dynamostore.Tx], want error) func() {
					return func() {
						if _, err := store.Execute(t.Context(), req, work); !errors.Is(err, want) {
							t.Errorf("%v, want %v", err, want)
						}
					}
				}
				trips("first request", 2+1+more, execute(request("k"), func(ctx context.Context, tx *dynamostore.Tx) (idempotency.Response, error) {
					trips("in flight", 1+more, execute(request("k"), never(t), idempotency.ErrInFlight))
					return work(ctx, tx)
				}, nil))
				trips("replay", 1+more, execute(request("k"), never(t), nil))
				other := request("k")
				other.Fingerprint = idempotency.FingerprintOf([]byte("other"))
				trips("mismatch", 1+more, execute(other, never(t), idempotency.ErrMismatch))
				failure := errors.New("failure")
				trips("failure", 2, execute(request("failing"), func(context.Context, *dynamostore.Tx) (idempotency.Response, error) {
					return idempotency.Response{}, failure
				}, failure))
				transact := int64(0)
				if s.transactions {
					transact = 1
				}
				trips("without a key", transact, func() {
					if _, err := store.Transact(t.Context(), work); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}
