package memstore_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/internal/testcodec"
	"github.com/idemgen/idemgen/runtime/memstore"
	"github.com/idemgen/idemgen/runtime/storetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, harness())
}

// Answers that are compressed and encrypted are kept as others are.
func TestConformanceWithCodec(t *testing.T) {
	t.Parallel()
	codec := memstore.WithCodec(testcodec.Encrypting(t))
	storetest.Run(t, harness(codec))
	t.Run("Leases", func(t *testing.T) {
		t.Parallel()
		storetest.RunLeases(t, harness(codec))
	})
}

func TestLeases(t *testing.T) {
	t.Parallel()
	storetest.RunLeases(t, harness())
}

func harness(opts ...memstore.Option) storetest.Harness[struct{}] {
	return storetest.Harness[struct{}]{
		Open: func(*testing.T) storetest.Fixture[struct{}] {
			var ahead atomic.Int64
			now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
			return storetest.Fixture[struct{}]{
				Store: memstore.New(append([]memstore.Option{memstore.WithClock(now)}, opts...)...),
				Advance: func(_ context.Context, d time.Duration) error {
					ahead.Add(int64(d))
					return nil
				},
			}
		},
	}
}

func BenchmarkFirst(b *testing.B) {
	s := memstore.New()
	req := idempotency.Request{
		Identity:  idempotency.Identity{Scope: "tenant", Operation: "createPayment"},
		Retention: time.Hour,
	}
	keys := make([]string, b.N)
	for i := range keys {
		keys[i] = time.Duration(i).String()
	}
	answer := idempotency.Response{Status: 201, Header: http.Header{"Content-Type": {"application/json"}}, Body: make([]byte, 512)}
	work := func(context.Context, struct{}) (idempotency.Response, error) { return answer, nil }
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		req.Key = keys[i]
		if _, err := s.Execute(b.Context(), req, work); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReplay(b *testing.B) {
	s := memstore.New()
	req := idempotency.Request{
		Identity:  idempotency.Identity{Scope: "tenant", Operation: "createPayment", Key: "k"},
		Retention: time.Hour,
	}
	answer := idempotency.Response{Status: 201, Header: http.Header{"Content-Type": {"application/json"}}, Body: make([]byte, 512)}
	work := func(context.Context, struct{}) (idempotency.Response, error) { return answer, nil }
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Execute(b.Context(), req, work); err != nil {
			b.Fatal(err)
		}
	}
}
