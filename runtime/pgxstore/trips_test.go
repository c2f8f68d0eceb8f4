package pgxstore_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/pgxstore"
)

// tripCounter counts round trips over all connections that it dials: a write
// that follows a read, or is the first.
type tripCounter struct {
	mu    sync.Mutex
	trips int
}

func (c *tripCounter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trips
}

// during returns how many round trips do has made.
func (c *tripCounter) during(do func()) int {
	before := c.count()
	do()
	return c.count() - before
}

func (c *tripCounter) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	return &countingConn{Conn: conn, counter: c}, err
}

type countingConn struct {
	net.Conn
	counter *tripCounter
	writing bool
}

func (c *countingConn) Write(b []byte) (int, error) {
	c.counter.mu.Lock()
	if !c.writing {
		c.counter.trips++
	}
	c.writing = true
	c.counter.mu.Unlock()
	return c.Conn.Write(b)
}

func (c *countingConn) Read(b []byte) (int, error) {
	c.counter.mu.Lock()
	c.writing = false
	c.counter.mu.Unlock()
	return c.Conn.Read(b)
}

// newCountedPool returns a pool of one connection whose round trips are counted.
func newCountedPool(t *testing.T, dsn string) (*pgxpool.Pool, *tripCounter) {
	c := &tripCounter{}
	return newPool(t, dsn, func(cfg *pgxpool.Config) {
		cfg.MaxConns = 1
		cfg.ConnConfig.DialFunc = c.dial
		cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	}), c
}

// A first request makes as many round trips as its bare transaction, also when
// it replaces an expired record; one more if the store recalls that record.
func TestFirstRequestAddsNoRoundTrip(t *testing.T) {
	t.Parallel()
	pool, counter := newCountedPool(t, newDatabase(t))
	s := newStore(t, pool)
	bare := func() {
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := pay("bare")(t.Context(), tx)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	execute := func(key string) func() {
		return func() {
			res, err := s.Execute(t.Context(), request(key, "a"), pay(key))
			if err != nil || res.Replayed {
				t.Fatalf("%+v, %v", res, err)
			}
		}
	}
	want := counter.during(bare)
	if want != 3 {
		t.Fatalf("the bare transaction made %d round trips, want BEGIN, INSERT and COMMIT", want)
	}
	// The first request on a connection learns who serves it, the second
	// prepares statements: both in the same round trips.
	for _, key := range []string{"first", "second", "third"} {
		if got := counter.during(execute(key)); got != want {
			t.Errorf("%s request: %d round trips, want %d", key, got, want)
		}
	}
	if _, err := pool.Exec(t.Context(), "update idempotency_records set expires_at = now()"); err != nil {
		t.Fatal(err)
	}
	if got := counter.during(execute("third")); got != want+1 {
		t.Errorf("request with an expired record that the store recalls: %d round trips, want %d", got, want+1)
	}
	if _, err := pool.Exec(t.Context(), "update idempotency_records set expires_at = now()"); err != nil {
		t.Fatal(err)
	}
	s = newStore(t, pool)
	if got := counter.during(execute("third")); got != want {
		t.Errorf("request with an expired record: %d round trips, want %d", got, want)
	}
}

// A replay makes one round trip before it is answered, and its rollback one
// more that nobody waits for. Where the store recalls the record, the one
// round trip is all.
func TestReplayIsAnsweredAfterOneRoundTrip(t *testing.T) {
	t.Parallel()
	dsn := newDatabase(t)
	execute(t, newStore(t, newPool(t, dsn)), "k")
	p := newProxy(t, dsn)
	pool, counter := newCountedPool(t, p.dsn)
	s := newStore(t, pool, pgxstore.WithFinishTimeout(time.Hour)) // whoever waits for the rollback waits in vain
	replay := func() {
		res, err := s.Execute(t.Context(), request("k", "a"), never(t))
		if err != nil || !res.Replayed {
			t.Fatalf("%+v, %v", res, err)
		}
		waitIdle(t, pool)
	}
	if trips := counter.during(replay); trips != 2 {
		t.Errorf("a replay and its rollback made %d round trips, want 2", trips)
	}
	if trips := counter.during(replay); trips != 1 {
		t.Errorf("a replay of a recalled record made %d round trips, want 1", trips)
	}
	s = newStore(t, pool, pgxstore.WithFinishTimeout(time.Hour))
	rolledBack := p.on("rollback", blackhole)
	if res, err := s.Execute(t.Context(), request("k", "a"), never(t)); err != nil || !res.Replayed { // returns, although the rollback does not
		t.Fatalf("%+v, %v", res, err)
	}
	<-rolledBack
	p.stop() // ends it, so that the pool can be closed
}

// waitIdle waits until all of a pool's connections are back.
func waitIdle(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	for pool.Stat().AcquiredConns() > 0 {
		if t.Context().Err() != nil {
			t.Fatal("connections are not given back")
		}
		time.Sleep(time.Millisecond)
	}
}

// In-flight and mismatch answers hold one connection for two round trips.
func TestRefusalMakesTwoRoundTrips(t *testing.T) {
	t.Parallel()
	dsn := newDatabase(t)
	pool, counter := newCountedPool(t, dsn)
	s := newStore(t, pool)
	holder := newStore(t, newPool(t, dsn))
	_, err := holder.Execute(t.Context(), request("k", "a"), func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
		if trips := counter.during(func() { _, _ = s.Execute(ctx, request("k", "a"), pay("k")) }); trips != 2 {
			t.Errorf("an in-flight answer made %d round trips, want 2", trips)
		}
		return pay("k")(ctx, tx)
	})
	if err != nil {
		t.Fatal(err)
	}
	if trips := counter.during(func() { _, _ = s.Execute(t.Context(), request("k", "b"), pay("k")) }); trips != 2 {
		t.Errorf("a mismatch made %d round trips, want 2", trips)
	}
}
