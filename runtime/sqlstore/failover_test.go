package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/internal/testenv"
	"github.com/idemgen/idemgen/runtime/sqlstore"
	"github.com/idemgen/idemgen/runtime/storetest"
)

// The server is killed and started again while pools hold connections to it.
//
// Covers CRA-04, CRA-16.
func TestRestart(t *testing.T) {
	t.Parallel()
	for _, srv := range servers() {
		t.Run(srv.name, func(t *testing.T) {
			t.Parallel()
			var dsn string
			var restart func(t *testing.T)
			if srv.dialect == sqlstore.MySQL {
				own := testenv.OwnMariaDB(t)
				dsn, restart = own.DSN, func(t *testing.T) { own.Crash(t); own.Restart(t) }
			} else {
				own := testenv.OwnPostgres(t)
				dsn, restart = own.DSN, func(t *testing.T) { own.Crash(t); own.Restart(t) }
			}
			var tables atomic.Int32
			storetest.RunRestart(t, storetest.Harness[*sql.Tx]{
				Open: func(t *testing.T) storetest.Fixture[*sql.Tx] {
					n := tables.Add(1)
					f := srv.fixture(t, srv.open(t, dsn, 6), srv.open(t, dsn, 6), n)
					f.Effects = func(ctx context.Context, label string) (int, error) {
						counts, err := srv.countEffects(ctx, dsn, fmt.Sprint("effects_", n), []string{label})
						return counts[label], err
					}
					return f
				},
			}, restart)
		})
	}
}

// countEffects counts on a connection of its own.
func (s server) countEffects(ctx context.Context, dsn, table string, labels []string) (map[string]int, error) {
	db, err := sql.Open(s.driver, dsn)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	counts := map[string]int{}
	for some := range slices.Chunk(labels, 1000) {
		if err := countSome(ctx, db, table, some, counts); err != nil {
			return nil, err
		}
	}
	return counts, nil
}

func countSome(ctx context.Context, db *sql.DB, table string, labels []string, counts map[string]int) error {
	rows, err := db.QueryContext(ctx, "SELECT label, count(*) FROM "+table+" WHERE label IN ('"+strings.Join(labels, "', '")+"') GROUP BY label")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var label string
		var n int
		if err := rows.Scan(&label, &n); err != nil {
			return err
		}
		counts[label] = n
	}
	return rows.Err()
}

// What replication promises, shown: the standby is cut off, so that it receives
// nothing, a request is executed, the primary dies and the standby takes over.
// With asynchronous replication the answer was acknowledged and is lost, its
// effect with it, and a retry executes again. With synchronous replication the
// client is told that the outcome is unknown, and nobody is answered from a
// record that the standby does not have.
//
// Covers CRA-09.
func TestLossOfUnreplicatedAnswers(t *testing.T) {
	t.Parallel()
	for _, driver := range postgresqlDrivers {
		for _, c := range []struct {
			name        string
			replication testenv.Replication
			want, retry error
		}{
			{"Asynchronous", testenv.Asynchronous, nil, nil},
			{"Synchronous", testenv.Synchronous, idempotency.ErrOutcomeUnknown, idempotency.ErrInFlight},
		} {
			t.Run(driver+c.name, func(t *testing.T) {
				t.Parallel()
				srv := postgresqlServer(driver)
				pair := testenv.StartPostgresPair(t, c.replication)
				fillPostgreSQL(t, srv.open(t, pair.Primary.DSN, 0))
				short := sqlstore.WithFinishTimeout(500 * time.Millisecond)
				s := srv.store(t, pair.Primary.DSN, 4, short)
				pair.CutOff(t)
				if _, err := s.Execute(t.Context(), request("k"), payPostgreSQL("first")); !errors.Is(err, c.want) {
					t.Fatalf("%v, want %v", err, c.want)
				}
				other := srv.store(t, pair.Primary.DSN, 4, short)
				if res, err := other.Execute(t.Context(), request("k"), never(t)); !errors.Is(err, c.retry) || err == nil && !res.Replayed {
					t.Errorf("retry on the primary: %+v, %v, want %v", res, err, c.retry)
				}
				pair.Primary.Crash(t)
				pair.Rejoin(t)
				pair.Promote(t)
				s = srv.store(t, pair.Standby.DSN, 4, short)
				res, err := s.Execute(t.Context(), request("k"), payPostgreSQL("second"))
				if err != nil || res.Replayed {
					t.Errorf("%+v, %v: nothing was lost, so that this test shows nothing", res, err)
				}
				counts, err := srv.countEffects(t.Context(), pair.Standby.DSN, "effects", []string{"first", "second"})
				if err != nil || counts["first"] != 0 || counts["second"] != 1 {
					t.Errorf("effects %v, %v; want the second's alone", counts, err)
				}
			})
		}
	}
}

// recovered executes req until the store is available.
func recovered(t *testing.T, s *sqlstore.Store, req idempotency.Request, work idempotency.Work[*sql.Tx]) idempotency.Result {
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
// unavailable, keeps nothing, and does not run work.
//
// Covers STO-17.
func TestStandby(t *testing.T) {
	t.Parallel()
	srv := postgresqlServer("pgx")
	pair := testenv.StartPostgresPair(t, testenv.Synchronous)
	fillPostgreSQL(t, srv.open(t, pair.DSN, 0))
	for _, driver := range postgresqlDrivers {
		db := openPostgreSQL(t, driver, pair.Standby.DSN, 0)
		if _, err := sqlstore.New(t.Context(), db, sqlstore.PostgreSQL); err == nil || !strings.Contains(err.Error(), "connect to the primary") {
			t.Errorf("New on a standby: %v, want an error that names the primary", err)
		}
	}
	s := srv.store(t, strings.Replace(pair.DSN, "&target_session_attrs=read-write", "", 1), 4)
	if _, err := s.Execute(t.Context(), request("before"), payPostgreSQL("before")); err != nil {
		t.Fatal(err)
	}
	pair.Primary.Crash(t)
	for _, key := range []string{"before", "new"} {
		_, err := s.Execute(t.Context(), request(key), never(t))
		for err != nil && !strings.Contains(err.Error(), "standby") && t.Context().Err() == nil {
			_, err = s.Execute(t.Context(), request(key), never(t))
		}
		if !errors.Is(err, idempotency.ErrUnavailable) {
			t.Errorf("%s on the standby: %v, want %v", key, err, idempotency.ErrUnavailable)
		}
	}
	pair.Promote(t)
	if res := recovered(t, s, request("before"), never(t)); !res.Replayed {
		t.Errorf("retry: %+v", res)
	}
	if res := recovered(t, s, request("new"), payPostgreSQL("new")); res.Replayed {
		t.Errorf("first request: %+v", res)
	}
	counts, err := srv.countEffects(t.Context(), pair.DSN, "effects", []string{"before", "new"})
	if err != nil || counts["before"] != 1 || counts["new"] != 1 {
		t.Errorf("effects %v, %v; want one each", counts, err)
	}
}
