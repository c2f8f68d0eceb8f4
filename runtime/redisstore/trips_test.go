package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/internal/testenv"
	"github.com/idemgen/idemgen/runtime/redisstore"
)

// tripCounter counts round trips over all connections that it dials: a write
// that follows a read, or is the first.
type tripCounter struct {
	mu    sync.Mutex
	trips int
}

// during returns how many round trips f has made.
func (c *tripCounter) during(f func()) int {
	before := c.count()
	f()
	return c.count() - before
}

func (c *tripCounter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trips
}

func (c *tripCounter) dial(_ context.Context, network, addr string) (net.Conn, error) {
	conn, err := net.Dial(network, addr)
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

// A first request makes two round trips, the claim and the completion with all
// that work has queued; waiting for a replica adds none. A replay, a mismatch
// and a duplicate make one, and so does the entry of an id.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	c := &tripCounter{}
	prefix := prefixOf(t)
	s := newStore(t, newClient(t, testenv.Redis(t), func(o *redis.Options) { o.Dialer, o.PoolSize = c.dial, 1 }), redisstore.WithPrefix(prefix))
	execute := func(key string) error {
		_, err := s.Execute(t.Context(), request(key), func(ctx context.Context, tx *redisstore.Tx) (idempotency.Response, error) {
			return created(key), errors.Join(effect(ctx, tx, prefix+key), effect(ctx, tx, prefix+"another"))
		})
		return err
	}
	if err := execute("warm"); err != nil { // the server learns the scripts
		t.Fatal(err)
	}
	listed(t, s, idempotency.Filter{ID: request("warm").ID()})
	other := request("first")
	other.Fingerprint = idempotency.FingerprintOf([]byte("other"))
	for _, step := range []struct {
		name string
		want int
		do   func() error
		err  error
	}{
		{"first request", 2, func() error { return execute("first") }, nil},
		{"replay", 1, func() error { return execute("first") }, nil},
		{"mismatch", 1, func() error { _, err := s.Execute(t.Context(), other, never(t)); return err }, idempotency.ErrMismatch},
		{"refusal of the handler, claim given up", 2, func() error {
			_, err := s.Execute(t.Context(), request("refused"), func(context.Context, *redisstore.Tx) (idempotency.Response, error) {
				return idempotency.Response{}, context.Canceled
			})
			return err
		}, context.Canceled},
		{"transaction without a key", 1, func() error { _, err := s.Transact(t.Context(), pay(prefix, "plain")); return err }, nil},
		{"entry of an id", 1, func() error {
			if got := listed(t, s, idempotency.Filter{ID: request("first").ID()}); len(got) != 1 {
				t.Errorf("listed: %+v", got)
			}
			return nil
		}, nil},
	} {
		var err error
		if got := c.during(func() { err = step.do() }); got != step.want {
			t.Errorf("%s: %d round trips, want %d", step.name, got, step.want)
		}
		if !errors.Is(err, step.err) {
			t.Errorf("%s: %v, want %v", step.name, err, step.err)
		}
	}
	_, err := s.Execute(t.Context(), request("held"), func(context.Context, *redisstore.Tx) (idempotency.Response, error) {
		if got := c.during(func() { _, _ = s.Execute(t.Context(), request("held"), never(t)) }); got != 1 {
			t.Errorf("duplicate: %d round trips, want 1", got)
		}
		return created("held"), nil
	})
	if err != nil {
		t.Error(err)
	}
}

// withReplica starts a server with a replica. The proxy between them is for
// keeping from the replica what is written, or from the server that it was received.
func withReplica(t *testing.T) (addr string, link *proxy) {
	t.Helper()
	addr = testenv.StartRedis(t)
	link = newProxy(t, addr)
	host, port, _ := strings.Cut(link.addr, ":")
	testenv.StartRedis(t, "--replicaof", host+" "+port)
	server := newClient(t, addr)
	eventually(t, "the replica", func() bool {
		info, err := server.InfoMap(t.Context(), "replication").Result()
		return err == nil && strings.Contains(info["Replication"]["slave0"], "state=online")
	})
	return addr, link
}

// A completion that too few replicas have received is stored, but its outcome
// is not promised, and neither is that of a retry: it is replayed when they have it.
func TestTooFewReplicas(t *testing.T) {
	t.Parallel()
	c := &tripCounter{}
	addr, link := withReplica(t)
	client := newClient(t, addr, func(o *redis.Options) { o.Dialer = c.dial })
	s := newStore(t, client, redisstore.WithReplicas(1, time.Second))
	label := prefixOf(t)
	if _, err := s.Execute(t.Context(), request("k"), pay(label, "warm")); err != nil {
		t.Errorf("%v, want the replica to receive it", err)
	}
	link.darken(true)
	var err error
	trips := c.during(func() { _, err = s.Execute(t.Context(), request("another"), pay(label, "first")) })
	if !errors.Is(err, idempotency.ErrOutcomeUnknown) || trips != 2 {
		t.Errorf("%v after %d round trips, want outcome unknown after 2", err, trips)
	}
	before := expirations(t, client)
	for range 2 { // the first teaches the server a script
		trips = c.during(func() { _, err = s.Execute(t.Context(), request("another"), never(t)) })
		var refusal *idempotency.Error
		if !errors.As(err, &refusal) || refusal.Code != idempotency.CodeOutcomeUnknown || !strings.Contains(fmt.Sprint(refusal.Err), "0 of 1 replicas") {
			t.Errorf("retry: %v, want outcome unknown, since no replica has it", err)
		}
	}
	if after := expirations(t, client); after == before {
		t.Errorf("PEXPIRE before and after: %s; WAIT promises nothing of what its connection has not written", after)
	}
	if trips != 2 {
		t.Errorf("retry: %d round trips, want 2", trips)
	}
	link.darken(false)
	do(t, client, "CLIENT", "KILL", "TYPE", "replica") // it comes again
	eventually(t, "the replica to receive it", func() bool {
		res, err := s.Execute(t.Context(), request("another"), never(t))
		if err != nil && !errors.Is(err, idempotency.ErrOutcomeUnknown) || err == nil && (!res.Replayed || string(res.Body) != "first") {
			t.Fatalf("retry: %+v, %v", res, err)
		}
		return err == nil
	})
	wantEffects(t, client, label, 2)
}

// Where WAIT fails, an answer is not promised either, and why is told. New finds
// out first, and names the right that is missing.
func TestWaitIsRefused(t *testing.T) {
	t.Parallel()
	addr, _ := withReplica(t)
	admin := newClient(t, addr)
	do(t, admin, "ACL", "SETUSER", "app", "on", "nopass", "~*", "+@all")
	client := newClient(t, addr, func(o *redis.Options) { o.Username, o.Password = "app", "any" })
	replicas := redisstore.WithReplicas(1, time.Second)
	s := newStore(t, client, replicas)
	label := prefixOf(t)
	do(t, admin, "ACL", "SETUSER", "app", "-wait")
	for _, work := range []idempotency.Work[*redisstore.Tx]{pay(label, "first"), never(t)} {
		_, err := s.Execute(t.Context(), request("k"), work)
		if !errors.Is(err, idempotency.ErrOutcomeUnknown) || !strings.Contains(fmt.Sprint(errors.Unwrap(err)), "NOPERM") {
			t.Errorf("%v for %v, want outcome unknown for NOPERM", err, errors.Unwrap(err))
		}
	}
	wantEffects(t, client, label, 1)
	if _, err := redisstore.New(t.Context(), client, replicas, redisstore.WithLogger(nil)); err == nil || !strings.Contains(err.Error(), "+wait: ") {
		t.Errorf("New: %v, want the right to be named", err)
	}
}

// An answer that is deleted while its retry waits for replicas is not replayed:
// nobody would know of it afterwards. The key is free.
func TestAnswerGoesBeforeItIsReplayed(t *testing.T) {
	t.Parallel()
	addr, _ := withReplica(t)
	p := newProxy(t, addr)
	s := newStore(t, newClient(t, p.addr), redisstore.WithReplicas(1, time.Second))
	label := prefixOf(t)
	if _, err := s.Execute(t.Context(), request("k"), pay(label, "first")); err != nil {
		t.Fatal(err)
	}
	confirm := p.onThen(script(t, "confirm"), cut, 1, func() {
		if err := s.Release(t.Context(), request("k").Identity); err != nil {
			t.Error(err)
		}
	})
	res, err := s.Execute(t.Context(), request("k"), pay(label, "second"))
	<-confirm.struck
	if err != nil || res.Replayed || string(res.Body) != "second" {
		t.Errorf("%+v, %v; want it to run", res, err)
	}
	wantEffects(t, newClient(t, addr), label, 2)
}

// expirations says how often the server has run PEXPIRE.
func expirations(t *testing.T, server *redis.Client) string {
	t.Helper()
	stats, err := server.InfoMap(t.Context(), "commandstats").Result()
	if err != nil {
		t.Error(err)
	}
	calls, _, _ := strings.Cut(stats["Commandstats"]["cmdstat_pexpire"], ",")
	return calls
}

// A completion whose answer is lost is waited for again when it is sent again,
// on another connection: a replica that has acknowledged nothing since has not
// received it.
//
// Covers CRA-09.
func TestReplicaIsWaitedForAgain(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*redis.Options){"Resending": func(*redis.Options) {}, "Once": once} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr, link := withReplica(t)
			p := newProxy(t, addr)
			server := newClient(t, addr)
			s := newStore(t, newClient(t, p.addr, change), redisstore.WithReplicas(1, time.Second))
			label := prefixOf(t)
			if _, err := s.Execute(t.Context(), request("received"), pay(label, "warm")); err != nil {
				t.Fatal(err)
			}
			// The one that is sent again writes, since of other connections'
			// writes WAIT promises nothing.
			var before string
			var completion *rule
			_, err := s.Execute(t.Context(), request("k"), func(ctx context.Context, tx *redisstore.Tx) (idempotency.Response, error) {
				link.darken(true)
				completion = p.onThen(script(t, "complete"), loseAnswer, 1, func() { before = expirations(t, server) })
				return pay(label, "first")(ctx, tx)
			})
			if !errors.Is(err, idempotency.ErrOutcomeUnknown) {
				t.Errorf("%v, want outcome unknown", err)
			}
			<-completion.struck
			if after := expirations(t, server); after == before {
				t.Errorf("PEXPIRE before and after: %s", after)
			}
			wantEffects(t, server, label, 2)
		})
	}
}

// A transaction without a key is remembered for longer than it may be sent.
func TestTransactIsRemembered(t *testing.T) {
	t.Parallel()
	client := newSingle(t)
	prefix := prefixOf(t)
	const timeout = time.Hour
	s := newStore(t, client, redisstore.WithPrefix(prefix), redisstore.WithFinishTimeout(timeout))
	if _, err := s.Transact(t.Context(), pay(prefixOf(t), "plain")); err != nil {
		t.Fatal(err)
	}
	found := 0
	err := eachKey(t.Context(), client, prefix+"*", func(key string) error {
		found++
		left, err := client.PTTL(t.Context(), key).Result()
		if left <= timeout {
			t.Errorf("%s lives for %v, want more than %v", key, left, timeout)
		}
		return err
	})
	if err != nil || found != 1 {
		t.Errorf("%d keys, error %v; want 1", found, err)
	}
}
