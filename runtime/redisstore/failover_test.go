package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/internal/testenv"
	"github.com/idemgen/idemgen/runtime/redisstore"
)

// process returns the process id of the server at addr.
func process(t *testing.T, addr string) int {
	t.Helper()
	info, err := newClient(t, addr).InfoMap(t.Context(), "server").Result()
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(info["Server"]["process_id"])
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func signal(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatal(err)
	}
}

// pair is a master and its replica.
type pair struct{ master, replica string }

// pairs returns the masters of a cluster with their replicas.
func pairs(t *testing.T, client *redis.ClusterClient) (all []pair) {
	t.Helper()
	shards, err := client.ClusterShards(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range shards {
		var p pair
		for _, node := range s.Nodes {
			addr := fmt.Sprintf("%s:%d", node.IP, node.Port)
			if node.Role == "master" {
				p.master = addr
			} else {
				p.replica = addr
			}
		}
		all = append(all, p)
	}
	return all
}

// tookOver waits until a replica has become master.
func tookOver(t *testing.T, replica *redis.Client) {
	t.Helper()
	eventually(t, "the replica to take over", func() bool {
		info, err := replica.Info(t.Context(), "replication").Result()
		return err == nil && strings.Contains(info, "role:master")
	})
}

// attach starts a server and makes it a replica of a node of a cluster.
func attach(t *testing.T, master *redis.Client) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, bus, _ := net.SplitHostPort(l.Addr().String()) // the default, 10,000 above the port, may be taken
	l.Close()
	node := newClient(t, testenv.StartRedis(t, "--cluster-enabled", "yes", "--cluster-port", bus, "--repl-diskless-sync-delay", "0"))
	host, port, _ := strings.Cut(master.Options().Addr, ":")
	do(t, node, "CLUSTER", "MEET", host, port, master.ConfigGet(t.Context(), "cluster-port").Val()["cluster-port"])
	id := master.Do(t.Context(), "CLUSTER", "MYID").Val()
	eventually(t, "the new server to know its master", func() bool {
		return node.Do(t.Context(), "CLUSTER", "REPLICATE", id).Err() == nil
	})
}

// load is a crowd of clients that send each request until it is answered, and
// remember the answers.
type load struct {
	store *redisstore.Store
	label string

	mu       sync.Mutex
	answers  map[string]string // by key, as the client has got them
	failures map[idempotency.Code]int
	lastFail time.Time
	next     atomic.Int64
	runs     atomic.Int64
}

func newLoad(t *testing.T, client redis.UniversalClient, opts ...redisstore.Option) *load {
	t.Helper()
	opts = append(opts, redisstore.WithLease(10*time.Second, time.Minute), redisstore.WithClaimTimeout(time.Second))
	return &load{
		store: newStore(t, client, opts...), label: prefixOf(t),
		answers: map[string]string{}, failures: map[idempotency.Code]int{},
	}
}

// send executes new requests until stop is closed.
func (l *load) send(ctx context.Context, clients int, stop <-chan struct{}) *sync.WaitGroup {
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					l.request(ctx, fmt.Sprint(l.next.Add(1)))
				}
			}
		})
	}
	return &wg
}

// request sends one request until it is answered. Each run of work answers
// something else, so that an answer tells which run it comes from.
func (l *load) request(ctx context.Context, key string) {
	for ctx.Err() == nil {
		res, err := l.store.Execute(ctx, request(key), func(ctx context.Context, tx *redisstore.Tx) (idempotency.Response, error) {
			return created(fmt.Sprint("run ", l.runs.Add(1))), effect(ctx, tx, l.label+"-"+key)
		})
		l.mu.Lock()
		if err == nil {
			l.answers[key] = string(res.Body)
		} else {
			var refusal *idempotency.Error
			errors.As(err, &refusal)
			l.failures[refusal.Code]++
			l.lastFail = time.Now()
		}
		l.mu.Unlock()
		if err == nil {
			return
		}
		time.Sleep(5 * time.Millisecond) // as a client would
	}
}

// after waits for n more requests.
func (l *load) after(t *testing.T, n int64) {
	t.Helper()
	from := l.next.Load()
	eventually(t, "requests", func() bool { return l.next.Load() >= from+n })
}

// failed returns how many requests were not answered for this reason.
func (l *load) failed(code idempotency.Code) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failures[code]
}

// check sends every answered request again and returns how many are answered
// otherwise than before. It fails the test for each that has not one effect.
func (l *load) check(t *testing.T, client redis.UniversalClient) (lost int) {
	t.Helper()
	first := maps.Clone(l.answers)
	for key, answer := range first {
		l.request(t.Context(), key)
		if l.answers[key] != answer {
			lost++
		}
	}
	counts := map[string]int{}
	err := eachKey(t.Context(), client, "{*}:"+l.label+"-*", func(key string) error {
		n, err := client.Get(t.Context(), key).Int()
		counts[key[strings.LastIndex(key, "-")+1:]] += n
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for key := range first {
		if counts[key] != 1 {
			t.Errorf("key %s: %d effects", key, counts[key])
		}
	}
	return lost
}

// kill kills a master while clients send requests, and returns how many of the
// answers that they got are not replayed afterwards. Repair is called when the
// replica has taken over, which has no replica then.
func (l *load) kill(t *testing.T, client redis.UniversalClient, victim pair, repair func(promoted *redis.Client)) (lost int) {
	t.Helper()
	stop := make(chan struct{})
	wg := l.send(t.Context(), 4, stop)
	l.after(t, 500)
	signal(t, process(t, victim.master), syscall.SIGKILL)
	killed := time.Now()
	replica := newClient(t, victim.replica)
	tookOver(t, replica)
	promoted := time.Since(killed)
	repair(replica)
	l.after(t, 500)
	close(stop)
	wg.Wait()
	requests, down := len(l.answers), max(l.lastFail.Sub(killed), 0)
	lost = l.check(t, client)
	t.Logf("%d requests, replica promoted after %v, last failure %v after the kill, failures %v: %d acknowledged answers lost",
		requests, promoted.Round(10*time.Millisecond), down.Round(10*time.Millisecond), l.failures, lost)
	return lost
}

// A master is killed while clients send requests. Its replica takes over, the
// clients get on, and no request has two effects. Answers that were
// acknowledged are replayed, except for those that the replica had not yet
// received: as many as the test prints. Those have no effect either. Who waits for
// replicas loses none, also not of those that only a retry was told of, and gets
// no answer from the new master until that has a replica.
func TestMasterIsKilledUnderLoad(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		opts []redisstore.Option
	}{
		{"Asynchronous", nil},
		{"WaitingForReplica", []redisstore.Option{redisstore.WithReplicas(1, 100*time.Millisecond)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			client := newClusterClient(t, testenv.StartRedisCluster(t))
			victim := pairs(t, client)[0]
			l := newLoad(t, client, c.opts...)
			lost := l.kill(t, client, victim, func(promoted *redis.Client) {
				if c.opts == nil {
					return
				}
				before := l.failed(idempotency.CodeOutcomeUnknown)
				eventually(t, "answers that are not promised", func() bool { return l.failed(idempotency.CodeOutcomeUnknown) > before+10 })
				attach(t, promoted)
			})
			if lost > 0 && c.opts != nil {
				t.Errorf("%d answers lost although a replica had received them", lost)
			}
		})
	}
}

// The same with a single master that Redis Sentinel watches.
func TestSentinelReplacesMaster(t *testing.T) {
	t.Parallel()
	sentinel, master, replica := testenv.StartRedisSentinel(t)
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: "main", SentinelAddrs: []string{sentinel}, ContextTimeoutEnabled: true, DialerRetries: 1,
	})
	t.Cleanup(func() { _ = client.Close() })
	newLoad(t, client).kill(t, client, pair{master, replica}, func(*redis.Client) {})
}

// A server forgets the scripts, drops its clients' connections and runs out of memory
// again and again while clients send requests. Every request has one effect, and
// what was answered is replayed.
//
// Covers STO-03.
func TestTroubledServer(t *testing.T) {
	t.Parallel()
	client := newClient(t, testenv.StartRedis(t))
	troubles := newClient(t, client.Options().Addr)
	l := newLoad(t, client)
	stop := make(chan struct{})
	wg := l.send(t.Context(), 4, stop)
	for i := range 60 {
		l.after(t, 5)
		for _, trouble := range [][]any{{"SCRIPT", "FLUSH"}, {"CLIENT", "KILL", "TYPE", "normal"}, {"CONFIG", "SET", "maxmemory", i % 2}} {
			if err := troubles.Do(t.Context(), trouble...).Err(); err != nil {
				t.Error(err)
			}
		}
		if i%2 == 1 {
			full := l.failed(idempotency.CodeUnavailable)
			eventually(t, "requests that find the memory full", func() bool { return l.failed(idempotency.CodeUnavailable) > full })
			if err := troubles.ConfigSet(t.Context(), "maxmemory", "0").Err(); err != nil {
				t.Error(err)
			}
		}
	}
	close(stop)
	wg.Wait()
	if lost := l.check(t, client); lost > 0 {
		t.Errorf("%d acknowledged answers lost", lost)
	}
	t.Logf("%d requests, failures %v", len(l.answers), l.failures)
}

// A hash slot moves from one master to another while clients send requests
// whose records and effects all lie in it, as when a cluster grows. Completions
// that the servers refuse meanwhile are repeated: every request has one effect,
// no outcome is unknown and nothing is lost.
//
// Covers STO-03.
func TestSlotMovesUnderLoad(t *testing.T) {
	t.Parallel()
	client := newClusterClient(t, testenv.StartRedisCluster(t))
	const tag = "moving"
	l := newLoad(t, client, redisstore.WithHashTag(func(idempotency.Identity) string { return tag }))
	stop := make(chan struct{})
	wg := l.send(t.Context(), 4, stop)
	l.after(t, 300)

	slot := client.ClusterKeySlot(t.Context(), tag).Val()
	source, err := client.MasterForKey(t.Context(), tag)
	if err != nil {
		t.Fatal(err)
	}
	var masters []*redis.Client
	target := -1
	for i, p := range pairs(t, client) {
		masters = append(masters, newClient(t, p.master))
		if p.master != source.Options().Addr {
			target = i
		}
	}
	id := func(node *redis.Client) string { return node.Do(t.Context(), "CLUSTER", "MYID").Val().(string) }
	host, port, _ := strings.Cut(masters[target].Options().Addr, ":")
	do(t, masters[target], "CLUSTER", "SETSLOT", slot, "IMPORTING", id(source))
	do(t, source, "CLUSTER", "SETSLOT", slot, "MIGRATING", id(masters[target]))
	// A record is on one node or the other, the keys of new effects are on none,
	// and steps that need both are refused until the slot has moved.
	eventually(t, "a completion that is put off", func() bool {
		for _, node := range []*redis.Client{source, masters[target]} {
			if node.InfoMap(t.Context(), "errorstats").Val()["Errorstats"]["errorstat_TRYAGAIN"] != "" {
				return true
			}
		}
		return false
	})
	for {
		keys := source.ClusterGetKeysInSlot(t.Context(), int(slot), 10).Val()
		if len(keys) == 0 {
			break
		}
		migrate := []any{"MIGRATE", host, port, "", 0, 5000, "KEYS"}
		for _, key := range keys {
			migrate = append(migrate, key)
		}
		do(t, source, migrate...)
	}
	do(t, masters[target], "CLUSTER", "SETSLOT", slot, "NODE", id(masters[target]))
	for _, node := range masters {
		do(t, node, "CLUSTER", "SETSLOT", slot, "NODE", id(masters[target]))
	}
	l.after(t, 300)
	close(stop)
	wg.Wait()
	lost := l.check(t, client)
	t.Logf("%d requests, failures %v, %d answers lost", len(l.answers), l.failures, lost)
	if owner, err := client.MasterForKey(t.Context(), tag); err != nil || owner.Options().Addr != masters[target].Options().Addr {
		t.Errorf("the slot did not move: %v, %v", owner, err)
	}
	if lost > 0 || l.failures[idempotency.CodeOutcomeUnknown] > 0 {
		t.Errorf("%d answers lost, failures %v", lost, l.failures)
	}
}

// What asynchronous replication can lose, shown: the replica is stopped, so that
// it receives nothing, the master answers, dies, and the replica takes over. The
// answer and its effect are gone together, and a retry executes again. Who waits
// for the replica is told instead that the outcome is unknown, by the request and by
// its retry, until the new master has a replica.
func TestLossOfUnreplicatedAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		opts []redisstore.Option
		want error
	}{
		{"Asynchronous", nil, nil},
		{"WaitingForReplica", []redisstore.Option{redisstore.WithReplicas(1, 200*time.Millisecond)}, idempotency.ErrOutcomeUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			client := newClusterClient(t, testenv.StartRedisCluster(t))
			prefix := prefixOf(t)
			s := newStore(t, client, append(c.opts, redisstore.WithPrefix(prefix))...)
			id := request("k").ID()
			node, err := client.MasterForKey(t.Context(), fmt.Sprintf("{%x}", id[:]))
			if err != nil {
				t.Fatal(err)
			}
			var victim pair
			for _, p := range pairs(t, client) {
				if p.master == node.Options().Addr {
					victim = p
				}
			}
			replica, stopped := newClient(t, victim.replica), process(t, victim.replica)
			signal(t, stopped, syscall.SIGSTOP)
			t.Cleanup(func() { _ = syscall.Kill(stopped, syscall.SIGCONT) })
			// What the master has sent waits in the replica's socket, and would
			// not be lost: so it must send nothing more.
			do(t, node, "CLIENT", "KILL", "TYPE", "replica")
			for range 2 {
				if _, err := s.Execute(t.Context(), request("k"), pay(prefix+"effect", "first")); !errors.Is(err, c.want) {
					t.Fatalf("%v, want %v", err, c.want)
				}
			}
			wantEffects(t, client, prefix+"effect", 1)
			signal(t, process(t, victim.master), syscall.SIGKILL)
			signal(t, stopped, syscall.SIGCONT)
			tookOver(t, replica)
			if c.opts != nil {
				attach(t, replica)
			}
			eventually(t, "an answer", func() bool {
				res, err := s.Execute(t.Context(), request("k"), pay(prefix+"effect", "second"))
				if err == nil && string(res.Body) != "second" {
					t.Errorf("the retry was answered %q: nothing was lost, so that this test shows nothing", res.Body)
				}
				return err == nil
			})
			wantEffects(t, client, prefix+"effect", 1)
		})
	}
}
