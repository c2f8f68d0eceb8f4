package redisstore_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/internal/testenv"
	"github.com/idemgen/idemgen/runtime/redisstore"
)

// infoHook changes what a server says in INFO, and hides CONFIG, as managed
// servers do.
type infoHook struct{ replacer *strings.Replacer }

func (infoHook) DialHook(next redis.DialHook) redis.DialHook { return next }
func (infoHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h infoHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "config" {
			cmd.SetErr(replyError("ERR unknown command 'CONFIG'"))
			return cmd.Err()
		}
		err := next(ctx, cmd)
		if info, ok := cmd.(*redis.StringCmd); ok && cmd.Name() == "info" {
			info.SetVal(h.replacer.Replace(info.Val()))
		}
		return err
	}
}

type replyError string

func (e replyError) Error() string { return string(e) }
func (replyError) RedisError()     {}

func withInfo(client *redis.Client, oldnew ...string) *redis.Client {
	client.AddHook(infoHook{strings.NewReplacer(oldnew...)})
	return client
}

// New refuses what the guarantee does not hold on, and says what to do.
//
// Covers STO-01, STO-17, SEC-13.
func TestStartIsRefused(t *testing.T) {
	t.Parallel()
	single := func(t *testing.T) redis.UniversalClient { return newSingle(t) }
	start := func(args ...string) func(t *testing.T) redis.UniversalClient {
		return func(t *testing.T) redis.UniversalClient { return newClient(t, testenv.StartRedis(t, args...)) }
	}
	for _, c := range []struct {
		name   string
		client func(t *testing.T) redis.UniversalClient
		opts   []redisstore.Option
		want   []string
	}{
		{"evicts any key", start("--maxmemory-policy", "allkeys-lru"), nil, []string{"allkeys-lru", "set maxmemory-policy noeviction", "idemctl schema -store redis"}},
		{"evicts keys that expire", start("--maxmemory-policy", "volatile-ttl"), nil, []string{"volatile-ttl", "set maxmemory-policy noeviction"}},
		{"old version", func(t *testing.T) redis.UniversalClient {
			return withInfo(newClient(t, testenv.Redis(t)), "redis_version:", "redis_version:6.2.14\r\nwas:")
		}, nil, []string{"6.2.14", "7.0 or later"}},
		{"no version", func(t *testing.T) redis.UniversalClient {
			return withInfo(newClient(t, testenv.Redis(t)), "redis_version:", "was:")
		}, nil, []string{"7.0 or later"}},
		{"node of a cluster", func(t *testing.T) redis.UniversalClient { return newClient(t, testenv.RedisCluster(t)[0]) }, nil,
			[]string{"redis.NewClusterClient"}},
		{"replica", func(t *testing.T) redis.UniversalClient {
			host, port, _ := strings.Cut(testenv.Redis(t), ":")
			return newClient(t, testenv.StartRedis(t, "--replicaof", host+" "+port))
		}, nil, []string{"is a replica", "its master"}},
		{"ring", func(t *testing.T) redis.UniversalClient {
			ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": testenv.Redis(t)}, ContextTimeoutEnabled: true})
			t.Cleanup(func() { ring.Close() })
			return ring
		}, nil, []string{"use a Redis Cluster"}},
		{"deadlines ignored", func(t *testing.T) redis.UniversalClient {
			return newClient(t, testenv.Redis(t), func(o *redis.Options) { o.ContextTimeoutEnabled = false })
		}, nil, []string{"set ContextTimeoutEnabled: true"}},
		{"deadlines ignored in a cluster", func(t *testing.T) redis.UniversalClient {
			return newClusterClient(t, testenv.RedisCluster(t), func(o *redis.ClusterOptions) { o.ContextTimeoutEnabled = false })
		}, nil, []string{"ContextTimeoutEnabled"}},
		{"nobody there", func(t *testing.T) redis.UniversalClient { return newClient(t, "127.0.0.1:1") }, nil, []string{"refused", "check the addresses"}},
		{"no cluster there", func(t *testing.T) redis.UniversalClient { return newClusterClient(t, []string{"127.0.0.1:1"}) }, nil, []string{"refused", "check the addresses"}},
		{"no cluster", func(t *testing.T) redis.UniversalClient { return newClusterClient(t, []string{testenv.Redis(t)}) }, nil, []string{"redis.NewClient"}},
		{"cluster without slots", func(t *testing.T) redis.UniversalClient {
			return newClusterClient(t, []string{testenv.StartRedis(t, "--cluster-enabled", "yes")})
		}, nil, []string{"all of its 16384 hash slots", "redis-cli --cluster fix"}},
		{"cluster without half of the slots", func(t *testing.T) redis.UniversalClient {
			addr := testenv.StartRedis(t, "--cluster-enabled", "yes", "--cluster-require-full-coverage", "no")
			do(t, newClient(t, addr), "CLUSTER", "ADDSLOTSRANGE", 0, 8191)
			return newClusterClient(t, []string{addr})
		}, nil, []string{"8192 of the 16384 hash slots", "redis-cli --cluster fix"}},
		{"Sentinel", func(t *testing.T) redis.UniversalClient {
			sentinel, _, _ := testenv.StartRedisSentinel(t)
			return newClient(t, sentinel)
		}, nil, []string{"is a Sentinel", "redis.NewFailoverClient"}},
		{"no password", func(t *testing.T) redis.UniversalClient {
			addr := testenv.StartRedis(t)
			do(t, newClient(t, addr), "CONFIG", "SET", "requirepass", "secret")
			return newClient(t, addr)
		}, nil, []string{"Username and Password", "NOAUTH"}},
		{"wrong password", func(t *testing.T) redis.UniversalClient {
			return newClient(t, testenv.Redis(t), func(o *redis.Options) { o.Username, o.Password = "nobody", "wrong" })
		}, nil, []string{"Username and Password", "WRONGPASS"}},
		{"no such database", func(t *testing.T) redis.UniversalClient {
			return newClient(t, testenv.Redis(t), func(o *redis.Options) { o.DB = 99 })
		}, nil, []string{"refuses the client", "DB index"}},
		{"fewer replicas", single, []redisstore.Option{redisstore.WithReplicas(1, time.Second)}, []string{"0 of the 1 replicas", "WithReplicas", "attach replicas"}},
		{"waits for replicas too long", single, []redisstore.Option{redisstore.WithReplicas(1, time.Minute)}, []string{"WithReplicas", "ReadTimeout"}},
		{"may not write", func(t *testing.T) redis.UniversalClient {
			addr := testenv.StartRedis(t)
			err := newClient(t, addr).Do(t.Context(), "ACL", "SETUSER", "reader", "on", "nopass", "~*", "+@all", "-hset").Err()
			if err != nil {
				t.Fatal(err)
			}
			return newClient(t, addr, func(o *redis.Options) { o.Username, o.Password = "reader", "any" })
		}, nil, []string{"+hset", "redis-cli ACL SETUSER app '~idempotency:*' +info"}},
		{"may do nothing in a cluster", func(t *testing.T) redis.UniversalClient {
			addr := testenv.StartRedis(t, "--cluster-enabled", "yes")
			do(t, newClient(t, addr), "ACL", "SETUSER", "reader", "on", "nopass")
			return newClusterClient(t, []string{addr}, func(o *redis.ClusterOptions) { o.Username, o.Password = "reader", "any" })
		}, nil, []string{"+restore +cluster +readonly: "}},
		{"evicts behind a Sentinel", func(t *testing.T) redis.UniversalClient {
			sentinel, master, _ := testenv.StartRedisSentinel(t)
			do(t, newClient(t, master), "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
			client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "main", SentinelAddrs: []string{sentinel}, ContextTimeoutEnabled: true})
			t.Cleanup(func() { client.Close() })
			return client
		}, nil, []string{"the server at port ", "allkeys-lru", "in its redis.conf"}},
		{"no prefix", single, []redisstore.Option{redisstore.WithPrefix("")}, []string{"WithPrefix"}},
		{"braces in the prefix", single, []redisstore.Option{redisstore.WithPrefix("{all}")}, []string{"WithPrefix", "braces"}},
		{"line break in the prefix", single, []redisstore.Option{redisstore.WithPrefix("a\r\nb")}, []string{"WithPrefix"}},
		{"letter in the prefix", single, []redisstore.Option{redisstore.WithPrefix("aéb")}, []string{"WithPrefix"}},
		{"short lease", single, []redisstore.Option{redisstore.WithLease(time.Millisecond, time.Second)}, []string{"WithLease"}},
		{"low ceiling", single, []redisstore.Option{redisstore.WithLease(time.Minute, time.Second)}, []string{"WithLease"}},
		{"no claim timeout", single, []redisstore.Option{redisstore.WithClaimTimeout(0)}, []string{"WithClaimTimeout"}},
		{"no finish timeout", single, []redisstore.Option{redisstore.WithFinishTimeout(-1)}, []string{"WithFinishTimeout"}},
		{"no replicas", single, []redisstore.Option{redisstore.WithReplicas(0, time.Second)}, []string{"WithReplicas"}},
		{"no time for replicas", single, []redisstore.Option{redisstore.WithReplicas(1, 0)}, []string{"WithReplicas"}},
		{"client of its own kind", func(t *testing.T) redis.UniversalClient {
			return struct{ redis.UniversalClient }{withInfo(newClient(t, testenv.Redis(t)), "connected_slaves:", "connected_slaves:1\r\nwere:")}
		}, []redisstore.Option{redisstore.WithReplicas(1, time.Second)}, []string{"WithReplicas", "*redis.Client"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := redisstore.New(t.Context(), c.client(t), c.opts...)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
}

// Where a server hides its policy, as managed ones may, or forgets when it
// restarts, New warns and goes on.
//
// Covers STO-01.
func TestServersAreWarnedOf(t *testing.T) {
	t.Parallel()
	open := func(t *testing.T, oldnew ...string) (s *redisstore.Store, log string) {
		var b bytes.Buffer
		client := withInfo(newClient(t, testenv.Redis(t)), oldnew...)
		s = newStore(t, client, redisstore.WithLogger(slog.New(slog.NewTextHandler(&b, nil))))
		return s, b.String()
	}
	if _, log := open(t, "aof_enabled:0", "aof_enabled:1"); log != "" {
		t.Errorf("a server that tells its policy and keeps its data: %s", log)
	}
	if _, log := open(t, "aof_enabled:1", "aof_enabled:0"); !strings.Contains(log, "redis-cli CONFIG SET appendonly yes") || !strings.Contains(log, " server="+testenv.Redis(t)+"\n") {
		t.Errorf("a server that forgets: %s", log)
	}
	var cluster bytes.Buffer
	newStore(t, newCluster(t), redisstore.WithLogger(slog.New(slog.NewTextHandler(&cluster, nil))))
	for _, p := range pairs(t, newClusterClient(t, testenv.RedisCluster(t))) {
		if n := strings.Count(cluster.String(), " server="+p.master+"\n"); n != 1 {
			t.Errorf("%d warnings of %s: %s", n, p.master, cluster.String())
		}
	}
	s, log := open(t, "aof_enabled:0", "aof_enabled:1", "maxmemory_policy:", "hidden:")
	if !strings.Contains(log, "maxmemory-policy") {
		t.Errorf("a server that hides its policy: %s", log)
	}
	if _, err := s.Execute(t.Context(), request("k"), pay(prefixOf(t), "first")); err != nil {
		t.Error(err)
	}
}

// A user who may do nothing gets the command that grants what the store needs,
// and it is enough: for a claim, a completion with a queued write and one that
// is undone, a replay, a lookup, an entry and its release. A list needs SCAN too.
func TestRightsAreNamed(t *testing.T) {
	t.Parallel()
	addr := testenv.StartRedis(t)
	admin := newClient(t, addr)
	do(t, admin, "ACL", "SETUSER", "app", "on", ">secret")
	client := newClient(t, addr, func(o *redis.Options) { o.Username, o.Password = "app", "secret" })
	_, err := redisstore.New(t.Context(), client)
	if err == nil {
		t.Fatal("a user without rights is taken")
	}
	_, grant, found := strings.Cut(err.Error(), "redis-cli ")
	grant, _, ended := strings.Cut(grant, ": ")
	if !found || !ended {
		t.Fatalf("%q has no command", err)
	}
	docs, err := os.ReadFile("../../docs/migrations.md")
	if err != nil || !strings.Contains(string(docs), "`"+grant+"`") {
		t.Errorf("docs/migrations.md does not have %q: %v", grant, err)
	}
	args := []any{}
	for word := range strings.FieldsSeq(grant) {
		args = append(args, strings.Trim(word, "'"))
	}
	do(t, admin, args...)
	do(t, admin, "ACL", "SETUSER", "app", "~{*}:effect", "+incr", "+rpush")
	s := newStore(t, client, redisstore.WithPrefix("idempotency:"))
	for range 2 {
		if _, err := s.Execute(t.Context(), request("k"), pay("effect", "first")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Lookup(t.Context(), request("k").Identity); err != nil {
		t.Error(err)
	}
	_, err = s.Execute(t.Context(), request("undone"), func(ctx context.Context, tx *redisstore.Tx) (idempotency.Response, error) {
		if resp, err := pay("effect", "first")(ctx, tx); err != nil {
			return resp, err
		}
		return created("second"), tx.Queue(func(p redis.Pipeliner) error { return p.RPush(ctx, tx.Key("effect"), "one").Err() })
	})
	if err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("a write that cannot be: %v", err)
	}
	wantEffects(t, admin, "effect", 1)
	entries := 0
	for e, err := range s.List(t.Context(), idempotency.Filter{ID: request("k").ID()}) {
		if err != nil {
			t.Fatal(err)
		}
		if err := s.ReleaseEntry(t.Context(), e); err != nil {
			t.Error(err)
		}
		entries++
	}
	if entries != 1 {
		t.Errorf("%d entries of one id", entries)
	}
	if err := s.Release(t.Context(), request("k").Identity); !errors.Is(err, idempotency.ErrNotFound) {
		t.Errorf("release of what is not there: %v", err)
	}
	if _, err := s.Stats(t.Context()); err == nil || !strings.Contains(err.Error(), "'scan'") {
		t.Errorf("all records, without +scan: %v", err)
	}
	do(t, admin, "ACL", "SETUSER", "app", "+scan")
	if _, err := s.Stats(t.Context()); err != nil {
		t.Errorf("all records: %v", err)
	}
}

// No read or write of the store goes to a replica, whatever the client would
// rather do.
//
// Covers STO-17.
func TestReplicasAreNotAsked(t *testing.T) {
	t.Parallel()
	addrs := testenv.RedisCluster(t)
	client := newClusterClient(t, addrs, func(o *redis.ClusterOptions) { o.ReadOnly, o.RouteRandomly = true, true })
	s := newStore(t, client)
	for key := range strings.SplitSeq("abcdefghijklmnopqrstuvwxyz", "") {
		for range 2 {
			if _, err := s.Execute(t.Context(), request(key), pay("effect", key)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Lookup(t.Context(), request(key).Identity); err != nil {
			t.Fatal(err)
		}
		if err := s.Release(t.Context(), request(key).Identity); err != nil {
			t.Fatal(err)
		}
	}
	asked := 0
	for _, addr := range addrs {
		info, err := newClient(t, addr).InfoMap(t.Context(), "replication", "commandstats").Result()
		if err != nil {
			t.Fatal(err)
		}
		scripts := 0
		for name := range info["Commandstats"] {
			if strings.HasPrefix(name, "cmdstat_eval") {
				scripts++
			}
		}
		switch role := info["Replication"]["role"]; {
		case role == "slave" && scripts > 0:
			t.Errorf("the replica %s was asked: %v", addr, info["Commandstats"])
		case role == "master" && scripts > 0:
			asked++
		}
	}
	if asked != 3 {
		t.Errorf("%d masters were asked, want 3", asked)
	}
}

// A function that finds no hash tag refuses the request instead of putting it
// beside another's.
func TestHashTagIsChecked(t *testing.T) {
	t.Parallel()
	for _, tag := range []string{"", "a}b"} {
		s := newStore(t, newSingle(t), redisstore.WithHashTag(func(idempotency.Identity) string { return tag }))
		_, err := s.Execute(t.Context(), request("k"), never(t))
		_, errLookup := s.Lookup(t.Context(), request("k").Identity)
		for _, err := range []error{err, errLookup, s.Release(t.Context(), request("k").Identity)} {
			if err == nil || !strings.Contains(err.Error(), "WithHashTag") {
				t.Errorf("tag %q: %v", tag, err)
			}
		}
	}
}

// The store is refused by the compiler where an operation is in lease mode.
func TestIsNoLeaser(t *testing.T) {
	t.Parallel()
	if _, leases := any(new(redisstore.Store)).(idempotency.Leaser); leases {
		t.Error("the store is an idempotency.Leaser: say so in its documentation and run storetest.RunLeases")
	}
}
