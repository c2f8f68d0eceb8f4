package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/internal/testenv"
	"github.com/idemgen/idemgen/runtime/redisstore"
)

// A claim holds for as long as work runs, however short the lease, and no key
// of the store ever lacks an end.
//
// Covers STO-04.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	client := newSingle(t)
	const lease = time.Second
	prefix := prefixOf(t)
	s := newStore(t, client, redisstore.WithPrefix(prefix), redisstore.WithLease(lease, time.Minute))
	endless := func() {
		err := eachKey(t.Context(), client, prefix+"*", func(key string) error {
			left, err := client.PTTL(t.Context(), key).Result()
			if left == -1 {
				t.Errorf("%s has no end", key)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	res, err := s.Execute(t.Context(), request("k"), func(ctx context.Context, tx *redisstore.Tx) (idempotency.Response, error) {
		for start := time.Now(); time.Since(start) < 5*lease/2; {
			if _, err := s.Execute(ctx, request("k"), never(t)); !errors.Is(err, idempotency.ErrInFlight) {
				t.Errorf("a duplicate: %v, want in flight", err)
			}
			endless()
			time.Sleep(lease / 30)
		}
		return created("first"), ctx.Err()
	})
	if err != nil || res.Replayed {
		t.Errorf("%+v, %v", res, err)
	}
	endless()
	if res, err := s.Execute(t.Context(), request("k"), never(t)); err != nil || !res.Replayed {
		t.Errorf("retry: %+v, %v", res, err)
	}
}

// Work that runs for too long is told so, its answer is refused although nobody
// has taken over, and the key is free.
func TestCeiling(t *testing.T) {
	t.Parallel()
	client := newSingle(t)
	const ceiling = time.Second
	s := newStore(t, client, redisstore.WithLease(ceiling, ceiling))
	label := prefixOf(t)
	start := time.Now()
	_, err := s.Execute(t.Context(), request("k"), func(ctx context.Context, tx *redisstore.Tx) (idempotency.Response, error) {
		<-ctx.Done()
		if passed := time.Since(start); passed < ceiling {
			t.Errorf("cancelled after %v", passed)
		}
		if cause := context.Cause(ctx); !errors.Is(cause, idempotency.ErrLeaseLost) || !strings.Contains(cause.Error(), "WithLease") {
			t.Errorf("cause %v, want a lost lease and WithLease", cause)
		}
		return pay(label, "late")(ctx, tx)
	})
	if !errors.Is(err, idempotency.ErrUnavailable) || !errors.Is(err, idempotency.ErrLeaseLost) {
		t.Errorf("%v, want unavailable for a lost lease", err)
	}
	wantEffects(t, client, label, 0)
	if _, err := s.Execute(t.Context(), request("k"), pay(label, "second")); err != nil {
		t.Errorf("retry: %v", err)
	}
	wantEffects(t, client, label, 1)
}

// A holder that loses the server is told when its lease has passed. Another
// attempt takes over, in this same process too, and the first one's answer is
// refused when it gets through: while the second runs, and after it has
// completed.
//
// Covers CON-10, CON-12, EXP-12.
func TestStalledHolderIsFenced(t *testing.T) {
	t.Parallel()
	for _, during := range []bool{true, false} {
		t.Run(fmt.Sprintf("during=%v", during), func(t *testing.T) {
			t.Parallel()
			client := newSingle(t)
			prefix := redisstore.WithPrefix(prefixOf(t))
			lease := redisstore.WithLease(500*time.Millisecond, time.Minute)
			p := newProxy(t, testenv.Redis(t))
			stalled := newStore(t, newClient(t, p.addr, func(o *redis.Options) { o.ReadTimeout = 100 * time.Millisecond }), prefix, lease)
			other := newStore(t, client, prefix)
			label := prefixOf(t)

			outcome := make(chan error, 1)
			resume, resumed := make(chan struct{}), make(chan struct{})
			started := make(chan struct{})
			go func() {
				_, err := stalled.Execute(t.Context(), request("k"), func(ctx context.Context, tx *redisstore.Tx) (idempotency.Response, error) {
					p.darken(true)
					close(started)
					<-ctx.Done()
					if cause := context.Cause(ctx); !errors.Is(cause, idempotency.ErrLeaseLost) {
						t.Errorf("cause %v, want %v", cause, idempotency.ErrLeaseLost)
					}
					<-resume
					p.darken(false)
					return pay(label, "stalled")(ctx, tx)
				})
				outcome <- err
				close(resumed)
			}()
			<-started
			res := settled(t, other, request("k"), func(ctx context.Context, tx *redisstore.Tx) (idempotency.Response, error) {
				if during {
					close(resume)
					<-resumed
				}
				return pay(label, "other")(ctx, tx)
			})
			if res.Replayed || string(res.Body) != "other" {
				t.Errorf("take-over: %+v", res)
			}
			if !during {
				close(resume)
			}
			if err := <-outcome; !errors.Is(err, idempotency.ErrUnavailable) || !errors.Is(err, idempotency.ErrLeaseLost) {
				t.Errorf("stalled holder: %v, want unavailable for a lost lease", err)
			}
			wantEffects(t, client, label, 1)
			if res, err := stalled.Execute(t.Context(), request("k"), never(t)); err != nil || string(res.Body) != "other" {
				t.Errorf("retry: %+v, %v", res, err)
			}
		})
	}
}

// The holder whose lease has passed is refused as well when nobody has taken
// over: somebody may have, and finished.
func TestLapsedLeaseIsRefused(t *testing.T) {
	t.Parallel()
	client := newSingle(t)
	prefix := prefixOf(t)
	s := newStore(t, client, redisstore.WithPrefix(prefix))
	label := prefixOf(t)
	_, err := s.Execute(t.Context(), request("k"), func(ctx context.Context, tx *redisstore.Tx) (idempotency.Response, error) {
		err := eachKey(ctx, client, prefix+"*", func(key string) error { return client.PExpire(ctx, key, time.Millisecond).Err() })
		if err != nil {
			t.Error(err)
		}
		eventually(t, "the end of the lease", func() bool {
			n := 0
			err := eachKey(ctx, client, prefix+"*", func(string) error { n++; return nil })
			return n == 0 && err == nil
		})
		return pay(label, "late")(ctx, tx)
	})
	if !errors.Is(err, idempotency.ErrUnavailable) {
		t.Errorf("%v, want unavailable", err)
	}
	wantEffects(t, client, label, 0)
}

// Of 16 claimers of each of 200 keys one executes.
//
// Covers CON-01, CON-09.
func TestRace(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(testing.TB) redis.UniversalClient{"Single": newSingle, "Cluster": newCluster} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const keys, claimers = 200, 16
			prefix := redisstore.WithPrefix(prefixOf(t))
			stores := []*redisstore.Store{newStore(t, open(t), prefix), newStore(t, open(t), prefix)}
			label := prefixOf(t)
			var runs [keys]atomic.Int64
			var wg sync.WaitGroup
			for c := range claimers {
				wg.Go(func() {
					for k := range keys {
						_, err := stores[c%2].Execute(t.Context(), request(fmt.Sprint(k)), func(ctx context.Context, tx *redisstore.Tx) (idempotency.Response, error) {
							runs[k].Add(1)
							return created(fmt.Sprint(k)), effect(ctx, tx, label)
						})
						if err != nil && !errors.Is(err, idempotency.ErrInFlight) {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			for k := range keys {
				if n := runs[k].Load(); n != 1 {
					t.Errorf("key %d ran %d times", k, n)
				}
			}
			wantEffects(t, open(t), label, keys)
		})
	}
}
