package pgxstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/pgxstore"
)

// refundRequest is the request of refund.
func refundRequest() idempotency.Request {
	req := request("refund", "a")
	req.Lease = time.Minute
	return req
}

// refund makes a refund in lease mode: a call to another system that takes a key,
// which the table of effects stands for.
func refund(ctx context.Context, s *pgxstore.Store, provider *pgxpool.Pool) error {
	_, _, err := idempotency.Do(ctx, idempotency.Leases(s, time.Minute), refundRequest(), func(ctx context.Context, _ *idempotency.Lease) (string, error) {
		key, err := idempotency.DeriveUUID(ctx, "provider: refund")
		if err != nil {
			return "", err
		}
		_, err = provider.Exec(ctx, "insert into effects (key) select $1 where not exists (select from effects where key = $1)", pgx.QueryExecModeExec, key)
		if err == nil {
			_, err = provider.Exec(ctx, "select 'refunded'")
		}
		return key, err
	})
	return err
}

// passed lets a minute pass for all claims.
const passed = "update idempotency_records set lease_until = lease_until - interval '61 s', expires_at = expires_at - interval '61 s'"

// A process that is killed at any point of lease mode leaves nothing, a claim
// that is taken over when its lease has passed, or an answer. A system that
// takes derived keys has one effect in any case.
//
// Covers CRA-01, CRA-02, CRA-03, CRA-04.
func TestKilledProcessUnderALease(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, at string
		fate     fate
		claimed  bool
	}{
		{"BeforeTheClaim", "begin isolation", blackhole, false},
		{"WithTheClaim", `insert into "public"."idempotency_records" (id, lease_token`, holdAnswer, true},
		{"BeforeTheEffect", "insert into effects", blackhole, true},
		{"AfterTheEffect", "select 'refunded'", holdAnswer, true},
		{"BeforeCompletion", "update", blackhole, true},
		{"AfterCompletion", "update", holdAnswer, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dsn := newDatabase(t)
			p := newProxy(t, dsn)
			killVictim(t, p, "lease", p.onceServing(c.at, c.fate))

			pool := newPool(t, dsn)
			s := newStore(t, pool)
			err := refund(t.Context(), s, pool)
			if c.claimed {
				if !errors.Is(err, idempotency.ErrInFlight) {
					t.Errorf("retry at once: %v, want %v", err, idempotency.ErrInFlight)
				}
				if _, err := pool.Exec(t.Context(), passed); err != nil {
					t.Fatal(err)
				}
				err = refund(t.Context(), s, pool)
			}
			if err != nil {
				t.Errorf("retry: %v", err)
			}
			rec, err := s.Lookup(t.Context(), refundRequest().Identity)
			if err != nil || rec.Response.Status != 200 || !rec.LeaseUntil.IsZero() {
				t.Errorf("Lookup: %+v, %v", rec, err)
			}
			var n int
			if err := pool.QueryRow(t.Context(), "select count(*) from effects").Scan(&n); err != nil || n != 1 {
				t.Errorf("%d effects, %v", n, err)
			}
		})
	}
}

// A claim that was committed, and whose answer was lost with the store, is freed
// as soon as the store can be reached, and not when its lease has passed.
//
// Covers CRA-09.
func TestClaimThatGotNoAnswerIsFreed(t *testing.T) {
	t.Parallel()
	dsn := newDatabase(t)
	p := newProxy(t, dsn)
	s := newStore(t, newPool(t, p.dsn))
	p.before(`insert into "public"."idempotency_records" (id, lease_token`, func() { p.on("begin isolation", cut) })
	committed := p.on("commit", loseAnswer)
	req := refundRequest()
	res, err := idempotency.Leases(s, time.Minute).Execute(t.Context(), req, func(context.Context, *idempotency.Lease) (idempotency.Response, error) {
		t.Error("work ran")
		return created("refund"), nil
	})
	if !errors.Is(err, idempotency.ErrUnavailable) {
		t.Fatalf("Execute: %+v, %v, want %v", res, err, idempotency.ErrUnavailable)
	}
	<-committed
	if res := settled(t, newStore(t, newPool(t, dsn)), req, pay("refund")); res.Replayed {
		t.Errorf("Execute: %+v, want the key to be free", res)
	}
}

// A connection that ends in a step of a lease costs nothing: the step is made
// again on another one, and no attempt takes its own claim for a rival's, or its
// own completion for a lost lease.
//
// Covers CRA-08, CRA-09.
func TestConnectionEndsInAStepOfALease(t *testing.T) {
	t.Parallel()
	dsn := newDatabase(t)
	for name, step := range map[string]string{
		"Claim":      `insert into "public"."idempotency_records" (id, lease_token`,
		"Completion": `update "public"."idempotency_records" set lease_until = null`,
		"Extension":  `update "public"."idempotency_records" set lease_until = greatest`,
	} {
		for fate, how := range map[string]fate{"Cut": cut, "AnswerLost": loseAnswer} {
			t.Run(name+fate, func(t *testing.T) {
				t.Parallel()
				p := newProxy(t, dsn)
				pool := newPool(t, p.dsn, func(cfg *pgxpool.Config) { cfg.MaxConns = 2 })
				leases := idempotency.Leases(newStore(t, pool), time.Minute)
				req := refundRequest()
				req.Key = t.Name()
				struck := p.on(step, how)
				runs := 0
				work := func(ctx context.Context, l *idempotency.Lease) (idempotency.Response, error) {
					runs++
					err := l.Extend(ctx, time.Hour)
					if errors.Is(err, idempotency.ErrUnavailable) {
						err = l.Extend(ctx, time.Hour)
					}
					return created("refund"), err
				}
				for i := range 2 {
					res, err := leases.Execute(t.Context(), req, work)
					if err != nil || res.Replayed != (i == 1) || string(res.Body) != string(created("refund").Body) {
						t.Errorf("attempt %d: %+v, %v", i, res, err)
					}
				}
				<-struck
				if runs != 1 {
					t.Errorf("%d runs", runs)
				}
				waitIdle(t, pool)
			})
		}
	}
}

// A store that is gone when the answer is to be stored leaves the outcome
// unknown and the claim in place.
//
// Covers CRA-09.
func TestServerGoneBeforeCompletion(t *testing.T) {
	t.Parallel()
	dsn := newDatabase(t)
	p := newProxy(t, dsn)
	s := newStore(t, newPool(t, p.dsn))
	_, err := idempotency.Leases(s, 0).Execute(t.Context(), refundRequest(), func(context.Context, *idempotency.Lease) (idempotency.Response, error) {
		p.stop()
		return created("refund"), nil
	})
	if !errors.Is(err, idempotency.ErrOutcomeUnknown) || !errors.Is(err, idempotency.ErrUnavailable) {
		t.Errorf("%v, want %v for %v", err, idempotency.ErrOutcomeUnknown, idempotency.ErrUnavailable)
	}
	rec, err := newStore(t, newPool(t, dsn)).Lookup(t.Context(), refundRequest().Identity)
	if err != nil || rec.LeaseUntil.IsZero() {
		t.Errorf("Lookup: %+v, %v; want the claim", rec, err)
	}
}

// A lease costs three round trips and two commits beside its handler, a replay
// no more than in a transaction: the record is recalled, and nothing follows.
func TestRoundTripsOfALease(t *testing.T) {
	t.Parallel()
	pool, counter := newCountedPool(t, newDatabase(t))
	leases := idempotency.Leases(newStore(t, pool), time.Minute)
	refund := func(req idempotency.Request) func() {
		return func() {
			_, err := leases.Execute(t.Context(), req, func(context.Context, *idempotency.Lease) (idempotency.Response, error) { return created("refund"), nil })
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	req := refundRequest()
	for _, key := range []string{"first", "second", "third"} {
		req.Key = key
		var before, after int64
		if err := pool.QueryRow(t.Context(), "select txid_current()").Scan(&before); err != nil {
			t.Fatal(err)
		}
		if got := counter.during(refund(req)); got != 3 {
			t.Errorf("%s request: %d round trips, want 3", key, got)
		}
		if err := pool.QueryRow(t.Context(), "select txid_current()").Scan(&after); err != nil {
			t.Fatal(err)
		}
		if writing := after - before - 1; writing != 2 {
			t.Errorf("%s request: %d transactions that wrote, want 2", key, writing)
		}
		replay := func() {
			refund(req)()
			waitIdle(t, pool)
		}
		if got := counter.during(replay); got != 1 {
			t.Errorf("%s replay: %d round trips, want 1", key, got)
		}
	}
}

// A session's time zone moves no lease.
//
// Covers EXP-07, EXP-08.
func TestLeaseInEveryTimeZone(t *testing.T) {
	t.Parallel()
	dsn := newDatabase(t)
	for i, zone := range []string{"Pacific/Tongatapu", "America/Los_Angeles", "UTC"} {
		s := newStore(t, newPool(t, dsn+"&timezone="+zone))
		req := refundRequest()
		req.Key = fmt.Sprint(i)
		token := idempotency.LeaseToken{1}
		if _, err := s.AcquireLease(t.Context(), req, token); err != nil {
			t.Fatal(err)
		}
		for _, other := range []string{"Pacific/Tongatapu", "America/Los_Angeles", "UTC"} {
			s := newStore(t, newPool(t, dsn+"&timezone="+other))
			if _, err := s.AcquireLease(t.Context(), req, idempotency.LeaseToken{2}); !errors.Is(err, idempotency.ErrInFlight) {
				t.Errorf("%s and %s: %v, want %v", zone, other, err, idempotency.ErrInFlight)
			}
			rec, err := s.Lookup(t.Context(), req.Identity)
			if left := time.Until(rec.LeaseUntil); err != nil || left < 30*time.Second || left > 2*time.Minute {
				t.Errorf("%s and %s: the lease ends in %v, %v", zone, other, left, err)
			}
		}
	}
}

// An attempt whose lease has passed, and that completes while another one takes
// its claim over, keeps its answer, and the other one replays it.
//
// Covers CON-10.
func TestAnswerBeatsTakeOver(t *testing.T) {
	t.Parallel()
	dsn := newDatabase(t)
	admin := newPool(t, dsn)
	holder := newStore(t, admin)
	for name, attempt := range map[string]func(*pgxstore.Store, idempotency.Request) (idempotency.Result, error){
		"Lease": func(s *pgxstore.Store, req idempotency.Request) (idempotency.Result, error) {
			return s.AcquireLease(t.Context(), req, idempotency.LeaseToken{2})
		},
		"Transaction": func(s *pgxstore.Store, req idempotency.Request) (idempotency.Result, error) {
			return s.Execute(t.Context(), req, pay(req.Key))
		},
	} {
		req := refundRequest()
		req.Key = name
		if _, err := holder.AcquireLease(t.Context(), req, idempotency.LeaseToken{1}); err != nil {
			t.Fatal(err)
		}
		if _, err := admin.Exec(t.Context(), passed); err != nil {
			t.Fatal(err)
		}
		p := newProxy(t, dsn)
		s := newStore(t, newPool(t, p.dsn))
		p.before(`delete from "public"."idempotency_records" where id = $1`, func() {
			if err := holder.CompleteLease(t.Context(), req, idempotency.LeaseToken{1}, created("first")); err != nil {
				t.Error(err)
			}
		})
		res, err := attempt(s, req)
		if err != nil || !res.Replayed || string(res.Body) != string(created("first").Body) {
			t.Errorf("%s: %+v, %v; want the answer that was first", name, res, err)
		}
		if n := effects(t, admin, req.Key); n != 0 {
			t.Errorf("%s: %d effects", name, n)
		}
	}
}
