package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/internal/testenv"
	"github.com/idemgen/idemgen/runtime/redisstore"
)

// listed collects what s lists, by key.
func listed(t *testing.T, s *redisstore.Store, filter idempotency.Filter) map[string]idempotency.Entry {
	t.Helper()
	entries := map[string]idempotency.Entry{}
	for e, err := range s.List(t.Context(), filter) {
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := entries[e.Key]; twice {
			t.Errorf("%s is listed twice", e.Key)
		}
		entries[e.Key] = e
	}
	return entries
}

// Answers and claims of the store are listed, and nothing else that lies on the
// servers: not what a transaction without a key has left, nor records of a store
// whose prefix would match as a pattern, nor keys of others.
func TestList(t *testing.T) {
	t.Parallel()
	byScope := redisstore.WithHashTag(func(id idempotency.Identity) string { return "tenant " + id.Scope })
	for name, open := range map[string]func(testing.TB) redis.UniversalClient{"Single": newSingle, "Cluster": newCluster} {
		for tagged, opts := range map[string][]redisstore.Option{"ByID": nil, "ByTenant": {byScope}} {
			t.Run(name+tagged, func(t *testing.T) {
				t.Parallel()
				client := open(t)
				prefix := fmt.Sprintf(`[a*?\%d:`, time.Now().UnixNano())
				s := newStore(t, client, append(opts, redisstore.WithPrefix(prefix), redisstore.WithLease(time.Minute, time.Hour))...)
				other := newStore(t, client, redisstore.WithPrefix("a"+prefix))
				label := prefixOf(t)
				for _, st := range []*redisstore.Store{s, other} {
					if _, err := st.Transact(t.Context(), pay(label, "plain")); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := other.Execute(t.Context(), request("other's"), pay(label, "first")); err != nil {
					t.Fatal(err)
				}
				for _, key := range []string{prefix + "{tag}", prefix + "{tag}:text"} {
					if err := client.HSet(t.Context(), key, "scope", "tenant", "status", "none").Err(); err != nil {
						t.Fatal(err)
					}
				}
				if err := client.Set(t.Context(), prefix+"{tag}:string", "text", time.Minute).Err(); err != nil {
					t.Fatal(err)
				}
				if _, err := s.Execute(t.Context(), request("answer"), pay(label, "first")); err != nil {
					t.Fatal(err)
				}
				_, err := s.Execute(t.Context(), request("claim"), func(ctx context.Context, tx *redisstore.Tx) (idempotency.Response, error) {
					all := listed(t, s, idempotency.Filter{})
					if len(all) != 2 {
						t.Errorf("%+v, want an answer and a claim", all)
					}
					a, c := all["answer"], all["claim"]
					if a.Identity != request("answer").Identity || a.State != idempotency.StateAnswer || a.Status != 201 ||
						a.Bytes != int64(len("Content-Type: text/plain\r\n"+"first")) || !a.LeaseUntil.IsZero() {
						t.Errorf("the answer's entry is %+v", a)
					}
					if left := time.Until(c.LeaseUntil); c.Identity != request("claim").Identity || c.State != idempotency.StateClaim || c.Status != 0 || c.Bytes != 0 ||
						left < 30*time.Second || left > 90*time.Second {
						t.Errorf("the claim's entry is %+v", c)
					}
					for _, key := range []string{"answer", "claim"} {
						if got := listed(t, s, idempotency.Filter{ID: request(key).ID()}); len(got) != 1 || got[key] != all[key] {
							t.Errorf("by its id: %+v, want %+v", got, all[key])
						}
					}
					if stats, err := s.Stats(ctx); err != nil || stats.Answers != 1 || stats.Claims != 1 || stats.Bytes != a.Bytes {
						t.Errorf("Stats: %+v, %v", stats, err)
					}
					return pay(label, "second")(ctx, tx)
				})
				if err != nil {
					t.Error(err)
				}
				if all := listed(t, s, idempotency.Filter{}); len(all) != 2 || all["claim"].State != idempotency.StateAnswer {
					t.Errorf("%+v, want two answers", all)
				}
			})
		}
	}
}

// A record that stays is listed, and once, although most keys of the server vanish
// meanwhile.
func TestListWhileKeysVanish(t *testing.T) {
	t.Parallel()
	client := newClient(t, testenv.StartRedis(t))
	s := newStore(t, client)
	const records, others, batch = 3000, 60000, 10000
	for i := range records {
		if _, err := s.Execute(t.Context(), request(fmt.Sprint(i)), func(context.Context, *redisstore.Tx) (idempotency.Response, error) {
			return created("stays"), nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	change := func(queue func(p redis.Pipeliner, key string)) {
		for i := 0; i < others; i += batch {
			if _, err := client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
				for j := range batch {
					queue(p, fmt.Sprintf("other-%d", i+j))
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	change(func(p redis.Pipeliner, key string) { p.Set(t.Context(), key, "text", 0) })
	n := 0
	seen := map[string]bool{}
	for e, err := range s.List(t.Context(), idempotency.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if seen[e.Key] {
			t.Errorf("%s is listed twice", e.Key)
		}
		seen[e.Key] = true
		if n++; n == records/3 {
			change(func(p redis.Pipeliner, key string) { p.Del(t.Context(), key) })
		}
	}
	if len(seen) != records {
		t.Errorf("%d records were listed, want %d", len(seen), records)
	}
}

// A master that does not answer ends the list with an error, and so does a
// record that somebody has damaged.
func TestListFails(t *testing.T) {
	t.Parallel()
	p := newProxy(t, testenv.Redis(t))
	client := newSingle(t)
	prefix := prefixOf(t)
	s := newStore(t, newClient(t, p.addr, once), redisstore.WithPrefix(prefix), redisstore.WithClaimTimeout(500*time.Millisecond))
	if _, err := s.Execute(t.Context(), request("k"), pay(prefixOf(t), "first")); err != nil {
		t.Fatal(err)
	}
	fails := func() (last error) {
		for e, err := range s.List(t.Context(), idempotency.Filter{}) {
			if last != nil {
				t.Errorf("after %v: %+v, %v", last, e, err)
			}
			last = err
		}
		if _, err := s.Stats(t.Context()); err == nil {
			t.Error("Stats: no error")
		}
		return last
	}
	err := eachKey(t.Context(), client, prefix+"*", func(key string) error { return client.HSet(t.Context(), key, "status", "none").Err() })
	if err != nil {
		t.Fatal(err)
	}
	if err := fails(); err == nil || errors.Is(err, idempotency.ErrUnavailable) {
		t.Errorf("a damaged record: %v", err)
	}
	p.darken(true)
	if err := fails(); !errors.Is(err, idempotency.ErrUnavailable) {
		t.Errorf("no answer: %v, want unavailable", err)
	}
}
