package pgxstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/pgxstore"
)

// lose makes the server raise an error with this SQLSTATE.
func lose(ctx context.Context, tx pgx.Tx, state string) error {
	_, err := tx.Exec(ctx, fmt.Sprintf("do $$ begin raise exception 'lost' using errcode = '%s'; end $$", state))
	return err
}

// A transaction that lost against another one runs again, three times in all,
// however its error comes back.
//
// Covers ERR-07.
func TestConflictRunsAgain(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDatabase(t))
	s := newStore(t, pool)
	for name, work := range map[string]misuse{
		"Serialization": func(ctx context.Context, tx pgx.Tx) error { return lose(ctx, tx, "40001") },
		"Deadlock":      func(ctx context.Context, tx pgx.Tx) error { return lose(ctx, tx, "40P01") },
		"Wrapped": func(ctx context.Context, tx pgx.Tx) error {
			return fmt.Errorf("save the payment: %w", lose(ctx, tx, "40001"))
		},
		"Hidden": func(ctx context.Context, tx pgx.Tx) error {
			return errors.New("save the payment: " + lose(ctx, tx, "40001").Error())
		},
		"Ignored": func(ctx context.Context, tx pgx.Tx) error {
			_ = lose(ctx, tx, "40001")
			_, _ = tx.Exec(ctx, "select 1")
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, c := range []struct{ losses, runs int }{{1, 2}, {2, 3}, {3, 3}} {
				key := fmt.Sprintf("%s-%d", name, c.losses)
				runs := 0
				_, err := s.Execute(t.Context(), request(key, "a"), answering(key, func(ctx context.Context, tx pgx.Tx) error {
					if runs++; runs <= c.losses {
						return work(ctx, tx)
					}
					return nil
				}))
				if runs != c.runs {
					t.Errorf("%d losses: %d runs, want %d", c.losses, runs, c.runs)
				}
				want := 1
				if c.losses == c.runs {
					want = 0
					if !errors.Is(err, idempotency.ErrUnavailable) {
						t.Errorf("%d losses: %v", c.losses, err)
					}
				} else if err != nil {
					t.Errorf("%d losses: %v", c.losses, err)
				}
				if n := effects(t, pool, key); n != want {
					t.Errorf("%d losses: %d effects, want %d", c.losses, n, want)
				}
			}
		})
	}
}

// A conflict that work has undone with a savepoint is none.
func TestConflictInSavepointIsWorks(t *testing.T) {
	t.Parallel()
	s := newStore(t, newPool(t, newDatabase(t)))
	runs := 0
	_, err := s.Execute(t.Context(), request("k", "a"), answering("k", func(ctx context.Context, tx pgx.Tx) error {
		runs++
		sp, err := tx.Begin(ctx)
		if err != nil {
			return err
		}
		_ = lose(ctx, sp, "40001")
		return sp.Rollback(ctx)
	}))
	if err != nil || runs != 1 {
		t.Errorf("%d runs, %v", runs, err)
	}
}

// A conflict that COMMIT finds runs again too: here two serializable
// transactions that each read what the other writes.
//
// Covers ERR-07, STO-19.
func TestConflictAtCommit(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDatabase(t))
	s := newStore(t, pool, pgxstore.WithIsolation(pgx.Serializable))
	var first sync.WaitGroup
	first.Add(2)
	var requests sync.WaitGroup
	var mu sync.Mutex
	runs := map[string]int{}
	for _, key := range []string{"a", "b"} {
		requests.Go(func() {
			_, err := s.Execute(t.Context(), request(key, "x"), func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
				mu.Lock()
				runs[key]++
				firstRun := runs[key] == 1
				mu.Unlock()
				var n int
				if err := tx.QueryRow(ctx, "select count(*) from effects").Scan(&n); err != nil {
					return idempotency.Response{}, err
				}
				if firstRun {
					first.Done()
					first.Wait() // both have read before either writes
				}
				return pay(fmt.Sprintf("saw %d", n))(ctx, tx)
			})
			if err != nil {
				t.Errorf("%s: %v", key, err)
			}
		})
	}
	requests.Wait()
	if runs["a"]+runs["b"] < 3 {
		t.Errorf("%v runs: nothing ran again", runs)
	}
	for key, want := range map[string]int{"saw 0": 1, "saw 1": 1} {
		if n := effects(t, pool, key); n != want {
			t.Errorf("%d effects %q, want %d", n, key, want)
		}
	}
}

// Twenty serializable writers with keys of their own, each of which reads what the
// others write: whoever loses too often is told to come again, and each has one
// effect at last.
//
// Covers STO-19.
func TestSerializableWriters(t *testing.T) {
	t.Parallel()
	const writers = 20
	pool := newPool(t, newDatabase(t))
	s := newStore(t, pool, pgxstore.WithIsolation(pgx.Serializable))
	var attempts, refused atomic.Int64
	var wg sync.WaitGroup
	for i := range writers {
		key := fmt.Sprint(i)
		work := answering(key, func(ctx context.Context, tx pgx.Tx) error {
			var n int
			return tx.QueryRow(ctx, "select count(*) from effects").Scan(&n)
		})
		wg.Go(func() {
			for t.Context().Err() == nil {
				attempts.Add(1)
				_, err := s.Execute(t.Context(), request(key, "x"), work)
				if err == nil {
					return
				}
				var refusal *idempotency.Error
				if !errors.As(err, &refusal) || refusal.Code != idempotency.CodeUnavailable {
					t.Errorf("%s: %v, want unavailable", key, err)
					return
				}
				refused.Add(1)
			}
		})
	}
	wg.Wait()
	t.Logf("%d writers made %d attempts, of which %d lost too many conflicts", writers, attempts.Load(), refused.Load())
	for i := range writers {
		if n := effects(t, pool, fmt.Sprint(i)); n != 1 {
			t.Errorf("%d effects %d", n, i)
		}
	}
}

// Two requests that lock rows against each other: the server ends one of
// them, which runs again.
//
// Covers ERR-07.
func TestDeadlock(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDatabase(t)+"&deadlock_timeout=50ms")
	s := newStore(t, pool)
	if _, err := pool.Exec(t.Context(), "create table accounts (id int primary key, n int); insert into accounts values (1, 0), (2, 0)"); err != nil {
		t.Fatal(err)
	}
	var first sync.WaitGroup
	first.Add(2)
	var requests sync.WaitGroup
	for i := range 2 {
		runs := 0
		requests.Go(func() {
			_, err := s.Execute(t.Context(), request(fmt.Sprint(i), "x"), func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
				runs++
				for step := range 2 {
					if _, err := tx.Exec(ctx, "update accounts set n = n + 1 where id = $1", (i+step)%2+1); err != nil {
						return idempotency.Response{}, err
					}
					if step == 0 && runs == 1 {
						first.Done()
						first.Wait()
					}
				}
				return created("k"), nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	requests.Wait()
	var sum int
	if err := pool.QueryRow(t.Context(), "select sum(n) from accounts").Scan(&sum); err != nil || sum != 4 {
		t.Errorf("%d updates, want 4; %v", sum, err)
	}
}

// Where the lock does not keep a duplicate out, the unique index does: the
// one that comes last is rolled back and answered from the record.
//
// Covers CON-01, CON-02, CON-08.
func TestUniqueIndexIsTheGuarantee(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, body string
		want       error
	}{
		{"SameRequest", "a", nil},
		{"AnotherRequest", "b", idempotency.ErrMismatch},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dsn := newDatabase(t) + "&search_path=broken,public,pg_catalog"
			pool := newPool(t, dsn)
			lock := func(result string) {
				_, err := pool.Exec(t.Context(), `create schema if not exists broken;
					create or replace function broken.pg_try_advisory_xact_lock(n bigint) returns boolean language sql as 'select `+result+`'`)
				if err != nil {
					t.Fatal(err)
				}
			}
			lock("pg_catalog.pg_try_advisory_xact_lock(n)")
			s, other := newStore(t, pool), newStore(t, newPool(t, dsn))
			lock("true") // after the stores have found it working
			runs := 0
			res, err := s.Execute(t.Context(), request("k", "a"), answering("k", func(ctx context.Context, tx pgx.Tx) error {
				runs++
				_, err := other.Execute(ctx, request("k", c.body), pay("k"))
				return err
			}))
			if !errors.Is(err, c.want) || runs != 1 {
				t.Errorf("%d runs, %v", runs, err)
			}
			if c.want == nil && !res.Replayed {
				t.Errorf("%+v, want a replay", res)
			}
			if n := effects(t, pool, "k"); n != 1 {
				t.Errorf("%d effects", n)
			}
		})
	}
}

// An application that holds the very lock of a key, by whatever chance, delays
// requests under this key: no other key, and no answer that is stored. Keys of
// one moment have locks of their own.
//
// Covers STO-13.
func TestLockOfAnother(t *testing.T) {
	t.Parallel()
	dsn := newDatabase(t)
	pool := newPool(t, dsn)
	s := newStore(t, pool)
	lockOf := func(key string) (n int64) {
		t.Helper()
		rolledBack := errors.New("only looking")
		_, err := s.Execute(t.Context(), request(key, "a"), func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
			err := tx.QueryRow(ctx, `select classid::bigint << 32 | objid::bigint from pg_locks
				where locktype = 'advisory' and pid = pg_backend_pid() and objsubid = 1`).Scan(&n)
			return idempotency.Response{}, errors.Join(rolledBack, err)
		})
		if !errors.Is(err, rolledBack) || n == 0 {
			t.Fatalf("%s has lock %d, %v", key, n, err)
		}
		return n
	}
	const keys = 50
	locks, high, low := map[int64]bool{}, map[int64]bool{}, map[int64]bool{}
	for i := range keys {
		n := lockOf(fmt.Sprintf("01890a5d-ac96-774b-bcce-b302099a%04x", i))
		locks[n], high[n>>32], low[n&(1<<32-1)] = true, true, true
	}
	if len(locks) != keys || len(high) != keys || len(low) != keys {
		t.Errorf("%d keys of one millisecond have %d locks, whose halves take %d and %d values", keys, len(locks), len(high), len(low))
	}

	held := []int64{lockOf("new"), lockOf("stored")}
	settled(t, s, request("stored", "a"), pay("stored"))
	application, err := newPool(t, dsn).Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer application.Release()
	for _, n := range held {
		if _, err := application.Exec(t.Context(), "select pg_advisory_lock($1)", n); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Execute(t.Context(), request("new", "a"), never(t)); !errors.Is(err, idempotency.ErrInFlight) {
		t.Errorf("a key whose lock is held elsewhere: %v", err)
	}
	if res, err := s.Execute(t.Context(), request("stored", "a"), never(t)); err != nil || !res.Replayed {
		t.Errorf("a stored answer: %+v, %v", res, err)
	}
	settled(t, s, request("other", "a"), pay("other"))
	if _, err := application.Exec(t.Context(), "select pg_advisory_unlock_all()"); err != nil {
		t.Fatal(err)
	}
	settled(t, s, request("new", "a"), pay("new"))
	for _, key := range []string{"new", "stored", "other"} {
		if n := effects(t, pool, key); n != 1 {
			t.Errorf("%d effects %s", n, key)
		}
	}
}

// A unique violation of work's own tables is work's error, as it is; so is a
// constraint of theirs that COMMIT checks.
func TestViolationsOfWorksTables(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDatabase(t))
	s := newStore(t, pool)
	_, err := pool.Exec(t.Context(), `create table once (id int primary key);
		create table later (id int unique deferrable initially deferred); insert into once values (1); insert into later values (1)`)
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"once", "later"} {
		runs := 0
		_, err := s.Execute(t.Context(), request(table, "a"), answering(table, func(ctx context.Context, tx pgx.Tx) error {
			runs++
			_, err := tx.Exec(ctx, "insert into "+table+" values (1)")
			return err
		}))
		var pg *pgconn.PgError
		var refusal *idempotency.Error
		if !errors.As(err, &pg) || pg.Code != "23505" || errors.As(err, &refusal) || runs != 1 {
			t.Errorf("%s: %d runs, %v", table, runs, err)
		}
		if refused := new(idempotency.CommitError); errors.As(err, &refused) != (table == "later") {
			t.Errorf("%s: %T", table, err)
		}
		if n := effects(t, pool, table); n != 0 {
			t.Errorf("%s: %d effects", table, n)
		}
	}
}
