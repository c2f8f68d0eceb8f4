package pgxstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/pgxstore"
)

// expire lets all records expire.
const expire = "update idempotency_records set expires_at = now()"

// execute runs a request that makes an effect for each key.
func execute(t *testing.T, s *pgxstore.Store, keys ...string) {
	t.Helper()
	for _, key := range keys {
		if _, err := s.Execute(t.Context(), request(key, "a"), pay(key)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSweepInBatches(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDatabase(t))
	s := newStore(t, pool, pgxstore.WithSweepBatch(3, time.Millisecond))
	execute(t, s, "1", "2", "3", "4", "5", "6", "7", "8")
	if _, err := pool.Exec(t.Context(), expire); err != nil {
		t.Fatal(err)
	}
	execute(t, s, "live")
	if n, err := s.Sweep(t.Context()); n != 8 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := s.Lookup(t.Context(), request("live", "a").Identity); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if n, err := s.Sweep(ctx); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %d, %v", n, err)
	}
}

// One sweeper is at work at a time, and none waits for another.
func TestOneSweeperAtATime(t *testing.T) {
	t.Parallel()
	dsn := newDatabase(t)
	pool := newPool(t, dsn)
	p := newProxy(t, dsn)
	first, second := newStore(t, newPool(t, p.dsn)), newStore(t, pool)
	execute(t, second, "k")
	if _, err := pool.Exec(t.Context(), expire); err != nil {
		t.Fatal(err)
	}
	p.before(`delete from "public"."idempotency_records" where id = any`, func() {
		if n, err := second.Sweep(t.Context()); n != 0 || err != nil {
			t.Errorf("second sweeper: %d, %v", n, err)
		}
	})
	if n, err := first.Sweep(t.Context()); n != 1 || err != nil {
		t.Errorf("first sweeper: %d, %v", n, err)
	}
}

// Sweeping uses the index on expires_at, and a claim the one on id.
//
// Covers EXP-10.
func TestIndexesAreUsed(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDatabase(t), func(cfg *pgxpool.Config) { cfg.MaxConns = 1 })
	s := newStore(t, pool)
	for range 3 { // until the statements are prepared
		execute(t, s, "k")
		if _, err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	_, err := pool.Exec(t.Context(), `insert into idempotency_records
		select gen_random_uuid(), now(), now() + i * interval '1 second', 201, 's', 'o', i::text, '\x01', '', ''
		from generate_series(-5000, 100000) i; analyze idempotency_records`)
	if err != nil {
		t.Fatal(err)
	}
	for like, want := range map[string]struct{ parameters, index string }{
		`delete from % for update skip locked%`:                       {"", "idempotency_records_expires_at"},
		`select % from "public"."idempotency_records" where id = $1%`: {"('00000000-0000-0000-0000-000000000000')", "idempotency_records_pkey"},
	} {
		var name string
		if err := pool.QueryRow(t.Context(), "select name from pg_prepared_statements where statement like $1", like).Scan(&name); err != nil {
			t.Fatal(err)
		}
		rows, _ := pool.Query(t.Context(), "explain execute "+name+want.parameters, pgx.QueryExecModeExec)
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(plan, "\n"); !strings.Contains(text, "using "+want.index) || strings.Contains(text, "Seq Scan") {
			t.Errorf("%s does not use %s alone:\n%s", like, want.index, text)
		}
	}
}

// A replay holds nothing beyond its answer: what comes next finds the key as
// it would without the replay.
func TestReplayHoldsNoClaim(t *testing.T) {
	t.Parallel()
	dsn := newDatabase(t)
	p := newProxy(t, dsn)
	pool := newPool(t, dsn)
	s := newStore(t, pool)
	for i, next := range []func() error{
		func() error { return s.Release(t.Context(), request("k", "a").Identity) },
		func() error { _, err := pool.Exec(t.Context(), expire); return err },
	} {
		execute(t, s, "k")
		replaying := newStore(t, newPool(t, p.dsn)) // recalls nothing
		rollback := p.on("rollback", blackhole)     // the replay's connection stays as it is
		execute(t, replaying, "k")
		<-rollback
		if err := next(); err != nil {
			t.Fatal(err)
		}
		if res, err := s.Execute(t.Context(), request("k", "a"), pay("k")); err != nil || res.Replayed {
			t.Errorf("%d: %+v, %v", i, res, err)
		}
		if n := effects(t, pool, "k"); n != i+2 {
			t.Errorf("%d: %d effects, want %d", i, n, i+2)
		}
	}
	p.stop()
}

// A store that recalls a record reads it alone: the replay holds no claim and
// no transaction. When the record has gone or has expired meanwhile, or is
// another one, it is found out by the claim as ever.
func TestRecalledRecordDecides(t *testing.T) {
	t.Parallel()
	dsn := newDatabase(t)
	pool, own := newPool(t, dsn), newPool(t, dsn, func(cfg *pgxpool.Config) { cfg.MaxConns = 1 })
	s, recalling := newStore(t, pool), newStore(t, own)
	id := request("k", "a").Identity
	made := 0
	for name, gone := range map[string]func() error{
		"released": func() error { return s.Release(t.Context(), id) },
		"expired":  func() error { _, err := pool.Exec(t.Context(), expire); return err },
		"deleted":  func() error { _, err := pool.Exec(t.Context(), "delete from idempotency_records"); return err },
	} {
		execute(t, recalling, "k")
		made++
		if res, err := recalling.Execute(t.Context(), request("k", "a"), never(t)); err != nil || !res.Replayed {
			t.Errorf("%s: before: %+v, %v", name, res, err)
		}
		if _, err := recalling.Execute(t.Context(), request("k", "b"), never(t)); !errors.Is(err, idempotency.ErrMismatch) {
			t.Errorf("%s: other content: %v", name, err)
		}
		var open int
		err := pool.QueryRow(t.Context(), `select count(*) from pg_stat_activity where datname = current_database()
			and state like 'idle in transaction%'`).Scan(&open)
		if err != nil || open != 0 {
			t.Errorf("%s: %d open transactions after replays, %v", name, open, err)
		}
		if err := gone(); err != nil {
			t.Fatal(err)
		}
		// Another store makes the next record, with another answer.
		_, err = s.Execute(t.Context(), request("k", "b"), pay("k"))
		made++
		if err != nil {
			t.Errorf("%s: by another store: %v", name, err)
		}
		if _, err := recalling.Execute(t.Context(), request("k", "a"), never(t)); !errors.Is(err, idempotency.ErrMismatch) {
			t.Errorf("%s: the next record: %v", name, err)
		}
		if err := recalling.Release(t.Context(), id); err != nil {
			t.Errorf("%s: release: %v", name, err)
		}
		if n := effects(t, pool, "k"); n != made {
			t.Errorf("%s: %d effects, want %d", name, n, made)
		}
	}
}

// A request writes one row, once: neither its claim nor its replays, nor those
// that are refused or fail, leave a row to update or to vacuum.
//
// Covers EXP-13.
func TestRequestWritesOneRow(t *testing.T) {
	t.Parallel()
	dsn := newDatabase(t)
	admin, pool := newPool(t, dsn), newPool(t, dsn)
	s, other := newStore(t, pool), newStore(t, pool)
	const requests = 10
	for i := range requests {
		key := strconv.Itoa(i)
		_, err := s.Execute(t.Context(), request(key, "a"), answering(key, func(ctx context.Context, tx pgx.Tx) error {
			if _, err := other.Execute(ctx, request(key, "a"), never(t)); !errors.Is(err, idempotency.ErrInFlight) {
				t.Errorf("duplicate: %v", err)
			}
			return nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		execute(t, s, key)
		execute(t, other, key, key)
		if _, err := s.Execute(t.Context(), request(key, "b"), never(t)); !errors.Is(err, idempotency.ErrMismatch) {
			t.Errorf("mismatch: %v", err)
		}
		if _, err := s.Execute(t.Context(), request(key+"failed", "a"), answering(key, func(context.Context, pgx.Tx) error {
			return pgx.ErrNoRows
		})); !errors.Is(err, pgx.ErrNoRows) {
			t.Errorf("failed: %v", err)
		}
	}
	pool.Close()     // the server counts at the latest when a session ends
	const probes = 2 // New stores a record and rolls it back
	var inserted, updated, deleted, dead int
	for inserted < requests+probes {
		err := admin.QueryRow(t.Context(), `select n_tup_ins, n_tup_upd, n_tup_del, n_dead_tup from pg_stat_user_tables
			where relname = 'idempotency_records'`).Scan(&inserted, &updated, &deleted, &dead)
		if err != nil {
			t.Fatal(err)
		}
	}
	if inserted != requests+probes || updated != 0 || deleted != 0 || dead != probes {
		t.Errorf("%d requests: %d rows inserted, %d updated, %d deleted, %d dead", requests, inserted, updated, deleted, dead)
	}
}

// A record that is deleted between the two statements of a claim leaves the
// claim without a lock: it is made again before work runs.
//
// Covers CON-14.
func TestRecordVanishesDuringClaim(t *testing.T) {
	t.Parallel()
	dsn := newDatabase(t)
	p := newProxy(t, dsn)
	pool, proxied := newPool(t, dsn), newPool(t, p.dsn)
	s := newStore(t, proxied)
	proxied.Reset() // on the next connection no statement is prepared yet
	execute(t, newStore(t, pool), "k")
	p.before("select scope", func() {
		// The second statement is parsed and waits to be carried out: so the
		// first one has been.
		for waiting := 0; waiting == 0; {
			err := pool.QueryRow(t.Context(), `select count(*) from pg_stat_activity where datname = current_database()
				and query like 'select scope%' and wait_event = 'ClientRead'`).Scan(&waiting)
			if err != nil {
				t.Error(err)
				return
			}
		}
		if _, err := pool.Exec(t.Context(), "delete from idempotency_records"); err != nil {
			t.Error(err)
		}
	})
	_, err := s.Execute(t.Context(), request("k", "a"), answering("k", func(ctx context.Context, tx pgx.Tx) error {
		if _, err := newStore(t, pool).Execute(ctx, request("k", "a"), never(t)); !errors.Is(err, idempotency.ErrInFlight) {
			t.Errorf("beside it: %v", err)
		}
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	if n := effects(t, pool, "k"); n != 2 {
		t.Errorf("%d effects, want one before and one after the deletion", n)
	}
}

// Releases at the same time delete a record once.
func TestReleaseTogether(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDatabase(t))
	s := newStore(t, pool)
	execute(t, s, "k")
	var released atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			switch err := s.Release(t.Context(), request("k", "a").Identity); {
			case err == nil:
				released.Add(1)
			case !errors.Is(err, idempotency.ErrNotFound) && !errors.Is(err, idempotency.ErrInFlight):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := released.Load(); n != 1 {
		t.Errorf("%d releases, want 1", n)
	}
}

// Times are points in time: what the sessions call noon does not matter, and
// a day of retention is 24 hours also where the clocks change.
//
// Covers EXP-08.
func TestSessionTimeZones(t *testing.T) {
	t.Parallel()
	dsn := newDatabase(t)
	zones := []string{"UTC", "Pacific/Auckland", "America/Los_Angeles", "Europe/Berlin"}
	var stores []*pgxstore.Store
	for _, zone := range zones {
		stores = append(stores, newStore(t, newPool(t, dsn+"&timezone="+zone)))
	}
	for i, s := range stores {
		req := request(zones[i], "a")
		req.Retention = 300 * 24 * time.Hour // over two changes of the clocks
		before := time.Now()
		if _, err := s.Execute(t.Context(), req, pay(zones[i])); err != nil {
			t.Fatal(err)
		}
		for j, other := range stores {
			res, err := other.Execute(t.Context(), req, pay(zones[i]))
			if err != nil || !res.Replayed {
				t.Errorf("stored in %s, replayed in %s: %+v, %v", zones[i], zones[j], res, err)
			}
			rec, err := other.Lookup(t.Context(), req.Identity)
			if err != nil {
				t.Fatal(err)
			}
			if d := rec.ExpiresAt.Sub(rec.CreatedAt); d != req.Retention {
				t.Errorf("stored in %s, kept for %v by %s", zones[i], d, zones[j])
			}
			if d := rec.CreatedAt.Sub(before); d < -time.Minute || d > time.Minute {
				t.Errorf("stored in %s at %v by %s, want about %v", zones[i], rec.CreatedAt, zones[j], before)
			}
			if n, err := other.Sweep(t.Context()); n != 0 || err != nil {
				t.Errorf("swept in %s: %d, %v", zones[j], n, err)
			}
		}
	}
}

// The retention of less than a second and of centuries is kept exactly.
func TestRetentionIsExact(t *testing.T) {
	t.Parallel()
	s := newStore(t, newPool(t, newDatabase(t)))
	for i, d := range []time.Duration{time.Microsecond, 1500 * time.Millisecond, 24 * time.Hour, 290 * 365 * 24 * time.Hour} {
		req := request(fmt.Sprint(i), "a")
		req.Retention = d
		if _, err := s.Execute(t.Context(), req, pay("k")); err != nil {
			t.Fatal(err)
		}
		rec, err := s.Lookup(t.Context(), req.Identity)
		if err != nil || rec.ExpiresAt.Sub(rec.CreatedAt) != d {
			t.Errorf("kept for %v instead of %v; %v", rec.ExpiresAt.Sub(rec.CreatedAt), d, err)
		}
	}
}

// An identity whose 16 bytes are another's gets a mismatch, never its answer.
func TestCollisionIsMismatch(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDatabase(t))
	s := newStore(t, pool)
	execute(t, s, "k")
	for _, column := range []string{"scope", "operation", "key"} {
		if _, err := pool.Exec(t.Context(), "update idempotency_records set "+column+" = "+column+" || 'x'"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Execute(t.Context(), request("k", "a"), never(t)); !errors.Is(err, idempotency.ErrMismatch) {
			t.Errorf("another %s: %v", column, err)
		}
		if _, err := s.Lookup(t.Context(), request("k", "a").Identity); !errors.Is(err, idempotency.ErrNotFound) {
			t.Errorf("another %s: lookup: %v", column, err)
		}
		if err := s.Release(t.Context(), request("k", "a").Identity); !errors.Is(err, idempotency.ErrNotFound) {
			t.Errorf("another %s: release: %v", column, err)
		}
	}
}

// A damaged record is an error, not an answer and not a second run.
func TestDamagedRecord(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDatabase(t))
	s := newStore(t, pool)
	execute(t, s, "k")
	if _, err := pool.Exec(t.Context(), `update idempotency_records set header = 'nonsense'`); err != nil {
		t.Fatal(err)
	}
	if res, err := s.Execute(t.Context(), request("k", "a"), never(t)); err == nil {
		t.Errorf("%+v", res)
	}
	waitIdle(t, pool)
}

// The limits hold inside the store's transactions and nowhere else; those that
// the session has stay.
func TestSessionLimits(t *testing.T) {
	t.Parallel()
	dsn := newDatabase(t)
	names := []string{"idle_in_transaction_session_timeout", "client_connection_check_interval", "lock_timeout"}
	for name, c := range map[string]struct {
		dsn            string
		opts           []pgxstore.Option
		inside, beside []string
	}{
		"Default": {"", nil, []string{"1min", "10s", "0"}, []string{"0", "0", "0"}},
		"Own":     {"&idle_in_transaction_session_timeout=7000", nil, []string{"7s", "10s", "0"}, []string{"7s", "0", "0"}},
		"Chosen":  {"", []pgxstore.Option{pgxstore.WithSessionLimits(3*time.Second, 2*time.Second)}, []string{"3s", "2s", "0"}, []string{"0", "0", "0"}},
		"None":    {"", []pgxstore.Option{pgxstore.WithSessionLimits(0, 0)}, []string{"0", "0", "0"}, []string{"0", "0", "0"}},
		"NoLocks": {"&search_path=broken,public,pg_catalog&lock_timeout=9s", nil, []string{"1min", "10s", "9s"}, []string{"0", "0", "9s"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := dsn
			if name == "NoLocks" {
				dsn, _, _ = strings.Cut(newDatabaseWithoutLocks(t), "&search_path")
			}
			pool := newPool(t, dsn+c.dsn)
			s := newStore(t, pool, c.opts...)
			settings := func(ctx context.Context, q interface {
				QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
			}) []string {
				got := make([]string, len(names))
				for i, n := range names {
					if err := q.QueryRow(ctx, "select current_setting($1)", n).Scan(&got[i]); err != nil {
						t.Error(err)
					}
				}
				return got
			}
			look := func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
				if got := settings(ctx, tx); !slices.Equal(got, c.inside) {
					t.Errorf("inside: %q, want %q", got, c.inside)
				}
				return created("k"), nil
			}
			for i := range 3 {
				if _, err := s.Execute(t.Context(), request(fmt.Sprint(name, i), "a"), look); err != nil {
					t.Error(err)
				}
			}
			if _, err := s.Transact(t.Context(), look); err != nil {
				t.Error(err)
			}
			if got := settings(t.Context(), pool); !slices.Equal(got, c.beside) {
				t.Errorf("beside: %q, want %q", got, c.beside)
			}
		})
	}
}

// A process that stalls in its handler loses its connection, and with it the
// claim.
//
// Covers CON-10, CRA-01.
func TestStalledHandlerLosesItsClaim(t *testing.T) {
	t.Parallel()
	dsn := newDatabase(t)
	stalled := newStore(t, newPool(t, dsn), pgxstore.WithSessionLimits(50*time.Millisecond, 0))
	s := newStore(t, newPool(t, dsn))
	_, err := stalled.Execute(t.Context(), request("k", "a"), answering("k", func(context.Context, pgx.Tx) error {
		if res := settled(t, s, request("k", "a"), pay("k")); res.Replayed {
			t.Error("replayed what was never committed")
		}
		return nil
	}))
	// The first attempt finds its connection ended and looks for its outcome.
	if err != nil {
		t.Errorf("stalled: %v", err)
	}
	if n := effects(t, newPool(t, dsn), "k"); n != 1 {
		t.Errorf("%d effects", n)
	}
}

// Without advisory locks a claim is a row that nobody sees: a duplicate waits
// for a moment and is then in flight, also while an expired record is replaced.
func TestClaimByInsert(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDatabaseWithoutLocks(t))
	s := newStore(t, pool)
	for range 2 { // the second time the record has expired
		_, err := s.Execute(t.Context(), request("k", "a"), answering("k", func(ctx context.Context, tx pgx.Tx) error {
			if _, err := s.Execute(ctx, request("k", "a"), never(t)); !errors.Is(err, idempotency.ErrInFlight) {
				t.Errorf("duplicate: %v", err)
			}
			if err := s.Release(ctx, request("k", "a").Identity); !errors.Is(err, idempotency.ErrInFlight) {
				t.Errorf("release: %v", err)
			}
			if n, err := s.Sweep(ctx); n != 0 || err != nil {
				t.Errorf("sweep: %d, %v", n, err)
			}
			return nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pool.Exec(t.Context(), expire); err != nil {
			t.Fatal(err)
		}
	}
	if n := effects(t, pool, "k"); n != 2 {
		t.Errorf("%d effects", n)
	}
	if err := s.Release(t.Context(), request("k", "a").Identity); err != nil {
		t.Errorf("release of an expired record: %v", err)
	}
	if err := s.Release(t.Context(), request("k", "a").Identity); !errors.Is(err, idempotency.ErrNotFound) {
		t.Errorf("second release: %v", err)
	}
}

// Claims that meet while an expired record is replaced have one winner.
//
// Covers EXP-12.
func TestExpiredRecordHasOneSuccessor(t *testing.T) {
	t.Parallel()
	for name, dsn := range map[string]func(*testing.T) string{
		"Locks":   func(t *testing.T) string { return newDatabase(t) },
		"NoLocks": newDatabaseWithoutLocks,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := newPool(t, dsn(t))
			s := newStore(t, pool)
			const rounds = 10
			for range rounds {
				var wg sync.WaitGroup
				for range 8 {
					wg.Go(func() { settled(t, s, request("k", "a"), pay("k")) })
				}
				wg.Wait()
				if _, err := pool.Exec(t.Context(), expire); err != nil {
					t.Fatal(err)
				}
			}
			if n := effects(t, pool, "k"); n != rounds {
				t.Errorf("%d effects, want %d", n, rounds)
			}
		})
	}
}
