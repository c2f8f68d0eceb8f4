package retry_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/retry"
)

// BenchmarkSend is a call that succeeds at once, and one that is sent twice,
// beside the same requests without the loop.
func BenchmarkSend(b *testing.B) {
	k := idempotency.MustParseKey[chargeOp](key)
	in := idempotency.Seal(k, input{Body: "body"})
	fine := doerFunc(reply(200, "", "ok"))
	b.Run("without", func(b *testing.B) {
		b.ReportAllocs()
		e := exchange("http://server/charges", fine, nil)
		for b.Loop() {
			req, err := e.Build(in.Value())
			if err != nil {
				b.Fatal(err)
			}
			resp, err := e.Doer.Do(req.WithContext(b.Context()))
			if err != nil {
				b.Fatal(err)
			}
			if _, err := e.Parse(resp); err != nil {
				b.Fatal(err)
			}
		}
	})
	twice := 0
	for name, doer := range map[string]retry.Doer{
		"one attempt": fine,
		"two attempts": doerFunc(func(req *http.Request) (*http.Response, error) {
			if twice++; twice%2 == 1 {
				return nil, errBroken
			}
			return fine(req)
		}),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			sender := retry.New(retry.WithClock(time.Now, func(context.Context, time.Duration) {}))
			e := exchange("http://server/charges", doer, nil)
			for b.Loop() {
				if _, err := retry.Send(b.Context(), sender, k, in, e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
