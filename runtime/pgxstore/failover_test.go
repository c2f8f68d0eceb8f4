package pgxstore_test

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/internal/testenv"
	"github.com/idemgen/idemgen/runtime/pgxstore"
	"github.com/idemgen/idemgen/runtime/storetest"
)

// The server is killed and started again while pools hold connections to it.
//
// Covers CRA-04, CRA-16.
func TestRestart(t *testing.T) {
	t.Parallel()
	server := testenv.OwnPostgres(t)
	storetest.RunRestart(t, storetest.Harness[pgx.Tx]{
		Open: func(t *testing.T) storetest.Fixture[pgx.Tx] {
			schema := "s" + strconv.FormatInt(time.Now().UnixNano(), 36)
			f := newFixture(t, server.DSN, schema, nil)
			f.Effects = func(ctx context.Context, label string) (int, error) {
				counts, err := countEffects(ctx, server.DSN, schema+".effects", []string{label})
				return counts[label], err
			}
			return f
		},
	}, func(t *testing.T) {
		server.Crash(t)
		server.Restart(t)
	})
}

// effectsTable is that of [fill], as [countEffects] takes it.
const effectsTable = "(select key as label from effects) e"

// countEffects counts on a connection of its own.
func countEffects(ctx context.Context, dsn, table string, labels []string) (map[string]int, error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	counts := map[string]int{}
	rows, err := conn.Query(ctx, "select label, count(*) from "+table+" where label = any ($1) group by label", labels)
	if err != nil {
		return nil, err
	}
	var label string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&label, &n}, func() error {
		counts[label] = n
		return nil
	})
	return counts, err
}

// envRequests holds how many requests are sent while a database fails over,
// where more than usual are wanted.
const envRequests = "IDEM_TEST_REQUESTS"

// The primary is killed while clients send requests to three stores with pools
// of their own, and the standby is promoted. Clients find it by themselves. No
// request has two effects. With synchronous replication every answer that a
// client has got stands; without, those that had not reached the standby are
// lost together with their effects, and as many as the test prints.
//
// Covers CRA-04, CRA-09, CRA-16.
func TestPrimaryIsKilledUnderLoad(t *testing.T) {
	t.Parallel()
	for name, replication := range map[string]testenv.Replication{"Synchronous": testenv.Synchronous, "Asynchronous": testenv.Asynchronous} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pair := testenv.StartPostgresPair(t, replication)
			o := storetest.Outage[pgx.Tx]{
				Effect: func(ctx context.Context, tx pgx.Tx, label string) error {
					_, err := tx.Exec(ctx, "insert into effects (key) values ($1)", label)
					return err
				},
				Effects: func(ctx context.Context, labels []string) (map[string]int, error) {
					return countEffects(ctx, pair.DSN, effectsTable, labels)
				},
				Clients: 16,
			}
			fill(t, pair.DSN)
			for range 3 {
				o.Stores = append(o.Stores, newStore(t, newPool(t, pair.DSN)))
			}
			o.Requests, _ = strconv.Atoi(os.Getenv(envRequests)) // 0 is the default
			var promoted time.Duration
			o.Strike = func(t *testing.T) {
				pair.Primary.Crash(t)
				killed := time.Now()
				pair.Promote(t)
				promoted = time.Since(killed)
			}
			f := storetest.RunOutage(t, o)
			t.Logf("standby promoted after %v: %v", promoted.Round(time.Millisecond), f)
			if replication == testenv.Synchronous && f.Changed > 0 {
				t.Errorf("%d answers lost although the standby had them", f.Changed)
			}
		})
	}
}

// What replication promises, shown: the standby is cut off, so that it receives
// nothing, a request is executed, the primary dies and the standby takes over.
// With asynchronous replication the answer was acknowledged and is lost, its
// effect with it, and a retry executes again. With synchronous replication the
// client is told that the outcome is unknown, and nobody is answered from a
// record that the standby does not have.
func TestLossOfUnreplicatedAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		replication testenv.Replication
		want        error
		retry       error // on the primary
	}{
		{"Asynchronous", testenv.Asynchronous, nil, nil},
		{"Synchronous", testenv.Synchronous, idempotency.ErrOutcomeUnknown, idempotency.ErrInFlight},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			pair := testenv.StartPostgresPair(t, c.replication)
			fill(t, pair.DSN)
			short := []pgxstore.Option{pgxstore.WithFinishTimeout(500 * time.Millisecond), pgxstore.WithResolveTimeout(500 * time.Millisecond)}
			s := newStore(t, newPool(t, pair.DSN), short...)
			pair.CutOff(t)
			if _, err := s.Execute(t.Context(), request("k", "a"), pay("first")); !errors.Is(err, c.want) {
				t.Fatalf("%v, want %v", err, c.want)
			}
			other := newStore(t, newPool(t, pair.DSN), short...)
			if res, err := other.Execute(t.Context(), request("k", "a"), never(t)); !errors.Is(err, c.retry) || err == nil && !res.Replayed {
				t.Errorf("retry on the primary: %+v, %v, want %v", res, err, c.retry)
			}
			pair.Primary.Crash(t)
			pair.Rejoin(t)
			pair.Promote(t)
			res := recovered(t, s, request("k", "a"), pay("second"))
			if res.Replayed {
				t.Errorf("%+v: nothing was lost, so that this test shows nothing", res)
			}
			if counts, err := countEffects(t.Context(), pair.DSN, effectsTable, []string{"first", "second"}); err != nil || counts["first"] != 0 || counts["second"] != 1 {
				t.Errorf("effects %v, %v; want the second's alone", counts, err)
			}
		})
	}
}

// recovered executes req until the store is available.
func recovered(t *testing.T, s *pgxstore.Store, req idempotency.Request, work idempotency.Work[pgx.Tx]) idempotency.Result {
	t.Helper()
	for {
		res, err := s.Execute(t.Context(), req, work)
		if err == nil {
			return res
		}
		if !errors.Is(err, idempotency.ErrUnavailable) {
			t.Fatal(err)
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal(err)
		}
	}
}

// A standby takes no writes. A store that is opened on one says so; one whose
// pool leads to one after a failover, for want of target_session_attrs, is
// unavailable, keeps nothing, and never answers from what the standby has.
//
// Covers STO-17.
func TestStandby(t *testing.T) {
	t.Parallel()
	pair := testenv.StartPostgresPair(t, testenv.Asynchronous)
	fill(t, pair.DSN)
	standby := newPool(t, pair.Standby.DSN)
	if _, err := pgxstore.New(t.Context(), standby); err == nil || !strings.Contains(err.Error(), "primary") {
		t.Errorf("New on a standby: %v, want an error that names the primary", err)
	}

	s := newStore(t, newPool(t, strings.Replace(pair.DSN, "&target_session_attrs=read-write", "", 1)))
	execute(t, s, "before", "recalled")
	eventually(t, "the standby has the records", func() bool {
		var n int
		err := standby.QueryRow(t.Context(), "select count(*) from idempotency_records").Scan(&n)
		return err == nil && n == 2
	})
	pair.Primary.Crash(t)
	// The last one is recalled on a connection that is known by then.
	for _, key := range []string{"before", "new", "recalled"} {
		var err error
		eventually(t, "the pool leads to the standby", func() bool {
			_, err = s.Execute(t.Context(), request(key, "a"), never(t))
			return err == nil || strings.Contains(err.Error(), "standby")
		})
		if !errors.Is(err, idempotency.ErrUnavailable) {
			t.Errorf("%s on the standby: %v, want %v", key, err, idempotency.ErrUnavailable)
		}
	}
	pair.Promote(t)
	if res := recovered(t, s, request("before", "a"), never(t)); !res.Replayed {
		t.Errorf("retry: %+v", res)
	}
	if res := recovered(t, s, request("new", "a"), pay("new")); res.Replayed {
		t.Errorf("first request: %+v", res)
	}
	counts, err := countEffects(t.Context(), pair.DSN, effectsTable, []string{"before", "new"})
	if err != nil || counts["before"] != 1 || counts["new"] != 1 {
		t.Errorf("effects %v, %v; want one each", counts, err)
	}
}

// eventually waits for what other processes bring about.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for !done() {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatalf("waited in vain until %s", what)
		}
	}
}
