package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
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

// The standby is cut off, so that it receives nothing, and a request is executed.
// The client is told that the outcome is unknown, and nobody is answered from a
// record that the standby does not have: the primary dies, the standby takes
// over, and the retry executes.
//
// Covers CRA-09.
func TestSynchronousStandbyIsCutOff(t *testing.T) {
	t.Parallel()
	for _, driver := range postgresqlDrivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			srv := postgresqlServer(driver)
			pair := testenv.StartPostgresPair(t, testenv.Synchronous)
			fillPostgreSQL(t, srv.open(t, pair.Primary.DSN, 0))
			short := func(dsn string) *sqlstore.Store {
				return srv.store(t, dsn, 8, sqlstore.WithFinishTimeout(500*time.Millisecond), sqlstore.WithClaimTimeout(time.Second))
			}
			s, other := short(pair.Primary.DSN), short(pair.Primary.DSN)
			claimed, unclaimed, token := request("claimed"), request("unclaimed"), idempotency.LeaseToken{1}
			claimed.Lease, unclaimed.Lease = time.Minute, time.Minute
			if _, err := s.AcquireLease(t.Context(), claimed, token); err != nil {
				t.Fatal(err)
			}
			pair.CutOff(t)
			if _, err := s.Execute(t.Context(), request("k"), payPostgreSQL("first")); !errors.Is(err, idempotency.ErrOutcomeUnknown) {
				t.Fatalf("%v, want %v", err, idempotency.ErrOutcomeUnknown)
			}
			if _, err := other.Execute(t.Context(), request("k"), never(t)); !errors.Is(err, idempotency.ErrInFlight) {
				t.Errorf("retry on the primary: %v, want %v", err, idempotency.ErrInFlight)
			}
			// A claim that the standby has, and whose answer it has not.
			if err := s.CompleteLease(t.Context(), claimed, token, created("claimed")); !errors.Is(err, idempotency.ErrUnavailable) && !errors.Is(err, idempotency.ErrOutcomeUnknown) {
				t.Errorf("CompleteLease: %v", err)
			}
			// One that it has not.
			for range 2 {
				if _, err := s.AcquireLease(t.Context(), unclaimed, token); err == nil {
					t.Error("AcquireLease: no error, though the standby does not have the claim")
				}
			}
			for _, req := range []idempotency.Request{claimed, unclaimed} {
				if res, err := other.AcquireLease(t.Context(), req, idempotency.LeaseToken{2}); !errors.Is(err, idempotency.ErrInFlight) {
					t.Errorf("key %s on the primary: %+v, %v, want %v", req.Key, res, err, idempotency.ErrInFlight)
				}
			}
			pair.Primary.Crash(t)
			pair.Rejoin(t)
			pair.Promote(t)
			s = short(pair.Standby.DSN)
			if res, err := s.Execute(t.Context(), request("k"), payPostgreSQL("second")); err != nil || res.Replayed {
				t.Errorf("retry on the new primary: %+v, %v", res, err)
			}
			if _, err := s.AcquireLease(t.Context(), claimed, idempotency.LeaseToken{2}); !errors.Is(err, idempotency.ErrInFlight) {
				t.Errorf("AcquireLease on the new primary: %v, want %v", err, idempotency.ErrInFlight)
			}
			if err := s.CompleteLease(t.Context(), claimed, token, created("claimed")); err != nil {
				t.Errorf("CompleteLease on the new primary: %v", err)
			}
			counts, err := srv.countEffects(t.Context(), pair.Standby.DSN, "effects", []string{"first", "second"})
			if err != nil || counts["first"] != 0 || counts["second"] != 1 {
				t.Errorf("effects %v, %v; want the second's alone", counts, err)
			}
		})
	}
}

// A node of a Galera cluster is killed while clients send requests to all nodes.
// The others go on; the node comes back and is used again. No request has two
// effects, on no node, and every answer that a client has got stands.
//
// Covers CON-01, CRA-04, CRA-09, CRA-16.
func TestGaleraNodeIsKilledUnderLoad(t *testing.T) {
	t.Parallel()
	nodes := testenv.OwnGalera(t)
	srv := mysqlServer()
	fillMySQL(t, srv.open(t, nodes[0].DSN, 1))
	survivor := openMySQL(t, nodes[1].DSN, nil, 1)
	effects := func(t *testing.T) (n int) {
		t.Helper()
		if err := survivor.QueryRowContext(t.Context(), "SELECT count(*) FROM effects").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	var silent, away time.Duration
	o := storetest.Outage[*sql.Tx]{
		Effect: effect,
		Effects: func(ctx context.Context, labels []string) (map[string]int, error) {
			all := map[string]int{}
			for _, n := range nodes {
				// Reads wait for what the cluster has committed.
				counts, err := srv.countEffects(ctx, n.DSN+"?wsrep_sync_wait=1", "effects", labels)
				if err != nil {
					return nil, err
				}
				for _, label := range labels {
					if n, seen := all[label]; !seen || n == 1 { // one node's wrong count is enough
						all[label] = counts[label]
					}
				}
			}
			return all, nil
		},
		Strike: func(t *testing.T) {
			nodes[0].Crash(t)
			killed := time.Now()
			for before := effects(t); effects(t) < before+20; {
				time.Sleep(10 * time.Millisecond)
			}
			silent = time.Since(killed)
			nodes[0].Rejoin(t)
			away = time.Since(killed)
		},
	}
	for _, n := range nodes {
		o.Stores = append(o.Stores, srv.store(t, n.DSN, 8))
	}
	o.Requests, _ = strconv.Atoi(os.Getenv(envRequests)) // 0 is the default
	f := storetest.RunOutage(t, o)
	t.Logf("20 requests by the others after %v, the node back after %v: %v", silent.Round(time.Millisecond), away.Round(time.Millisecond), f)
	if f.Changed > 0 {
		t.Errorf("%d answers lost", f.Changed)
	}
}

// envRequests holds how many requests are sent while a database fails over,
// where more than usual are wanted.
const envRequests = "IDEM_TEST_REQUESTS"

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
	leased := request("leased")
	leased.Lease = time.Minute
	if _, err := idempotency.Leases(s, time.Minute).Execute(t.Context(), leased, func(context.Context, *idempotency.Lease) (idempotency.Response, error) {
		return created("leased"), nil
	}); err != nil {
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
	if _, err := s.AcquireLease(t.Context(), leased, idempotency.LeaseToken{1}); !errors.Is(err, idempotency.ErrUnavailable) {
		t.Errorf("under a lease on the standby: %v, want %v", err, idempotency.ErrUnavailable)
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
