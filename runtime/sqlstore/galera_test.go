package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/internal/testenv"
	"github.com/idemgen/idemgen/runtime/sqlstore"
	"github.com/idemgen/idemgen/runtime/storetest"
)

// The suite holds on each node of a Galera cluster; between nodes there is no
// early sign, see TestGaleraWriters.
//
// Covers STO-08.
func TestConformanceOnGalera(t *testing.T) {
	t.Parallel()
	nodes := testenv.Galera(t)
	var tables atomic.Int32
	storetest.Run(t, mysqlHarness(func(t *testing.T) storetest.Fixture[*sql.Tx] {
		n := tables.Add(1)
		node := nodes[int(n)%len(nodes)]
		return mysqlServer().fixture(t, openMySQL(t, node, nil, 4), openMySQL(t, node, nil, 4), n)
	}))
}

// Leases hold on all nodes: the replica is on another one.
//
// Covers CON-10, CON-12, STO-08.
func TestLeasesOnGalera(t *testing.T) {
	t.Parallel()
	nodes := testenv.Galera(t)
	var tables atomic.Int32
	harness := mysqlHarness(func(t *testing.T) storetest.Fixture[*sql.Tx] {
		n := tables.Add(1)
		open := func(n int32) *sql.DB {
			synced := map[string]string{"wsrep_sync_wait": "1"} // of the test's own reads
			return openMySQL(t, nodes[int(n)%len(nodes)], synced, 4)
		}
		return mysqlServer().fixture(t, open(n), open(n+1), n)
	})
	harness.Unseen = true
	storetest.RunLeases(t, harness)
}

// newGalera returns pools and stores on the nodes of a cluster.
func newGalera(t *testing.T) (dbs []*sql.DB, stores []*sqlstore.Store) {
	t.Helper()
	for i, dsn := range testenv.Galera(t) {
		db := openMySQL(t, dsn, map[string]string{"wsrep_sync_wait": "1"}, 8) // of the test's own reads
		if i == 0 {
			fillMySQL(t, db)
		}
		dbs = append(dbs, db)
	}
	for _, db := range dbs {
		stores = append(stores, mysqlServer().on(t, db))
	}
	return dbs, stores
}

// Clients send each request to every node at once, again until it is answered:
// it has one effect, and one answer.
//
// Covers CON-01, CON-02, CON-08, ERR-07.
func TestGaleraWriters(t *testing.T) {
	t.Parallel()
	dbs, stores := newGalera(t)
	const keys, clients = 60, 9
	var runs, lost atomic.Int64
	var wg sync.WaitGroup
	for c := range clients {
		s := stores[c%len(stores)]
		wg.Go(func() {
			for i := range keys {
				label := fmt.Sprint(i)
				for {
					res, err := s.Execute(t.Context(), request(label), func(ctx context.Context, tx *sql.Tx) (idempotency.Response, error) {
						runs.Add(1)
						return created(fmt.Sprint(label, " by ", c)), effect(ctx, tx, label)
					})
					switch code, _ := codeOf(err); {
					case code == idempotency.CodeInFlight:
						time.Sleep(time.Millisecond) // as a client would
						continue
					case code == idempotency.CodeUnavailable: // it has lost three times
						lost.Add(1)
						continue
					case err != nil:
						t.Errorf("key %d on node %d: %v", i, c%len(stores), err)
					}
					// Others may be at work there, who will find the answer too.
					again := settled(t, stores[(c+1)%len(stores)], request(label), never(t))
					if !again.Replayed || string(again.Body) != string(res.Body) {
						t.Errorf("key %d: %q, then on the next node: Replayed %v, %q", i, res.Body, again.Replayed, again.Body)
					}
					break
				}
			}
		})
	}
	wg.Wait()
	for i := range keys {
		for n, db := range dbs {
			if got := count(t, db, fmt.Sprint(i)); got != 1 {
				t.Errorf("key %d: %d effects on node %d", i, got, n)
			}
		}
	}
	t.Logf("%d keys from %d clients on %d nodes: %d runs, %d answers unavailable", keys, clients, len(stores), runs.Load(), lost.Load())
}

// What was answered on one node is replayed on the next at once, and found by
// Lookup: reads wait for what the cluster has committed.
//
// Covers STO-17.
func TestGaleraReadsAreCurrent(t *testing.T) {
	t.Parallel()
	_, stores := newGalera(t)
	for i := range 100 {
		key := fmt.Sprint(i)
		if _, err := stores[i%3].Execute(t.Context(), request(key), pay(key)); err != nil {
			t.Fatal(err)
		}
		next := stores[(i+1)%3]
		if i%2 == 0 {
			if _, err := next.Lookup(t.Context(), request(key).Identity); err != nil {
				t.Errorf("Lookup: %v", err)
			}
		}
		if res, err := next.Execute(t.Context(), request(key), never(t)); err != nil || !res.Replayed {
			t.Errorf("%+v, %v", res, err)
		}
	}
}

// A request that loses its COMMIT to another node runs again and is replayed; a
// COMMIT that is lost with its connection is not taken for rolled back because
// another node holds no lock.
//
// Covers CRA-09.
func TestGaleraConflictAtCommit(t *testing.T) {
	t.Parallel()
	dbs, stores := newGalera(t)
	runs := 0
	res, err := stores[0].Execute(t.Context(), request("k"), func(ctx context.Context, tx *sql.Tx) (idempotency.Response, error) {
		runs++
		if _, err := stores[1].Execute(ctx, request("k"), pay("k")); err != nil {
			return idempotency.Response{}, err
		}
		return created("late"), effect(ctx, tx, "k")
	})
	if err != nil || !res.Replayed || string(res.Body) != "k" || runs != 1 {
		t.Errorf("%+v, %v after %d runs; want the other node's answer", res, err, runs)
	}
	if n := count(t, dbs[2], "k"); n != 1 {
		t.Errorf("%d effects", n)
	}
}

// The fate of a COMMIT that never reached its node stays unknown.
//
// Covers CRA-09.
func TestGaleraLostCommit(t *testing.T) {
	t.Parallel()
	dsn := testenv.Galera(t)[0]
	fillMySQL(t, openMySQL(t, dsn, nil, 0))
	srv := mysqlServer()
	p, through := srv.proxied(t, dsn)
	s := srv.store(t, through, 2, sqlstore.WithFinishTimeout(500*time.Millisecond))
	p.on(srv.commit, cut)
	if _, err := s.Execute(t.Context(), request("k"), pay("k")); !errors.Is(err, idempotency.ErrOutcomeUnknown) {
		t.Errorf("lost COMMIT: %v, want %v", err, idempotency.ErrOutcomeUnknown)
	}
	if res := settled(t, s, request("k"), pay("k")); res.Replayed {
		t.Errorf("retry: %+v", res)
	}
}

// Clients on every node send each request under a lease, again until it is
// answered. It runs once, whether it is new or has been left by a process that
// is dead, and has one answer.
//
// Covers CON-01, CON-02, CON-08, CON-10, ERR-07.
func TestGaleraLeaseWriters(t *testing.T) {
	t.Parallel()
	dbs, stores := newGalera(t)
	const keys, left, clients = 40, 20, 9
	req := func(key int) idempotency.Request {
		req := request(fmt.Sprint(key))
		req.Lease = time.Minute
		return req
	}
	for key := range left {
		if _, err := stores[0].AcquireLease(t.Context(), req(key), idempotency.LeaseToken{1}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := dbs[0].ExecContext(t.Context(), fmt.Sprintf(mysqlServer().back, "idempotency_records", 61_000)); err != nil {
		t.Fatal(err)
	}
	var runs [keys]atomic.Int64
	var answers [keys]sync.Map
	var lost atomic.Int64
	var wg sync.WaitGroup
	for c := range clients {
		leases := idempotency.Leases(stores[c%len(stores)], time.Minute)
		wg.Go(func() {
			for key := range keys {
				for {
					res, err := leases.Execute(t.Context(), req(key), func(context.Context, *idempotency.Lease) (idempotency.Response, error) {
						runs[key].Add(1)
						return created(fmt.Sprint(key, " by ", c)), nil
					})
					switch code, _ := codeOf(err); {
					case code == idempotency.CodeInFlight:
						time.Sleep(time.Millisecond) // as a client would
						continue
					case code == idempotency.CodeUnavailable: // it has lost each time
						lost.Add(1)
						continue
					case err != nil:
						t.Errorf("key %d on node %d: %v", key, c%len(stores), err)
					default:
						answers[key].Store(string(res.Body), true)
					}
					break
				}
			}
		})
	}
	wg.Wait()
	for key := range keys {
		different := 0
		answers[key].Range(func(any, any) bool { different++; return true })
		if n := runs[key].Load(); n != 1 || different != 1 {
			t.Errorf("key %d: %d runs, %d answers; want 1", key, n, different)
		}
	}
	for key := range left {
		if err := stores[0].CompleteLease(t.Context(), req(key), idempotency.LeaseToken{1}, created("stale")); !errors.Is(err, idempotency.ErrLeaseLost) {
			t.Errorf("key %d, the late owner: %v, want %v", key, err, idempotency.ErrLeaseLost)
		}
	}
	t.Logf("%d answers unavailable", lost.Load())
}

// The steps of a lease may be made on any node: one that is behind does not take
// a claim for lost, nor a freed key for claimed.
//
// Covers CON-10, STO-17.
func TestGaleraStepsOnOtherNodes(t *testing.T) {
	t.Parallel()
	_, stores := newGalera(t)
	ctx := t.Context()
	for i := range 60 {
		req, token := request(fmt.Sprint(i)), idempotency.LeaseToken{1, byte(i)}
		req.Lease = time.Minute
		claimer, next, last := stores[i%3], stores[(i+1)%3], stores[(i+2)%3]
		if _, err := claimer.AcquireLease(ctx, req, token); err != nil {
			t.Fatalf("AcquireLease: %v", err)
		}
		if i%2 == 0 {
			if err := next.ExtendLease(ctx, req, token, time.Hour); err != nil {
				t.Errorf("ExtendLease: %v", err)
			}
		}
		if i%3 == 0 {
			if err := next.ReleaseLease(ctx, req, token); err != nil {
				t.Errorf("ReleaseLease: %v", err)
			}
			if _, err := last.AcquireLease(ctx, req, token); err != nil {
				t.Errorf("AcquireLease of a key that was freed: %v", err)
			}
		}
		if err := last.CompleteLease(ctx, req, token, created("first")); err != nil {
			t.Errorf("CompleteLease: %v", err)
		}
		if res, err := next.AcquireLease(ctx, req, token); err != nil || !res.Replayed {
			t.Errorf("AcquireLease after the completion: %+v, %v", res, err)
		}
	}
}
