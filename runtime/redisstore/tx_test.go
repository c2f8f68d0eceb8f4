package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/internal/testenv"
	"github.com/idemgen/idemgen/runtime/redisstore"
)

// run executes a new request whose work queues commands, and returns the error.
func run(t *testing.T, s *redisstore.Store, f func(tx *redisstore.Tx, p redis.Pipeliner)) error {
	t.Helper()
	_, err := s.Execute(t.Context(), request(prefixOf(t)), func(_ context.Context, tx *redisstore.Tx) (idempotency.Response, error) {
		return created("done"), tx.Queue(func(p redis.Pipeliner) error { f(tx, p); return nil })
	})
	return err
}

// dump returns the value of every key that begins with a prefix, as the server
// would move it, and when it ends. Small values of one kind have one form.
func dump(t *testing.T, client redis.UniversalClient, prefix string) map[string]string {
	t.Helper()
	values := map[string]string{}
	err := eachKey(t.Context(), client, prefix+"*", func(key string) error {
		value, err := client.Dump(t.Context(), key).Result()
		ends := client.PExpireTime(t.Context(), key).Val()
		values[key] = fmt.Sprintf("%x until %v", value, ends)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return values
}

// Whichever queued command fails, those before it are undone: values of every
// type, their ends, keys that were not there and keys that were deleted. The
// key of the request is free.
//
// Covers CRA-07.
func TestFailedCommandUndoesAll(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	client := newSingle(t)
	s := newStore(t, client)
	p := prefixOf(t) + "data:"
	err := errors.Join(
		client.Set(ctx, p+"string", "old", time.Hour).Err(),
		client.Set(ctx, p+"number", 7, 0).Err(),
		client.HSet(ctx, p+"hash", "a", 1, "b", "two").Err(),
		client.RPush(ctx, p+"list", "a", "b", "c").Err(),
		client.SAdd(ctx, p+"set", 1, 2, 3).Err(),
		client.ZAdd(ctx, p+"zset", redis.Z{Score: math.Pi, Member: "a"}).Err(),
		client.XAdd(ctx, &redis.XAddArgs{Stream: p + "stream", ID: "1-1", Values: []string{"a", "b"}}).Err(),
		client.XGroupCreate(ctx, p+"stream", "group", "0").Err(),
	)
	if err != nil {
		t.Fatal(err)
	}
	before := dump(t, client, p)
	writes := func(q redis.Pipeliner) {
		q.Set(ctx, p+"string", "new", 0)
		q.Expire(ctx, p+"number", time.Hour)
		q.IncrBy(ctx, p+"number", 5)
		q.HSet(ctx, p+"hash", "c", 3)
		q.LPop(ctx, p+"list")
		q.SPop(ctx, p+"set")
		q.ZIncrBy(ctx, p+"zset", 1, "a")
		q.XAdd(ctx, &redis.XAddArgs{Stream: p + "stream", Values: []string{"c", "d"}})
		q.XDel(ctx, p+"stream", "1-1")
		q.Del(ctx, p+"hash", p+"none")
		q.Rename(ctx, p+"list", p+"renamed")
		q.MSet(ctx, p+"one", 1, p+"two", 2)
		q.PFAdd(ctx, p+"count", "a")
	}
	for name, fails := range map[string]func(redis.Pipeliner){
		"WRONGTYPE":    func(q redis.Pipeliner) { q.LPush(ctx, p+"string", "x") },
		"not an int":   func(q redis.Pipeliner) { q.Incr(ctx, p+"string") },
		"out of range": func(q redis.Pipeliner) { q.IncrBy(ctx, p+"number", math.MaxInt64) },
		"syntax":       func(q redis.Pipeliner) { q.Do(ctx, "SET", p+"string", "x", "EX", "soon") },
		"arity":        func(q redis.Pipeliner) { q.Do(ctx, "HSET", p+"other", "field") },
		"no such key":  func(q redis.Pipeliner) { q.Rename(ctx, p+"absent", p+"present") },
	} {
		for _, last := range []bool{true, false} {
			err := run(t, s, func(_ *redisstore.Tx, q redis.Pipeliner) {
				writes(q)
				fails(q)
				if !last {
					writes(q)
				}
			})
			if refused := new(idempotency.CommitError); !errors.As(err, &refused) {
				t.Errorf("%s: %v, want the command's error", name, err)
			}
			if name == "WRONGTYPE" && (!redis.HasErrorPrefix(err, "WRONGTYPE") || !strings.Contains(err.Error(), "LPUSH")) {
				t.Errorf("%v does not say that LPUSH met WRONGTYPE", err)
			}
			if after := dump(t, client, p); !maps.Equal(after, before) {
				t.Errorf("%s: %v\nwas %v", name, after, before)
			}
		}
	}
	// Without the failure all of it happens.
	if err := run(t, s, func(_ *redisstore.Tx, q redis.Pipeliner) { writes(q) }); err != nil {
		t.Fatal(err)
	}
	after := dump(t, client, p)
	for _, key := range []string{"hash", "list"} {
		if _, there := after[p+key]; there {
			t.Errorf("%s is still there", key)
		}
	}
	for _, key := range []string{"renamed", "one", "two", "count"} {
		if _, there := after[p+key]; !there {
			t.Errorf("%s is not there", key)
		}
	}
	if n := client.Get(ctx, p+"number").Val(); n != "12" {
		t.Errorf("number %s, want 12", n)
	}
}

// A user who may not undo may queue one command, which undoes itself, and no
// more. A command that is not allowed undoes those before it.
func TestPermissions(t *testing.T) {
	t.Parallel()
	addr := testenv.StartRedis(t)
	admin := newClient(t, addr)
	user := func(name string, rules ...any) *redisstore.Store {
		do(t, admin, append([]any{"ACL", "SETUSER", name, "on", "nopass", "+@all"}, rules...)...)
		return newStore(t, newClient(t, addr, func(o *redis.Options) { o.Username, o.Password = name, "any" }))
	}
	s := user("no-restore", "~*", "-restore")
	one := func(_ *redisstore.Tx, p redis.Pipeliner) { p.Incr(t.Context(), "a") }
	two := func(tx *redisstore.Tx, p redis.Pipeliner) { one(tx, p); p.Incr(t.Context(), "forbidden") }
	if err := run(t, s, one); err != nil {
		t.Errorf("one command: %v", err)
	}
	if err := run(t, s, two); err == nil || !strings.Contains(err.Error(), "RESTORE") {
		t.Errorf("two commands: %v, want the missing permission", err)
	}
	if err := run(t, user("some-keys", "~a", "~*:*"), two); !redis.HasErrorPrefix(err, "NOPERM") {
		t.Errorf("a forbidden key: %v, want NOPERM", err)
	}
	err := run(t, user("no-set", "~*", "-set"), func(tx *redisstore.Tx, p redis.Pipeliner) { one(tx, p); p.Set(t.Context(), "b", 1, 0) })
	if err == nil || !strings.Contains(err.Error(), "the queued SET failed") {
		t.Errorf("a forbidden command: %v", err)
	}
	if a := admin.Get(t.Context(), "a").Val(); a != "1" {
		t.Errorf("a is %s, want 1", a)
	}
}

// A permission that is taken away while work runs, or before a claim, lets
// nothing be answered that was not applied, and nothing be kept for ever: Redis
// keeps what a script has done before it fails.
//
// Covers CRA-07.
func TestPermissionIsTakenAway(t *testing.T) {
	t.Parallel()
	addr := testenv.StartRedis(t)
	admin := newClient(t, addr)
	do(t, admin, "SET", "text", "text")
	for _, command := range []string{"hset", "pexpire", "del"} {
		prefix := command + ":"
		do(t, admin, "ACL", "SETUSER", command, "on", "nopass", "+@all", "~*")
		s := newStore(t, newClient(t, addr, func(o *redis.Options) { o.Username, o.Password = command, "any" }),
			redisstore.WithPrefix(prefix), redisstore.WithLease(100*time.Millisecond, time.Minute))
		work := pay("effect-"+command, "done")
		_, err := s.Execute(t.Context(), request("k"), func(ctx context.Context, tx *redisstore.Tx) (idempotency.Response, error) {
			do(t, admin, "ACL", "SETUSER", command, "-"+command)
			if command == "del" { // is needed where a command fails
				return created("done"), tx.Queue(func(p redis.Pipeliner) error { return p.Incr(ctx, "text").Err() })
			}
			return work(ctx, tx)
		})
		if !errors.Is(err, idempotency.ErrUnavailable) || !redis.HasErrorPrefix(err, "NOPERM") {
			t.Errorf("without %s: %v, want unavailable for NOPERM", command, err)
		}
		wantEffects(t, admin, "effect-"+command, 0)
		do(t, admin, "ACL", "SETUSER", command, "+"+command)
		if res := settled(t, s, request("k"), work); res.Replayed {
			t.Errorf("with %s again: %+v, want it executed", command, res)
		}
		wantEffects(t, admin, "effect-"+command, 1)
	}
	do(t, admin, "ACL", "SETUSER", "pexpire", "-pexpire", "-del") // so that it cannot be given up either
	client := newClient(t, addr, func(o *redis.Options) { o.Username, o.Password = "pexpire", "any" })
	if _, err := redisstore.New(t.Context(), client, redisstore.WithPrefix("endless:")); !redis.HasErrorPrefix(err, "NOPERM") {
		t.Errorf("New: %v, want it refused for NOPERM", err)
	}
	if keys := admin.Keys(t.Context(), "endless:*").Val(); len(keys) != 0 {
		t.Errorf("a claim that never ends: %q", keys)
	}
}

// Queue says at once what it does not take, and then nothing of the run is
// applied even if work takes no notice. In a cluster that includes every key
// that does not lie in the record's slot; a single server takes any key.
//
// Covers STO-03.
func TestQueueRefuses(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for name, open := range map[string]func(testing.TB) redis.UniversalClient{"Single": newSingle, "Cluster": newCluster} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, prefix := open(t), prefixOf(t)
			s := newStore(t, client, redisstore.WithPrefix(prefix))
			for _, c := range []struct {
				name    string
				cluster bool // refused in a cluster only
				command func(tx *redisstore.Tx, p redis.Pipeliner)
				want    string
			}{
				{"read", false, func(tx *redisstore.Tx, p redis.Pipeliner) { p.HGetAll(ctx, tx.Key("a")) }, "does not write"},
				{"blocking", false, func(tx *redisstore.Tx, p redis.Pipeliner) { p.BLPop(ctx, 0, tx.Key("a")) }, "in a script"},
				{"no key", false, func(_ *redisstore.Tx, p redis.Pipeliner) { p.FlushDB(ctx) }, "no keys"},
				{"keys anywhere", false, func(tx *redisstore.Tx, p redis.Pipeliner) {
					p.ZUnionStore(ctx, tx.Key("a"), &redis.ZStore{Keys: []string{tx.Key("b")}})
				}, "fixed places"},
				{"another database", false, func(tx *redisstore.Tx, p redis.Pipeliner) { p.Move(ctx, tx.Key("a"), 1) }, "another database"},
				{"copy elsewhere", false, func(tx *redisstore.Tx, p redis.Pipeliner) { p.Copy(ctx, tx.Key("a"), tx.Key("b"), 1, true) }, "another database"},
				{"unknown", false, func(tx *redisstore.Tx, p redis.Pipeliner) { p.Do(ctx, "FROBNICATE", tx.Key("a")) }, "FROBNICATE"},
				{"arguments missing", false, func(_ *redisstore.Tx, p redis.Pipeliner) { p.Do(ctx, "RENAME", "a") }, "missing"},
				{"key no string", false, func(_ *redisstore.Tx, p redis.Pipeliner) { p.Do(ctx, "INCR", 7) }, "use a string"},
				{"argument of no type", false, func(tx *redisstore.Tx, p redis.Pipeliner) { p.Do(ctx, "SET", tx.Key("a"), struct{}{}) }, "struct {}"},
				{"argument that cannot be marshalled", false, func(tx *redisstore.Tx, p redis.Pipeliner) { p.Set(ctx, tx.Key("a"), unmarshalable{}, 0) }, "no bytes"},
				{"too many arguments", false, func(tx *redisstore.Tx, p redis.Pipeliner) {
					p.RPush(ctx, tx.Key("a"), slices.Repeat([]any{"x"}, 5000)...)
				}, "at most 4096"},
				{"the store's keys", false, func(_ *redisstore.Tx, p redis.Pipeliner) { p.Del(ctx, prefix+"{x}") }, "the store's"},
				{"Exec", false, func(tx *redisstore.Tx, p redis.Pipeliner) { p.Incr(ctx, tx.Key("a")); _, _ = p.Exec(ctx) }, "Exec"},
				{"Pipelined", false, func(tx *redisstore.Tx, p redis.Pipeliner) {
					_, _ = p.Pipelined(ctx, func(p redis.Pipeliner) error { return p.Incr(ctx, tx.Key("a")).Err() })
				}, "Exec"},
				{"TxPipelined", false, func(tx *redisstore.Tx, p redis.Pipeliner) {
					_, _ = p.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.Incr(ctx, tx.Key("a")).Err() })
				}, "Exec"},
				{"Exec of an inner pipeline", false, func(tx *redisstore.Tx, p redis.Pipeliner) {
					_, _ = p.Pipeline().TxPipeline().Exec(ctx)
				}, "Exec"},
				{"another slot", true, func(_ *redisstore.Tx, p redis.Pipeliner) { p.Incr(ctx, prefix[:4]+"elsewhere") }, "WithHashTag"},
				{"another slot behind", true, func(tx *redisstore.Tx, p redis.Pipeliner) {
					p.MSet(ctx, tx.Key("a"), 1, "{"+prefix+"}elsewhere", 2)
				}, "WithHashTag"},
			} {
				var first error
				_, err := s.Execute(ctx, request(c.name), func(ctx context.Context, tx *redisstore.Tx) (idempotency.Response, error) {
					if err := effect(ctx, tx, prefix+c.name); err != nil {
						t.Error(err)
					}
					first = tx.Queue(func(p redis.Pipeliner) error { c.command(tx, p); return nil })
					return created("ignored"), nil
				})
				if c.cluster && name == "Single" {
					if err != nil || first != nil {
						t.Errorf("%s: %v, %v; want it to be taken", c.name, first, err)
					}
					continue
				}
				for _, err := range []error{first, err} {
					if err == nil || !strings.Contains(err.Error(), c.want) {
						t.Errorf("%s: %v, want an error that says %q", c.name, err, c.want)
					}
				}
				wantEffects(t, client, prefix+c.name, 0)
				if _, err := s.Lookup(ctx, request(c.name).Identity); !errors.Is(err, idempotency.ErrNotFound) {
					t.Errorf("%s: Lookup: %v", c.name, err)
				}
			}
		})
	}
}

type unmarshalable struct{}

func (unmarshalable) MarshalBinary() ([]byte, error) { return nil, errors.New("no bytes") }

// Arguments arrive as the client would send them, as they were when they were
// queued; the error of fn comes back and what it gave is dropped.
func TestQueueTakes(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	client := newSingle(t)
	s := newStore(t, client)
	p := prefixOf(t)
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("", 3600))
	values := map[string]any{
		"string": "a\x00b\xff", "bytes": []byte{0, 1, 255}, "empty": []byte{}, "int": -7, "uint": uint64(math.MaxUint64),
		"float": 1.5, "bool": true, "time": at, "pointer": &at, "duration": time.Second, "ip": net.IPv4(127, 0, 0, 1),
		"marshaler": &url.URL{Scheme: "https", Host: "example.com"},
	}
	buffer := []byte("before")
	giveUp := errors.New("changed my mind")
	_, err := s.Execute(ctx, request(p), func(ctx context.Context, tx *redisstore.Tx) (idempotency.Response, error) {
		err := tx.Queue(func(q redis.Pipeliner) error {
			for name, v := range values {
				q.Set(ctx, p+"queued:"+name, v, 0)
			}
			q.Set(ctx, p+"buffer", buffer, time.Hour)
			q.RPush(ctx, p+"many", slices.Repeat([]any{"x"}, 4000)...)
			return nil
		})
		copy(buffer, "behind")
		got := tx.Queue(func(q redis.Pipeliner) error { q.Set(ctx, p+"dropped", 1, 0); return giveUp })
		if !errors.Is(got, giveUp) {
			t.Errorf("%v, want the function's own error", got)
		}
		if err := tx.Queue(func(q redis.Pipeliner) error { q.Set(ctx, p+"dropped", 1, 0); q.Discard(); return nil }); err != nil {
			t.Error(err)
		}
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if err := tx.Queue(func(q redis.Pipeliner) error { return q.Incr(ctx, p+"count").Err() }); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		return created("done"), err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range values {
		if err := client.Set(ctx, p+"direct", v, 0).Err(); err != nil {
			t.Fatal(err)
		}
		if got, want := client.Get(ctx, p+"queued:"+name).Val(), client.Get(ctx, p+"direct").Val(); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for key, want := range map[string]string{"buffer": "before", "dropped": "", "count": "10"} {
		if got := client.Get(ctx, p+key).Val(); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
	if n := client.LLen(ctx, p+"many").Val(); n != 4000 {
		t.Errorf("%d elements, want 4000", n)
	}
	if left := client.TTL(ctx, p+"buffer").Val(); left < 59*time.Minute {
		t.Errorf("the buffer ends in %v", left)
	}
}

// With a hash tag of its own choice, a record lies where its business data
// lies, and both are written in one step, on a cluster too.
func TestWithHashTag(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	client := newCluster(t)
	tenant := prefixOf(t)
	s := newStore(t, client, redisstore.WithHashTag(func(id idempotency.Identity) string { return id.Scope }))
	req := request("k")
	req.Scope = tenant
	balance := "{" + tenant + "}:balance"
	pay := func(ctx context.Context, tx *redisstore.Tx) (idempotency.Response, error) {
		if tx.Slot() != tenant || tx.Key("balance") != balance {
			t.Errorf("slot %q, key %q", tx.Slot(), tx.Key("balance"))
		}
		return created("paid"), tx.Queue(func(p redis.Pipeliner) error { return p.DecrBy(ctx, balance, 5).Err() })
	}
	for i := range 2 {
		if res, err := s.Execute(ctx, req, pay); err != nil || res.Replayed != (i == 1) {
			t.Errorf("%+v, %v", res, err)
		}
	}
	if got := client.Get(ctx, balance).Val(); got != "-5" {
		t.Errorf("balance %s, want -5", got)
	}

	// Without a key the first command chooses the slot.
	for _, key := range []string{balance, tenant + "-plain", "a{}b" + tenant} {
		_, err := s.Transact(ctx, func(_ context.Context, tx *redisstore.Tx) (idempotency.Response, error) {
			err := tx.Queue(func(p redis.Pipeliner) error { return p.IncrBy(ctx, key, 7).Err() })
			if strings.Contains(key, "{}") { // its slot has no hash tag
				if err == nil || !strings.Contains(err.Error(), "brace") {
					t.Errorf("%s: %v, want it refused", key, err)
				}
				return idempotency.Response{}, nil
			}
			if err := tx.Queue(func(p redis.Pipeliner) error { return p.Incr(ctx, "{elsewhere}"+tenant).Err() }); err == nil {
				t.Error("a second slot: no error")
			}
			return idempotency.Response{}, context.Canceled
		})
		if err == nil {
			t.Errorf("%s: no error", key)
		}
	}
	_, err := s.Transact(ctx, func(ctx context.Context, tx *redisstore.Tx) (idempotency.Response, error) {
		return created("paid"), tx.Queue(func(p redis.Pipeliner) error {
			p.IncrBy(ctx, balance, 7)
			p.RPush(ctx, "{"+tenant+"}:outbox", "message")
			return nil
		})
	})
	if got := client.Get(ctx, balance).Val(); got != "2" || err != nil {
		t.Errorf("balance %s, %v; want 2", got, err)
	}
	if resp, err := s.Transact(ctx, func(context.Context, *redisstore.Tx) (idempotency.Response, error) { return created("nothing"), nil }); err != nil || string(resp.Body) != "nothing" {
		t.Errorf("nothing queued: %+v, %v", resp, err)
	}
}
