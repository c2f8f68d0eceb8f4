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
)

// A request that cannot be claimed is not executed, and says so within its
// deadline. That includes a server whose memory is full and that rightly evicts
// nothing.
//
// Covers CRA-16, STO-01.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		breaks func(t *testing.T, p *proxy, server *redis.Client)
	}{
		{"Silent", func(_ *testing.T, p *proxy, _ *redis.Client) { p.darken(true) }},
		{"Gone", func(_ *testing.T, _ *proxy, server *redis.Client) { server.ShutdownNoSave(context.Background()) }},
		{"Replica", func(t *testing.T, _ *proxy, server *redis.Client) { do(t, server, "REPLICAOF", "127.0.0.1", "1") }},
		{"MemoryFull", func(t *testing.T, _ *proxy, server *redis.Client) { do(t, server, "CONFIG", "SET", "maxmemory", "1") }},
		{"TooFewReplicas", func(t *testing.T, _ *proxy, server *redis.Client) {
			do(t, server, "CONFIG", "SET", "min-replicas-to-write", "1")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			addr := testenv.StartRedis(t)
			p := newProxy(t, addr)
			s := newStore(t, newClient(t, p.addr), redisstore.WithClaimTimeout(300*time.Millisecond), redisstore.WithFinishTimeout(300*time.Millisecond))
			server := newClient(t, addr)
			c.breaks(t, p, server)

			start := time.Now()
			if _, err := s.Execute(t.Context(), request("k"), never(t)); !errors.Is(err, idempotency.ErrUnavailable) {
				t.Errorf("Execute: %v, want unavailable", err)
			}
			if took := time.Since(start); took > 3*time.Second {
				t.Errorf("answered after %v, want about 300 ms", took)
			}
			if _, err := s.Lookup(t.Context(), request("k").Identity); !errors.Is(err, idempotency.ErrUnavailable) && !errors.Is(err, idempotency.ErrNotFound) {
				t.Errorf("Lookup: %v", err)
			}
		})
	}
}

func do(t *testing.T, client *redis.Client, args ...any) {
	t.Helper()
	if err := client.Do(t.Context(), args...).Err(); err != nil {
		t.Errorf("%v: %v", args, err)
	}
}

// A server that takes no writes when work has returned keeps nothing. If it is
// certain not to have written, the key is free at once; where it may recover,
// the completion is sent until it does.
//
// Covers CRA-16.
func TestCompletionIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		breaks, mends []any
		recovers      bool
	}{
		{"MemoryFull", []any{"CONFIG", "SET", "maxmemory", "1"}, []any{"CONFIG", "SET", "maxmemory", "0"}, false},
		{"Replica", []any{"REPLICAOF", "127.0.0.1", "1"}, []any{"REPLICAOF", "NO", "ONE"}, true},
		{"ForgottenScripts", []any{"SCRIPT", "FLUSH"}, []any{"PING"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			addr := testenv.StartRedis(t)
			server := newClient(t, addr)
			s := newStore(t, newClient(t, addr))
			label := prefixOf(t)
			mended := make(chan struct{})
			_, err := s.Execute(t.Context(), request("k"), func(ctx context.Context, tx *redisstore.Tx) (idempotency.Response, error) {
				do(t, server, c.breaks...)
				go func() {
					defer close(mended)
					if c.recovers { // when the store has tried in vain
						eventually(t, "a refused completion", func() bool {
							stats, err := server.InfoMap(ctx, "errorstats").Result()
							return err != nil || len(stats["Errorstats"]) > 0
						})
						do(t, server, c.mends...)
					}
				}()
				return pay(label, "first")(ctx, tx)
			})
			<-mended
			if c.recovers {
				if err != nil {
					t.Errorf("%v, want the completion to be sent again", err)
				}
				wantEffects(t, server, label, 1)
				return
			}
			if !errors.Is(err, idempotency.ErrUnavailable) || !strings.Contains(err.Error(), "OOM") {
				t.Errorf("%v, want unavailable for OOM", err)
			}
			wantEffects(t, server, label, 0)
			do(t, server, c.mends...)
			if _, err := s.Execute(t.Context(), request("k"), pay(label, "second")); err != nil {
				t.Errorf("retry: %v", err)
			}
			wantEffects(t, server, label, 1)
		})
	}
}

// A completion that was carried out, whose answer was lost, and whose server then
// refuses to talk, has an unknown outcome, and a retry replays it.
//
// Covers CRA-09.
func TestLostCompletionThenLockedOut(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*redis.Options){"Resending": func(*redis.Options) {}, "Once": once} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := testenv.StartRedis(t)
			p := newProxy(t, addr)
			server := newClient(t, addr)
			s := newStore(t, newClient(t, p.addr, change), redisstore.WithPrefix("same:"))
			label := prefixOf(t)
			if _, err := s.Execute(t.Context(), request("before"), pay(label+"before", "the server knows the scripts")); err != nil {
				t.Fatal(err)
			}
			_, err := s.Execute(t.Context(), request("k"), func(ctx context.Context, tx *redisstore.Tx) (idempotency.Response, error) {
				p.on(script(t, "complete"), loseAnswer, 1)
				// Refuses connections that are made from now on.
				do(t, server, "CONFIG", "SET", "requirepass", "secret")
				return pay(label, "first")(ctx, tx)
			})
			if !errors.Is(err, idempotency.ErrOutcomeUnknown) {
				t.Errorf("%v, want outcome unknown", err)
			}
			wantEffects(t, server, label, 1)
			do(t, server, "CONFIG", "SET", "requirepass", "")
			if res, err := newStore(t, server, redisstore.WithPrefix("same:")).Execute(t.Context(), request("k"), never(t)); err != nil || !res.Replayed {
				t.Errorf("retry: %+v, %v", res, err)
			}
		})
	}
}

// A server restarts while work runs. If it keeps what it is told, the claim is
// still there and is completed; if it has forgotten all, the answer is refused,
// since somebody else may have claimed the key meanwhile.
func TestServerRestarts(t *testing.T) {
	t.Parallel()
	for name, kept := range map[string]bool{"Kept": true, "Forgotten": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := []string{"--enable-debug-command", "yes"}
			if kept {
				args = append(args, "--appendonly", "yes")
			}
			addr := testenv.StartRedis(t, args...)
			server := newClient(t, addr)
			s := newStore(t, newClient(t, addr))
			label := prefixOf(t)
			_, err := s.Execute(t.Context(), request("k"), func(ctx context.Context, tx *redisstore.Tx) (idempotency.Response, error) {
				_ = server.Do(ctx, "DEBUG", "RESTART").Err() // the connection ends
				return pay(label, "first")(ctx, tx)
			})
			if kept && err != nil || !kept && !errors.Is(err, idempotency.ErrLeaseLost) {
				t.Errorf("%v", err)
			}
			res := settled(t, s, request("k"), pay(label, "second"))
			if res.Replayed != kept {
				t.Errorf("retry: %+v", res)
			}
			wantEffects(t, server, label, 1)
		})
	}
}

// clockHook is a server whose clock is ahead, as far as claims tell.
type clockHook struct{ ahead time.Duration }

func (clockHook) DialHook(next redis.DialHook) redis.DialHook { return next }
func (clockHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h clockHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if script, ok := cmd.(*redis.Cmd); ok && err == nil {
			if answer, ok := script.Val().([]any); ok && len(answer) == 2 && answer[0] == "claimed" {
				answer[1] = answer[1].(int64) + h.ahead.Milliseconds()
			}
		}
		return err
	}
}

// Keys are judged by the server's clock, whatever this machine's says.
//
// Covers EXP-07.
func TestServersClockDecides(t *testing.T) {
	t.Parallel()
	const ahead = 6 * time.Hour
	client := newClient(t, testenv.Redis(t))
	client.AddHook(clockHook{ahead})
	s := newStore(t, client)
	for age, want := range map[time.Duration]error{0: idempotency.ErrExpired, -ahead: nil, -2 * ahead: idempotency.ErrKeyInvalid} {
		ms := fmt.Sprintf("%012x", time.Now().Add(-age).UnixMilli())
		req := request(ms[:8] + "-" + ms[8:] + "-7abc-8def-0123456789ab")
		req.KeyHasTime = true
		if _, err := s.Execute(t.Context(), req, pay(prefixOf(t), "first")); !errors.Is(err, want) {
			t.Errorf("a key that is %v old by this machine's clock: %v, want %v", age, err, want)
		}
	}
}

// A client that is closed while work runs answers at once, with a key or without
// one: nothing was kept, since nothing was sent. Where a completion was sent
// before and not answered, nobody can say.
func TestClosedClient(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(*redisstore.Store, idempotency.Work[*redisstore.Tx]) error{
		"Execute": func(s *redisstore.Store, work idempotency.Work[*redisstore.Tx]) error {
			_, err := s.Execute(t.Context(), request("k"), work)
			return err
		},
		"Transact": func(s *redisstore.Store, work idempotency.Work[*redisstore.Tx]) error {
			_, err := s.Transact(t.Context(), work)
			return err
		},
	} {
		for sent, want := range map[bool]error{false: idempotency.ErrUnavailable, true: idempotency.ErrOutcomeUnknown} {
			p, client, direct := routes[1].open(t)
			s := newStore(t, client)
			label := prefixOf(t)
			err := run(s, func(ctx context.Context, tx *redisstore.Tx) (idempotency.Response, error) {
				if sent {
					p.onThen(script(t, "complete"), loseAnswer, 1, func() { _ = client.Close() })
				} else if err := client.Close(); err != nil {
					return idempotency.Response{}, err
				}
				return pay(label, "first")(ctx, tx)
			})
			if !errors.Is(err, want) || !errors.Is(err, redis.ErrClosed) {
				t.Errorf("%s, sent before: %v: %v, want %v for a closed client", name, sent, err, want)
			}
			wantEffects(t, direct, label, map[bool]int{true: 1}[sent])
			if _, err := s.Execute(t.Context(), request("another"), never(t)); !errors.Is(err, idempotency.ErrUnavailable) {
				t.Errorf("%s: %v, want unavailable", name, err)
			}
		}
	}
}

// A record of another identity under the same id is a mismatch, and not there
// for those who look it up.
//
// Covers SEC-01.
func TestCollision(t *testing.T) {
	t.Parallel()
	client := newSingle(t)
	prefix := prefixOf(t)
	s := newStore(t, client, redisstore.WithPrefix(prefix))
	if _, err := s.Execute(t.Context(), request("k"), pay(prefix, "first")); err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"scope", "operation", "key"} {
		was := ""
		swap := func(value string) {
			err := eachKey(t.Context(), client, prefix+"*", func(key string) (err error) {
				if was, err = client.HGet(t.Context(), key, field).Result(); err != nil {
					return err
				}
				return client.HSet(t.Context(), key, field, value).Err()
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		swap("another")
		if _, err := s.Execute(t.Context(), request("k"), never(t)); !errors.Is(err, idempotency.ErrMismatch) {
			t.Errorf("another %s: Execute: %v, want a mismatch", field, err)
		}
		if _, err := s.Lookup(t.Context(), request("k").Identity); !errors.Is(err, idempotency.ErrNotFound) {
			t.Errorf("another %s: Lookup: %v, want not found", field, err)
		}
		if err := s.Release(t.Context(), request("k").Identity); !errors.Is(err, idempotency.ErrNotFound) {
			t.Errorf("another %s: Release: %v, want not found", field, err)
		}
		swap(was)
	}
	if res, err := s.Execute(t.Context(), request("k"), never(t)); err != nil || !res.Replayed {
		t.Errorf("%+v, %v", res, err)
	}
}

// A record that somebody has damaged has an unknown outcome, and is never
// executed again.
func TestDamagedRecord(t *testing.T) {
	t.Parallel()
	client := newSingle(t)
	for _, change := range []struct{ field, value string }{
		{"status", "none"}, {"status", "99"}, {"created_at", "noon"}, {"expires_at", ""}, {"header", "no header"}, {"body", ""}, {"token", ""},
	} {
		prefix := prefixOf(t)
		s := newStore(t, client, redisstore.WithPrefix(prefix))
		if _, err := s.Execute(t.Context(), request("k"), pay(prefix, "first")); err != nil {
			t.Fatal(err)
		}
		err := eachKey(t.Context(), client, prefix+"*", func(key string) error {
			if change.field == "body" || change.field == "token" {
				return client.HDel(t.Context(), key, change.field).Err()
			}
			return client.HSet(t.Context(), key, change.field, change.value).Err()
		})
		if err != nil {
			t.Fatal(err)
		}
		if res, err := s.Execute(t.Context(), request("k"), never(t)); !errors.Is(err, idempotency.ErrOutcomeUnknown) || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("%+v: %+v, %v; want outcome unknown", change, res, err)
		}
		if _, err := s.Lookup(t.Context(), request("k").Identity); !errors.Is(err, idempotency.ErrOutcomeUnknown) || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("%+v: Lookup: %v; want outcome unknown", change, err)
		}
	}
}

// An answer of 20 MiB is kept whole.
//
// Covers RSP-08.
func TestBigAnswer(t *testing.T) {
	t.Parallel()
	client := newClient(t, testenv.Redis(t), func(o *redis.Options) { o.ReadTimeout, o.WriteTimeout = time.Minute, time.Minute })
	s := newStore(t, client, redisstore.WithClaimTimeout(time.Minute), redisstore.WithFinishTimeout(time.Minute))
	body := strings.Repeat("0123456789abcdef\x00\xff\r\n", 1<<20)
	for i := range 2 {
		res, err := s.Execute(t.Context(), request("k"), func(context.Context, *redisstore.Tx) (idempotency.Response, error) {
			return created(body), nil
		})
		if err != nil || res.Replayed != (i == 1) || string(res.Body) != body {
			t.Errorf("%v, Replayed %v, %d bytes of %d", err, res.Replayed, len(res.Body), len(body))
		}
	}
	if err := s.Release(t.Context(), request("k").Identity); err != nil {
		t.Error(err)
	}
}

// Requests that could not be kept are refused before they run.
func TestRequestsAreChecked(t *testing.T) {
	t.Parallel()
	s := newStore(t, newSingle(t))
	for _, retention := range []time.Duration{0, -time.Second, 1<<63 - 1} {
		req := request("k")
		req.Retention = retention
		if _, err := s.Execute(t.Context(), req, never(t)); err == nil || !strings.Contains(err.Error(), "retention") {
			t.Errorf("retention %v: %v", retention, err)
		}
	}
	for _, status := range []int{0, 99, 1000} {
		_, err := s.Execute(t.Context(), request("k"), func(context.Context, *redisstore.Tx) (idempotency.Response, error) {
			return idempotency.Response{Status: status}, nil
		})
		if err == nil || !strings.Contains(err.Error(), "status") {
			t.Errorf("status %d: %v", status, err)
		}
	}
}
