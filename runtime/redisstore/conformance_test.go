package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/internal/testenv"
	"github.com/idemgen/idemgen/runtime/redisstore"
	"github.com/idemgen/idemgen/runtime/storetest"
)

// newSingle returns a client of the shared server.
func newSingle(t testing.TB) redis.UniversalClient {
	return newClient(t, testenv.Redis(t))
}

func newClient(t testing.TB, addr string, changes ...func(*redis.Options)) *redis.Client {
	t.Helper()
	opts := &redis.Options{Addr: addr, ContextTimeoutEnabled: true, DialerRetries: 1}
	for _, change := range changes {
		change(opts)
	}
	client := redis.NewClient(opts)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// newCluster returns a client of the shared cluster.
func newCluster(t testing.TB) redis.UniversalClient {
	return newClusterClient(t, testenv.RedisCluster(t))
}

func newClusterClient(t testing.TB, addrs []string, changes ...func(*redis.ClusterOptions)) *redis.ClusterClient {
	t.Helper()
	opts := &redis.ClusterOptions{
		Addrs: addrs, ContextTimeoutEnabled: true,
		DialerRetries: 1, ClusterStateReloadInterval: time.Second,
	}
	for _, change := range changes {
		change(opts)
	}
	client := redis.NewClusterClient(opts)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// prefixOf is a prefix that no other test has.
func prefixOf(t testing.TB) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' || r == '{' || r == '}' {
			return '_'
		}
		return r
	}, fmt.Sprintf("%.40s-%d:", t.Name(), time.Now().UnixNano()))
}

func newStore(t testing.TB, client redis.UniversalClient, opts ...redisstore.Option) *redisstore.Store {
	t.Helper()
	s, err := redisstore.New(t.Context(), client, append([]redisstore.Option{redisstore.WithPrefix(prefixOf(t)), redisstore.WithLogger(nil)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// eachKey calls f for every key that matches, with a client that reaches it.
func eachKey(ctx context.Context, client redis.UniversalClient, match string, f func(key string) error) error {
	scan := func(ctx context.Context, node redis.Cmdable) error {
		keys := node.Scan(ctx, 0, match, 1000).Iterator()
		for keys.Next(ctx) {
			if err := f(keys.Val()); err != nil {
				return err
			}
		}
		return keys.Err()
	}
	if cluster, ok := client.(*redis.ClusterClient); ok {
		var failed []error
		nodes := make(chan *redis.Client, 16)
		err := cluster.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error { nodes <- node; return nil })
		close(nodes)
		for node := range nodes { // one after another: f need not be safe for concurrent use
			failed = append(failed, scan(ctx, node))
		}
		return errors.Join(append(failed, err)...)
	}
	return scan(ctx, client)
}

// effects counts what effect has committed.
func effects(ctx context.Context, client redis.UniversalClient, name string) (n int, err error) {
	escaped := strings.NewReplacer("*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`, `\`, `\\`).Replace(name)
	err = eachKey(ctx, client, "{*}:"+escaped, func(key string) error {
		if !strings.HasSuffix(key, "}:"+name) {
			return nil
		}
		committed, err := client.Get(ctx, key).Int()
		n += committed
		return err
	})
	return n, err
}

// effect queues one effect in the slot of the record.
func effect(ctx context.Context, tx *redisstore.Tx, name string) error {
	return tx.Queue(func(p redis.Pipeliner) error { return p.Incr(ctx, tx.Key(name)).Err() })
}

// advance moves all records that begin with prefix d back in time.
func advance(ctx context.Context, client redis.UniversalClient, prefix string, d time.Duration) error {
	ms := d.Milliseconds()
	return eachKey(ctx, client, prefix+"*", func(key string) error {
		expires, err := client.PExpireTime(ctx, key).Result()
		if err != nil {
			return err
		}
		_, err = client.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.HIncrBy(ctx, key, "created_at", -ms)
			p.HIncrBy(ctx, key, "expires_at", -ms)
			p.PExpireAt(ctx, key, time.UnixMilli(expires.Milliseconds()-ms))
			return nil
		})
		return err
	})
}

func queue(f func(ctx context.Context, tx *redisstore.Tx, p redis.Pipeliner)) func(context.Context, *redisstore.Tx) error {
	return func(ctx context.Context, tx *redisstore.Tx) error {
		return tx.Queue(func(p redis.Pipeliner) error { f(ctx, tx, p); return nil })
	}
}

// TestConformance runs the suite on a single server, also over one connection
// and the older protocol, on a cluster whose masters have replicas, on clients
// that would rather read from replicas, and with all records of a tenant in one
// slot.
//
// Covers STO-03, STO-17, STO-20.
func TestConformance(t *testing.T) {
	t.Parallel()
	byScope := redisstore.WithHashTag(func(id idempotency.Identity) string { return "tenant " + id.Scope })
	for _, c := range []struct {
		name string
		open func(testing.TB) redis.UniversalClient
		opts []redisstore.Option
	}{
		{name: "Single", open: newSingle},
		{name: "OneConnectionRESP2", open: func(t testing.TB) redis.UniversalClient {
			return newClient(t, testenv.Redis(t), func(o *redis.Options) { o.PoolSize, o.Protocol = 1, 2 })
		}},
		{name: "Cluster", open: newCluster},
		{name: "ClusterReadingReplicas", open: func(t testing.TB) redis.UniversalClient {
			return newClusterClient(t, testenv.RedisCluster(t), func(o *redis.ClusterOptions) { o.ReadOnly, o.RouteRandomly = true, true })
		}},
		{name: "ClusterByTenant", open: newCluster, opts: []redisstore.Option{byScope}},
		{name: "ClusterWaitingForReplica", open: newCluster, opts: []redisstore.Option{redisstore.WithReplicas(1, 2*time.Second)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			open := func(t *testing.T) storetest.Fixture[*redisstore.Tx] {
				client, other := c.open(t), c.open(t)
				prefix := prefixOf(t)
				opts := append([]redisstore.Option{redisstore.WithPrefix(prefix)}, c.opts...)
				return storetest.Fixture[*redisstore.Tx]{
					Store:   newStore(t, client, opts...),
					Replica: newStore(t, other, opts...),
					Effect: func(ctx context.Context, tx *redisstore.Tx, label string) error {
						return effect(ctx, tx, "effect-"+prefix+label)
					},
					Effects: func(ctx context.Context, label string) (int, error) {
						return effects(ctx, client, "effect-"+prefix+label)
					},
					Advance: func(ctx context.Context, d time.Duration) error { return advance(ctx, client, prefix, d) },
					Cut:     func() { _ = client.Close() },
				}
			}
			storetest.Run(t, storetest.Harness[*redisstore.Tx]{
				Open: open,
				Faults: map[string]func(context.Context, *redisstore.Tx) error{
					"wrong type": queue(func(ctx context.Context, tx *redisstore.Tx, p redis.Pipeliner) {
						p.Set(ctx, tx.Key("text"), "text", 0)
						p.LPush(ctx, tx.Key("text"), "element")
						p.Set(ctx, tx.Key("other"), "text", 0)
					}),
					"last fails": queue(func(ctx context.Context, tx *redisstore.Tx, p redis.Pipeliner) {
						p.Set(ctx, tx.Key("number"), "none", 0)
						p.Incr(ctx, tx.Key("number"))
					}),
					"syntax": queue(func(ctx context.Context, tx *redisstore.Tx, p redis.Pipeliner) {
						p.Do(ctx, "SET", tx.Key("text"), "text", "NONSENSE")
					}),
					"read": queue(func(ctx context.Context, tx *redisstore.Tx, p redis.Pipeliner) { p.Get(ctx, tx.Key("text")) }),
					"Exec": queue(func(ctx context.Context, tx *redisstore.Tx, p redis.Pipeliner) {
						p.Set(ctx, tx.Key("text"), "text", 0)
						_, _ = p.Exec(ctx)
					}),
					"script": queue(func(ctx context.Context, tx *redisstore.Tx, p redis.Pipeliner) {
						p.Eval(ctx, "return 1", []string{tx.Key("text")})
					}),
					"no keys":    queue(func(ctx context.Context, _ *redisstore.Tx, p redis.Pipeliner) { p.FlushAll(ctx) }),
					"no command": queue(func(ctx context.Context, tx *redisstore.Tx, p redis.Pipeliner) { p.Do(ctx, "NOSUCH", tx.Key("text")) }),
				},
			})
		})
	}
}
