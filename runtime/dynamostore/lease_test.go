package dynamostore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/idemgen/idemgen/runtime/dynamostore"
	"github.com/idemgen/idemgen/runtime/idempotency"
)

// stored returns the item of a request in a store that has this prefix.
func (s server) stored(t *testing.T, prefix, key string) item {
	t.Helper()
	id := request(key).ID()
	out, err := newClient(s.url(t)).GetItem(t.Context(), &dynamodb.GetItemInput{
		TableName: aws.String(s.table(t)), ConsistentRead: aws.Bool(true),
		Key: item{"id": text(fmt.Sprintf("%s%x", prefix, id[:]))},
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.Item
}

// remove deletes the item of a request.
func (s server) remove(t *testing.T, prefix, key string) {
	t.Helper()
	id := request(key).ID()
	if _, err := newClient(s.url(t)).DeleteItem(t.Context(), &dynamodb.DeleteItemInput{
		TableName: aws.String(s.table(t)), Key: item{"id": text(fmt.Sprintf("%s%x", prefix, id[:]))},
	}); err != nil {
		t.Error(err)
	}
}

// A claim holds for as long as work runs, however short the lease, and no item
// of the store ever lacks a time to live.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			const lease = time.Second
			prefix := prefixOf(t)
			store := s.open(t, newClient(s.url(t)), dynamostore.WithPrefix(prefix),
				dynamostore.WithLease(lease, time.Minute), dynamostore.WithClockSkew(0))
			endless := func() {
				if i := s.stored(t, prefix, "k"); i["ttl"] == nil {
					t.Errorf("%v has no end", i)
				}
			}
			res, err := store.Execute(t.Context(), request("k"), func(ctx context.Context, _ *dynamostore.Tx) (idempotency.Response, error) {
				for start := time.Now(); time.Since(start) < 5*lease/2; {
					if _, err := store.Execute(ctx, request("k"), never(t)); !errors.Is(err, idempotency.ErrInFlight) {
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
			if res, err := store.Execute(t.Context(), request("k"), never(t)); err != nil || !res.Replayed {
				t.Errorf("retry: %+v, %v", res, err)
			}
		})
	}
}

// Work that runs for too long is told so, its answer is refused although nobody
// has taken over, and the key is free.
func TestCeiling(t *testing.T) {
	t.Parallel()
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			const ceiling = time.Second
			store := s.open(t, newClient(s.url(t)), dynamostore.WithLease(ceiling, ceiling))
			label := prefixOf(t)
			work := s.pay(t, label, "late")
			start := time.Now()
			_, err := store.Execute(t.Context(), request("k"), func(ctx context.Context, tx *dynamostore.Tx) (idempotency.Response, error) {
				<-ctx.Done()
				if passed := time.Since(start); passed < ceiling {
					t.Errorf("cancelled after %v", passed)
				}
				if cause := context.Cause(ctx); !errors.Is(cause, idempotency.ErrLeaseLost) || !strings.Contains(cause.Error(), "WithLease") {
					t.Errorf("cause %v, want a lost lease and WithLease", cause)
				}
				return work(ctx, tx)
			})
			if !errors.Is(err, idempotency.ErrUnavailable) || !errors.Is(err, idempotency.ErrLeaseLost) {
				t.Errorf("%v, want unavailable for a lost lease", err)
			}
			s.wantEffects(t, label, 0)
			if _, err := store.Execute(t.Context(), request("k"), s.pay(t, label, "second")); err != nil {
				t.Errorf("retry: %v", err)
			}
			s.wantEffects(t, label, 1)
		})
	}
}

// A holder that loses the server is told when its lease has passed. Another
// attempt takes over, in this same process too, and the first one's answer is
// refused when it gets through: while the second runs, and after it has
// completed.
//
// Covers CON-10, CON-12, EXP-12.
func TestStalledHolderIsFenced(t *testing.T) {
	t.Parallel()
	for _, s := range servers {
		for _, during := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/during=%v", s.name, during), func(t *testing.T) {
				t.Parallel()
				opts := []dynamostore.Option{
					dynamostore.WithPrefix(prefixOf(t)), dynamostore.WithClockSkew(0),
					dynamostore.WithLease(500*time.Millisecond, time.Minute),
				}
				p := newProxy(t, s.url(t))
				stalled := s.open(t, newClient(p.URL), opts...)
				other := s.open(t, newClient(s.url(t)), opts...)
				label := prefixOf(t)
				slow, quick := s.pay(t, label, "stalled"), s.pay(t, label, "other")

				outcome := make(chan error, 1)
				resume, resumed := make(chan struct{}), make(chan struct{})
				started := make(chan struct{})
				go func() {
					_, err := stalled.Execute(t.Context(), request("k"), func(ctx context.Context, tx *dynamostore.Tx) (idempotency.Response, error) {
						p.dark.Store(true)
						close(started)
						<-ctx.Done()
						if cause := context.Cause(ctx); !errors.Is(cause, idempotency.ErrLeaseLost) {
							t.Errorf("cause %v, want %v", cause, idempotency.ErrLeaseLost)
						}
						<-resume
						p.dark.Store(false)
						return slow(ctx, tx)
					})
					outcome <- err
					close(resumed)
				}()
				<-started
				res := settled(t, other, request("k"), func(ctx context.Context, tx *dynamostore.Tx) (idempotency.Response, error) {
					if during {
						close(resume)
						<-resumed
					}
					return quick(ctx, tx)
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
				s.wantEffects(t, label, 1)
				if res, err := stalled.Execute(t.Context(), request("k"), never(t)); err != nil || string(res.Body) != "other" {
					t.Errorf("retry: %+v, %v", res, err)
				}
			})
		}
	}
}

// A claim that is gone, here by another hand, is a lost one: work is cancelled,
// and its answer refused.
//
// Covers CON-12.
func TestLostClaimIsNoticed(t *testing.T) {
	t.Parallel()
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			prefix := prefixOf(t)
			client := newClient(s.url(t))
			store := s.open(t, client, dynamostore.WithPrefix(prefix), dynamostore.WithLease(time.Second, time.Minute))
			label := prefixOf(t)
			work := s.pay(t, label, "late")
			_, err := store.Execute(t.Context(), request("k"), func(ctx context.Context, tx *dynamostore.Tx) (idempotency.Response, error) {
				s.remove(t, prefix, "k")
				<-ctx.Done()
				return work(context.WithoutCancel(ctx), tx)
			})
			if !errors.Is(err, idempotency.ErrUnavailable) || !errors.Is(err, idempotency.ErrLeaseLost) {
				t.Errorf("%v, want unavailable for a lost lease", err)
			}
			s.wantEffects(t, label, 0)
		})
	}
}

// A lease that has passed by less than clocks may differ is still one, and so is
// a record whose retention is over by less.
//
// Covers EXP-07.
func TestClockSkew(t *testing.T) {
	t.Parallel()
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			prefix := dynamostore.WithPrefix(prefixOf(t))
			client := newClient(s.url(t))
			wide := s.open(t, client, prefix, dynamostore.WithClockSkew(time.Hour), dynamostore.WithLease(10*time.Millisecond, 10*time.Millisecond))
			exact := s.open(t, client, prefix, dynamostore.WithClockSkew(0))
			_, err := wide.Execute(t.Context(), request("k"), func(ctx context.Context, _ *dynamostore.Tx) (idempotency.Response, error) {
				<-ctx.Done() // the lease has passed
				if _, err := wide.Execute(t.Context(), request("k"), never(t)); !errors.Is(err, idempotency.ErrInFlight) {
					t.Errorf("with an hour's margin: %v, want in flight", err)
				}
				if err := wide.Release(t.Context(), request("k").Identity); !errors.Is(err, idempotency.ErrInFlight) {
					t.Errorf("Release with an hour's margin: %v, want in flight", err)
				}
				if res := settled(t, exact, request("k"), s.pay(t, prefixOf(t), "other")); res.Replayed {
					t.Errorf("without a margin: %+v, want a take-over", res)
				}
				return created("first"), nil
			})
			if !errors.Is(err, idempotency.ErrLeaseLost) {
				t.Errorf("%v, want a lost lease", err)
			}

			short := request("short")
			short.Retention = time.Millisecond
			for range 2 { // the second time as what is there has expired
				if res := settled(t, exact, short, s.pay(t, prefixOf(t), "short")); res.Replayed {
					t.Errorf("without a margin: %+v, want a run", res)
				}
				time.Sleep(2 * time.Millisecond)
			}
			if res, err := wide.Execute(t.Context(), short, never(t)); err != nil || !res.Replayed {
				t.Errorf("with an hour's margin: %+v, %v, want a replay", res, err)
			}
		})
	}
}

// A claim whose lease has passed can be released, and a live one cannot.
func TestReleaseOfClaim(t *testing.T) {
	t.Parallel()
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			prefix := prefixOf(t)
			client := newClient(s.url(t))
			store := s.open(t, client, dynamostore.WithPrefix(prefix), dynamostore.WithClockSkew(0),
				dynamostore.WithLease(50*time.Millisecond, 50*time.Millisecond))
			_, err := store.Execute(t.Context(), request("k"), func(ctx context.Context, _ *dynamostore.Tx) (idempotency.Response, error) {
				eventually(t, "the end of the lease", func() bool {
					err := store.Release(t.Context(), request("k").Identity)
					if err != nil && !errors.Is(err, idempotency.ErrInFlight) {
						t.Fatal(err)
					}
					return err == nil
				})
				if i := s.stored(t, prefix, "k"); i != nil {
					t.Errorf("after Release: %v", i)
				}
				if err := store.Release(t.Context(), request("k").Identity); !errors.Is(err, idempotency.ErrNotFound) {
					t.Errorf("Release again: %v", err)
				}
				return created("first"), nil
			})
			if !errors.Is(err, idempotency.ErrLeaseLost) {
				t.Errorf("%v, want a lost lease", err)
			}
		})
	}
}
