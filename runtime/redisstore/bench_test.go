package redisstore_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/redisstore"
)

// The benchmarks compare two sides in one run, in slices that take turns, and
// report the median of the slices' ratios: absolute numbers of one machine say
// nothing about another. An iteration is one slice of each side.
//
//	go test -run '^$' -bench . -benchtime 20x ./redisstore

// slice is how long one side runs before it is the other's turn.
const slice = 150 * time.Millisecond

// compare runs base and other in turns and reports rate(other)/rate(base).
func compare(b *testing.B, clients int, metric string, base, other func(context.Context) error) {
	rate(b, clients, base)
	rate(b, clients, other)
	var ratios []float64
	for b.Loop() {
		r := rate(b, clients, base)
		ratios = append(ratios, rate(b, clients, other)/r)
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], metric)
}

// rate returns how often clients call f in a second.
func rate(b *testing.B, clients int, f func(context.Context) error) float64 {
	var calls atomic.Int64
	start := time.Now()
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for time.Since(start) < slice {
				if err := f(b.Context()); err != nil {
					b.Error(err)
					return
				}
				calls.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(calls.Load()) / time.Since(start).Seconds()
}

// BenchmarkStore compares a first request that queues two writes with these two
// in a bare MULTI (one round trip, where a first request needs two) and with
// the SET NX and SET by which one would claim and complete without a store; and
// a replay with a GET of a value of the same size.
func BenchmarkStore(b *testing.B) {
	answer := idempotency.Response{
		Status: 201,
		Header: http.Header{"Content-Type": {"application/json"}, "Location": {"/payments/0190f2b5-7b1e-7c3a-8f00"}},
		Body:   []byte(`{"id":"0190f2b5","note":"` + strings.Repeat("abcdefghijklmnop", 30) + `____"}`),
	}
	for name, open := range map[string]func(testing.TB) redis.UniversalClient{"Single": newSingle, "Cluster": newCluster} {
		client := open(b)
		s := newStore(b, client)
		prefix := prefixOf(b)
		var keys atomic.Int64
		key := func() string { return fmt.Sprint(prefix, keys.Add(1)) }
		writes := func(ctx context.Context, p redis.Pipeliner, key func(string) string) {
			p.Set(ctx, key("payment"), "5", time.Minute)
			p.Set(ctx, key("balance"), "5", time.Minute)
		}
		first := func(ctx context.Context) error {
			req := request(key())
			req.Retention = time.Minute
			_, err := s.Execute(ctx, req, func(ctx context.Context, tx *redisstore.Tx) (idempotency.Response, error) {
				return answer, tx.Queue(func(p redis.Pipeliner) error { writes(ctx, p, tx.Key); return nil })
			})
			return err
		}
		multi := func(ctx context.Context) error {
			tag := "{" + key() + "}:"
			_, err := client.TxPipelined(ctx, func(p redis.Pipeliner) error {
				writes(ctx, p, func(name string) string { return tag + name })
				return nil
			})
			return err
		}
		sets := func(ctx context.Context) error {
			key := key()
			if err := client.SetNX(ctx, key, "claimed", time.Minute).Err(); err != nil {
				return err
			}
			return client.Set(ctx, key, answer.Body, time.Minute).Err()
		}
		replay := func(ctx context.Context) error {
			_, err := s.Execute(ctx, request("replayed"), func(context.Context, *redisstore.Tx) (idempotency.Response, error) { return answer, nil })
			return err
		}
		if err := client.Set(b.Context(), prefix, answer.Body, time.Hour).Err(); err != nil {
			b.Fatal(err)
		}
		get := func(ctx context.Context) error { return client.Get(ctx, prefix).Err() }
		for _, clients := range []int{1, 8} {
			for _, c := range []struct {
				name, metric string
				base, other  func(context.Context) error
			}{
				{"FirstAgainstMulti", "x-MULTI", multi, first},
				{"FirstAgainstSets", "x-SETNX+SET", sets, first},
				{"ReplayAgainstGet", "x-GET", get, replay},
			} {
				b.Run(fmt.Sprintf("%s/%s/clients=%d", name, c.name, clients), func(b *testing.B) {
					compare(b, clients, c.metric, c.base, c.other)
				})
			}
		}
	}
}
