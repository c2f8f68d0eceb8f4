package pgxstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/pgxstore"
)

// never is work that must not run.
func never(t *testing.T) idempotency.Work[pgx.Tx] {
	return func(context.Context, pgx.Tx) (idempotency.Response, error) {
		t.Error("work ran")
		return idempotency.Response{}, errors.New("work ran")
	}
}

// A store that cannot claim does not run work.
//
// Covers CRA-16, STO-17.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	short := pgxstore.WithClaimTimeout(200 * time.Millisecond)
	for name, broken := range map[string]func(t *testing.T, dsn string) *pgxstore.Store{
		"PoolExhausted": func(t *testing.T, dsn string) *pgxstore.Store {
			pool := newPool(t, dsn, func(cfg *pgxpool.Config) { cfg.MaxConns = 1 })
			s := newStore(t, pool, short)
			conn, err := pool.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(conn.Release)
			return s
		},
		"PoolClosed": func(t *testing.T, dsn string) *pgxstore.Store {
			pool := newPool(t, dsn)
			s := newStore(t, pool)
			pool.Close()
			return s
		},
		"ConnectionRefused": func(t *testing.T, dsn string) *pgxstore.Store {
			p := newProxy(t, dsn)
			pool := newPool(t, p.dsn)
			s := newStore(t, pool, short)
			p.stop()
			return s
		},
		"NoAnswer": func(t *testing.T, dsn string) *pgxstore.Store {
			p := newProxy(t, dsn)
			s := newStore(t, newPool(t, p.dsn), short)
			p.on("begin", blackhole)
			return s
		},
		"ConnectionLost": func(t *testing.T, dsn string) *pgxstore.Store {
			p := newProxy(t, dsn)
			s := newStore(t, newPool(t, p.dsn))
			p.on("begin", cut)
			return s
		},
		"ServerProcessEnded": func(t *testing.T, dsn string) *pgxstore.Store {
			pool := newPool(t, dsn)
			s := newStore(t, pool)
			_, err := newPool(t, dsn).Exec(t.Context(), "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()")
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		"ReadOnly": func(t *testing.T, dsn string) *pgxstore.Store {
			pool := newPool(t, dsn)
			s := newStore(t, pool)
			for _, conn := range pool.AcquireAllIdle(t.Context()) {
				if _, err := conn.Exec(t.Context(), "set default_transaction_read_only = on"); err != nil {
					t.Fatal(err)
				}
				conn.Release()
			}
			return s
		},
		"ReadOnlyWithRecalledRecord": func(t *testing.T, dsn string) *pgxstore.Store {
			pool := newPool(t, dsn, func(cfg *pgxpool.Config) { cfg.MaxConns = 1 })
			s := newStore(t, pool)
			execute(t, s, "k", "k")
			if _, err := pool.Exec(t.Context(), "set default_transaction_read_only = on"); err != nil {
				t.Fatal(err)
			}
			return s
		},
		"TableGone": func(t *testing.T, dsn string) *pgxstore.Store {
			pool := newPool(t, dsn)
			s := newStore(t, pool)
			if _, err := pool.Exec(t.Context(), "drop table idempotency_records"); err != nil {
				t.Fatal(err)
			}
			return s
		},
		"CallerGone": func(t *testing.T, dsn string) *pgxstore.Store {
			p := newProxy(t, dsn)
			s := newStore(t, newPool(t, p.dsn))
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := broken(t, newDatabase(t))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if name == "CallerGone" {
				cancel()
			}
			_, err := s.Execute(ctx, request("k", "a"), never(t))
			if !errors.Is(err, idempotency.ErrUnavailable) {
				t.Errorf("Execute: %v", err)
			}
			if name == "CallerGone" && !errors.Is(err, context.Canceled) {
				t.Errorf("Execute: %v hides its cause", err)
			}
		})
	}
}

// A caller who goes away while the claim is on its way is noticed before work
// runs; one who goes away in the handler leaves nothing or all.
//
// Covers CTX-01.
func TestCallerGoesAway(t *testing.T) {
	t.Parallel()
	dsn := newDatabase(t)
	p := newProxy(t, dsn)
	pool := newPool(t, dsn)
	s := newStore(t, newPool(t, p.dsn))

	ctx, cancel := context.WithCancel(t.Context())
	p.before("begin isolation", cancel)
	if _, err := s.Execute(ctx, request("claim", "a"), never(t)); !errors.Is(err, idempotency.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled in the claim: %v", err)
	}

	ctx, cancel = context.WithCancel(t.Context())
	_, err := s.Execute(ctx, request("statement", "a"), answering("statement", func(ctx context.Context, tx pgx.Tx) error {
		p.before("select 'slow'", cancel)
		_, err := tx.Exec(ctx, "select 'slow' from pg_sleep(30)")
		return err
	}))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled in a statement: %v", err)
	}
	if n := effects(t, pool, "statement"); n != 0 {
		t.Errorf("cancelled in a statement: %d effects", n)
	}
	if res := settled(t, s, request("statement", "a"), pay("statement")); res.Replayed {
		t.Error("cancelled in a statement: an answer was stored")
	}

	// Work that does not care is committed all the same.
	ctx, cancel = context.WithCancel(t.Context())
	res, err := s.Execute(ctx, request("end", "a"), answering("end", func(context.Context, pgx.Tx) error {
		cancel()
		return nil
	}))
	if err != nil || res.Replayed {
		t.Errorf("cancelled at the end: %+v, %v", res, err)
	}
	if n := effects(t, pool, "end"); n != 1 {
		t.Errorf("cancelled at the end: %d effects", n)
	}
	if res := settled(t, s, request("end", "a"), never(t)); !res.Replayed {
		t.Error("cancelled at the end: no answer was stored")
	}
}

// A connection lost in the handler is an error of its statements; if work does
// not mind, the request is unavailable. Either way nothing is kept.
func TestConnectionLostInHandler(t *testing.T) {
	t.Parallel()
	dsn := newDatabase(t)
	p := newProxy(t, dsn)
	s := newStore(t, newPool(t, p.dsn))
	_, err := s.Execute(t.Context(), request("k", "a"), answering("k", func(ctx context.Context, tx pgx.Tx) error {
		p.on("select 'lost'", cut)
		_, _ = tx.Exec(ctx, "select 'lost'")
		return nil
	}))
	if !errors.Is(err, idempotency.ErrUnavailable) {
		t.Errorf("%v", err)
	}
	if n := effects(t, newPool(t, dsn), "k"); n != 0 {
		t.Errorf("%d effects", n)
	}
	if res := settled(t, s, request("k", "a"), pay("k")); res.Replayed {
		t.Error("an answer was stored")
	}
}

// A panic rolls back, frees the key and goes on as it was.
//
// Covers CTX-04.
func TestPanic(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDatabase(t))
	s := newStore(t, pool)
	value := new(int)
	func() {
		defer func() {
			if r := recover(); r != value {
				t.Errorf("recovered %v", r)
			}
		}()
		_, _ = s.Execute(t.Context(), request("k", "a"), answering("k", func(context.Context, pgx.Tx) error { panic(value) }))
	}()
	if pool.Stat().AcquiredConns() != 0 {
		t.Error("the connection is not given back")
	}
	if n := effects(t, pool, "k"); n != 0 {
		t.Errorf("%d effects", n)
	}
	if res, err := s.Execute(t.Context(), request("k", "a"), pay("k")); err != nil || res.Replayed {
		t.Errorf("retry: %+v, %v", res, err)
	}
}

// 50 duplicates of a request that is running, on a pool of 10: its own
// statements and other requests find connections all the time.
//
// Covers CON-06, CON-07, CON-09.
func TestDuplicatesDoNotStarveThePool(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDatabase(t), func(cfg *pgxpool.Config) { cfg.MaxConns = 10 })
	s := newStore(t, pool)
	var duplicates sync.WaitGroup
	done := make(chan struct{})
	_, err := s.Execute(t.Context(), request("k", "a"), answering("k", func(ctx context.Context, tx pgx.Tx) error {
		for range 50 {
			duplicates.Go(func() {
				for {
					_, err := s.Execute(ctx, request("k", "a"), never(t))
					select {
					case <-done:
						return
					default:
					}
					if !errors.Is(err, idempotency.ErrInFlight) {
						t.Errorf("duplicate: %v", err)
						return
					}
				}
			})
		}
		for i := range 20 {
			key := fmt.Sprintf("bystander-%d", i)
			if _, err := s.Execute(ctx, request(key, "a"), pay(key)); err != nil {
				t.Error(err)
			}
			if _, err := tx.Exec(ctx, "select 1"); err != nil {
				return err
			}
		}
		close(done)
		return nil
	}))
	duplicates.Wait()
	if err != nil {
		t.Fatal(err)
	}
}

// 32 goroutines press a few keys with duplicates that come at all moments:
// each key has one effect, and each caller its answer.
//
// Covers CON-01, CON-08, CON-14.
func TestOneEffectForEachKey(t *testing.T) {
	t.Parallel()
	for name, dsn := range map[string]func(t *testing.T) string{
		"Direct":               func(t *testing.T) string { return newDatabase(t) },
		"PgBouncer":            newBouncedDatabase,
		"WithoutAdvisoryLocks": newDatabaseWithoutLocks,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const goroutines, keys = 32, 60
			dsn := dsn(t)
			pool := newPool(t, dsn)
			// Two stores on two pools are two processes to the database.
			stores := []*pgxstore.Store{newStore(t, pool), newStore(t, newPool(t, dsn))}
			var wg sync.WaitGroup
			for g := range goroutines {
				wg.Go(func() {
					for k := range keys {
						key := fmt.Sprint((k + g/4) % keys) // eight start at each key
						res := settled(t, stores[g%2], request(key, "a"), pay(key))
						if string(res.Body) != `{"id":"`+key+`"}` {
							t.Errorf("key %s: %+v", key, res)
						}
					}
				})
			}
			wg.Wait()
			for k := range keys {
				if n := effects(t, pool, fmt.Sprint(k)); n != 1 {
					t.Errorf("key %d: %d effects", k, n)
				}
			}
		})
	}
}

// A pool of one connection is enough, also for a replay that follows another.
//
// Covers STO-20.
func TestPoolOfOne(t *testing.T) {
	t.Parallel()
	s := newStore(t, newPool(t, newDatabase(t), func(cfg *pgxpool.Config) { cfg.MaxConns = 1 }))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 10 {
				key := fmt.Sprint(i % 4)
				if res := settled(t, s, request(key, "a"), pay(key)); res.Status != 201 {
					t.Errorf("%+v", res)
				}
			}
		})
	}
	wg.Wait()
}

// What cannot be stored is refused before it runs.
func TestRequestsThatCannotBeStored(t *testing.T) {
	t.Parallel()
	s := newStore(t, newPool(t, newDatabase(t)))
	for want, change := range map[string]func(*idempotency.Request){
		"retention": func(r *idempotency.Request) { r.Retention = 0 },
		"scope":     func(r *idempotency.Request) { r.Scope = "a\x00b" },
		"operation": func(r *idempotency.Request) { r.Operation = "\xff" },
	} {
		req := request("k", "a")
		change(&req)
		if _, err := s.Execute(t.Context(), req, never(t)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	_, err := s.Execute(t.Context(), request("k", "a"), func(context.Context, pgx.Tx) (idempotency.Response, error) {
		return idempotency.Response{Status: 70000}, nil
	})
	if err == nil || !strings.Contains(err.Error(), "status") {
		t.Errorf("status: %v", err)
	}
}
