package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/internal/testenv"
	"github.com/idemgen/idemgen/runtime/redisstore"
)

func request(key string) idempotency.Request {
	return idempotency.Request{
		Identity:    idempotency.Identity{Scope: "tenant", Operation: "createPayment", Key: key},
		Fingerprint: idempotency.FingerprintOf([]byte("payload")),
		Retention:   time.Hour,
	}
}

func created(body string) idempotency.Response {
	return idempotency.Response{Status: http.StatusCreated, Header: http.Header{"Content-Type": {"text/plain"}}, Body: []byte(body)}
}

// pay makes one effect of this name and answers with the body.
func pay(name, body string) idempotency.Work[*redisstore.Tx] {
	return func(ctx context.Context, tx *redisstore.Tx) (idempotency.Response, error) {
		return created(body), effect(ctx, tx, name)
	}
}

func never(t *testing.T) idempotency.Work[*redisstore.Tx] {
	return func(context.Context, *redisstore.Tx) (idempotency.Response, error) {
		t.Error("work ran; it must not")
		return idempotency.Response{}, errors.New("work ran")
	}
}

func wantEffects(t *testing.T, client redis.UniversalClient, name string, want int) {
	t.Helper()
	if n, err := effects(t.Context(), client, name); n != want || err != nil {
		t.Errorf("%d effects %q, error %v; want %d", n, name, err, want)
	}
}

// eventually tries until f agrees.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !f() {
		if time.Now().After(deadline) || t.Context().Err() != nil {
			t.Fatalf("waited in vain for: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// settled executes req until it is no longer in flight.
func settled(t *testing.T, s *redisstore.Store, req idempotency.Request, work idempotency.Work[*redisstore.Tx]) (res idempotency.Result) {
	t.Helper()
	eventually(t, "an answer", func() bool {
		var err error
		res, err = s.Execute(t.Context(), req, work)
		if err != nil && !errors.Is(err, idempotency.ErrInFlight) {
			t.Fatal(err)
		}
		return err == nil
	})
	return res
}

// once keeps a client from sending a command again when its answer is lost, as
// it does by default.
func once(o *redis.Options) { o.MaxRetries = -1 }

// route is a way to servers through a proxy.
type route struct {
	name    string
	cluster bool
	resends bool // the client sends a command again when its answer is lost
}

var routes = []route{
	{"SingleResending", false, true},
	{"SingleOnce", false, false},
	{"ClusterResending", true, true},
	{"ClusterOnce", true, false},
}

// open returns the proxy, a client that goes through it and one that does not.
// The servers know the scripts: what is sent first is carried out.
func (r route) open(t *testing.T) (p *proxy, client, direct redis.UniversalClient) {
	t.Helper()
	if r.cluster {
		addrs := testenv.RedisCluster(t)
		p, direct = newProxy(t, addrs...), newCluster(t)
		client = newClusterClient(t, addrs, func(o *redis.ClusterOptions) {
			o.Dialer = p.dial
			if !r.resends {
				o.MaxRedirects = -1
			}
		})
	} else {
		p, direct = newProxy(t, testenv.Redis(t)), newSingle(t)
		client = newClient(t, p.addr, func(o *redis.Options) {
			if !r.resends {
				once(o)
			}
		})
	}
	for _, name := range []string{"claim", "extend", "complete", "abandon", "lookup", "release"} {
		if err := direct.ScriptLoad(t.Context(), source(t, name)).Err(); err != nil {
			t.Fatal(err)
		}
	}
	return p, client, direct
}

// fates are those of a command without an answer.
var fates = map[string]fate{"AnswerLost": loseAnswer, "Cut": cut}

// A claim whose answer is lost is recognised when the client sends it again. If
// the client does not, the request is unavailable and the key free: nobody
// takes the claim for a rival's.
//
// Covers CRA-08, STO-05.
func TestLostClaim(t *testing.T) {
	t.Parallel()
	for _, r := range routes {
		for fateName, f := range fates {
			t.Run(r.name+fateName, func(t *testing.T) {
				t.Parallel()
				p, client, direct := r.open(t)
				s := newStore(t, client, redisstore.WithLease(time.Hour, time.Hour))
				label := prefixOf(t)
				claim := p.on(script(t, "claim"), f, 1)
				res, err := s.Execute(t.Context(), request("k"), pay(label, "first"))
				<-claim.struck
				switch {
				case r.resends && (err != nil || res.Replayed):
					t.Errorf("%+v, %v; want the handler's answer", res, err)
				case !r.resends && !errors.Is(err, idempotency.ErrUnavailable):
					t.Errorf("%+v, %v; want unavailable", res, err)
				}
				res = settled(t, s, request("k"), pay(label, "second"))
				if res.Replayed != r.resends {
					t.Errorf("retry: %+v", res)
				}
				wantEffects(t, direct, label, 1)
			})
		}
	}
}

// A claim that was made, whose answer was lost, and that is refused when the
// client sends it again, is given up: the key is not in flight with nobody at
// work.
//
// Covers CRA-08, STO-05.
func TestLostClaimThenRefused(t *testing.T) {
	t.Parallel()
	for _, r := range routes {
		if !r.resends {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			p, client, direct := r.open(t)
			s := newStore(t, client, redisstore.WithLease(time.Hour, time.Hour))
			label := prefixOf(t)
			p.on(script(t, "claim"), loseAnswer, 1)
			p.on(script(t, "claim"), refuse, 1)
			if _, err := s.Execute(t.Context(), request("k"), never(t)); !errors.Is(err, idempotency.ErrUnavailable) {
				t.Errorf("%v, want unavailable", err)
			}
			if res := settled(t, s, request("k"), pay(label, "second")); res.Replayed {
				t.Errorf("retry: %+v", res)
			}
			wantEffects(t, direct, label, 1)
		})
	}
}

// A completion whose answer is lost is sent again, by the client or the store,
// and is carried out once.
//
// Covers CRA-04, CRA-08, CRA-09, STO-05.
func TestLostCompletion(t *testing.T) {
	t.Parallel()
	for _, r := range routes {
		for fateName, f := range fates {
			for _, times := range []int{1, 3} {
				t.Run(fmt.Sprint(r.name, fateName, times), func(t *testing.T) {
					t.Parallel()
					p, client, direct := r.open(t)
					s := newStore(t, client)
					label := prefixOf(t)
					completion := p.on(script(t, "complete"), f, times)
					res, err := s.Execute(t.Context(), request("k"), pay(label, "first"))
					if err != nil || res.Replayed || string(res.Body) != "first" {
						t.Errorf("%+v, %v; want the handler's answer", res, err)
					}
					for range times {
						<-completion.struck
					}
					wantEffects(t, direct, label, 1)
					if res, err := s.Execute(t.Context(), request("k"), never(t)); err != nil || !res.Replayed {
						t.Errorf("retry: %+v, %v", res, err)
					}

					again := p.on(script(t, "complete"), f, times)
					label += "transact"
					if _, err := s.Transact(t.Context(), pay(label, "plain")); err != nil {
						t.Errorf("Transact: %v", err)
					}
					for range times {
						<-again.struck
					}
					wantEffects(t, direct, label, 1)
				})
			}
		}
	}
}

// A completion without an answer that is refused when it is sent again, by the
// client or the store, is settled by its token: nobody is told that nothing was
// kept of what was stored, nor that something may have been of what was not.
//
// Covers CRA-04, CRA-09, STO-05.
func TestLostCompletionThenRefused(t *testing.T) {
	t.Parallel()
	for _, r := range routes {
		for fateName, f := range fates {
			t.Run(r.name+fateName, func(t *testing.T) {
				t.Parallel()
				p, client, direct := r.open(t)
				s := newStore(t, client)
				label := prefixOf(t)
				p.on(script(t, "complete"), f, 1)
				refusal := p.on(script(t, "complete"), refuse, 1)
				res, err := s.Execute(t.Context(), request("k"), pay(label, "first"))
				<-refusal.struck
				switch {
				case f == loseAnswer && (err != nil || res.Replayed || string(res.Body) != "first"):
					t.Errorf("%+v, %v; want the handler's answer", res, err)
				case f == cut && !errors.Is(err, idempotency.ErrUnavailable):
					t.Errorf("%+v, %v; want unavailable", res, err)
				}
				if res, err := s.Execute(t.Context(), request("k"), pay(label, "second")); err != nil || res.Replayed != (f == loseAnswer) {
					t.Errorf("retry: %+v, %v", res, err)
				}
				wantEffects(t, direct, label, 1)

				// Of what was done without a key nothing can be taken back.
				p.on(script(t, "complete"), f, 1)
				p.on(script(t, "complete"), refuse, 1)
				label += "transact"
				_, err = s.Transact(t.Context(), pay(label, "plain"))
				switch {
				case f == loseAnswer && err != nil:
					t.Errorf("Transact: %v", err)
				case f == cut && !errors.Is(err, idempotency.ErrOutcomeUnknown):
					t.Errorf("Transact: %v, want outcome unknown", err)
				}
				wantEffects(t, direct, label, map[fate]int{loseAnswer: 1, cut: 0}[f])
			})
		}
	}
}

// A completion whose answer is lost, and whose record is gone when it is sent
// again, has an unknown outcome: it may have been carried out. Only where no
// answer is missing the claim is known to be lost before.
//
// Covers CRA-09, EXP-12.
func TestLostCompletionThenGone(t *testing.T) {
	t.Parallel()
	for _, r := range routes {
		for fateName, f := range fates {
			t.Run(r.name+fateName, func(t *testing.T) {
				t.Parallel()
				p, client, direct := r.open(t)
				prefix := prefixOf(t)
				s := newStore(t, client, redisstore.WithPrefix(prefix))
				label := prefixOf(t)
				vanish := func() { // expired, or released
					err := eachKey(t.Context(), direct, prefix+"*", func(key string) error { return direct.Del(t.Context(), key).Err() })
					if err != nil {
						t.Error(err)
					}
				}
				p.onThen(script(t, "complete"), f, 1, vanish)
				_, err := s.Execute(t.Context(), request("k"), pay(label, "first"))
				if !errors.Is(err, idempotency.ErrOutcomeUnknown) || !errors.Is(err, idempotency.ErrLeaseLost) {
					t.Errorf("%v, want outcome unknown since the record is gone", err)
				}
				wantEffects(t, direct, label, map[fate]int{loseAnswer: 1, cut: 0}[f])

				label += "known"
				_, err = s.Execute(t.Context(), request("k"), func(ctx context.Context, tx *redisstore.Tx) (idempotency.Response, error) {
					vanish()
					return pay(label, "late")(ctx, tx)
				})
				if !errors.Is(err, idempotency.ErrUnavailable) || !errors.Is(err, idempotency.ErrLeaseLost) {
					t.Errorf("%v, want unavailable for a lost lease", err)
				}
				wantEffects(t, direct, label, 0)
			})
		}
	}
}

// A heartbeat without an answer, and the end of a claim without one, change
// nothing for others: the claim holds while work runs, and the key is free when
// work has failed, or after the lease where the client sends nothing again.
//
// Covers CON-10, STO-05.
func TestLostHeartbeatAndEnd(t *testing.T) {
	t.Parallel()
	for _, r := range routes {
		for fateName, f := range fates {
			t.Run(r.name+fateName, func(t *testing.T) {
				t.Parallel()
				const lease = 1500 * time.Millisecond
				p, client, direct := r.open(t)
				s := newStore(t, client, redisstore.WithLease(lease, time.Minute))
				label := prefixOf(t)
				failure := errors.New("failure")
				beats := p.on(script(t, "extend"), f, 2)
				end := p.on(script(t, "abandon"), f, 1)
				start := time.Now()
				_, err := s.Execute(t.Context(), request("k"), func(ctx context.Context, tx *redisstore.Tx) (idempotency.Response, error) {
					<-beats.struck
					<-beats.struck
					for time.Since(start) < lease*6/5 {
						if _, err := s.Execute(ctx, request("k"), never(t)); !errors.Is(err, idempotency.ErrInFlight) {
							t.Errorf("a duplicate: %v, want in flight", err)
						}
						time.Sleep(lease / 30)
					}
					return idempotency.Response{}, errors.Join(effect(ctx, tx, label), ctx.Err(), failure)
				})
				if !errors.Is(err, failure) || errors.Is(err, context.Canceled) {
					t.Errorf("%v, want the handler's failure alone", err)
				}
				<-end.struck
				if r.resends || f == loseAnswer {
					if res, err := s.Execute(t.Context(), request("k"), pay(label, "second")); err != nil || res.Replayed {
						t.Errorf("retry: %+v, %v", res, err)
					}
				} else if res := settled(t, s, request("k"), pay(label, "second")); res.Replayed {
					t.Errorf("retry: %+v", res)
				}
				wantEffects(t, direct, label, 1)
			})
		}
	}
}

// An answer that is released and stored anew just before the deletion of what was
// listed arrives stays.
func TestReleaseEntryOfWhatChanges(t *testing.T) {
	t.Parallel()
	for _, r := range routes {
		if !r.resends {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			p, client, direct := r.open(t)
			prefix := redisstore.WithPrefix(prefixOf(t))
			s, other := newStore(t, client, prefix), newStore(t, direct, prefix)
			label := prefixOf(t)
			if _, err := s.Execute(t.Context(), request("k"), pay(label, "first")); err != nil {
				t.Fatal(err)
			}
			e := listed(t, other, idempotency.Filter{})["k"]
			p.onThen(script(t, "release"), cut, 1, func() {
				if err := other.Release(t.Context(), request("k").Identity); err != nil {
					t.Error(err)
				}
				if _, err := other.Execute(t.Context(), request("k"), pay(label, "second")); err != nil {
					t.Error(err)
				}
			})
			if err := s.ReleaseEntry(t.Context(), e); !errors.Is(err, idempotency.ErrChanged) {
				t.Errorf("ReleaseEntry: %v, want %v", err, idempotency.ErrChanged)
			}
			if res, err := s.Execute(t.Context(), request("k"), never(t)); err != nil || string(res.Body) != "second" {
				t.Errorf("%+v, %v; want the second answer", res, err)
			}
		})
	}
}

// A release without an answer that the client sends again has released, and
// deletes no record that has been made since.
//
// Covers CON-16.
func TestLostRelease(t *testing.T) {
	t.Parallel()
	for _, r := range routes {
		for fateName, f := range fates {
			t.Run(r.name+fateName, func(t *testing.T) {
				t.Parallel()
				p, client, direct := r.open(t)
				prefix := redisstore.WithPrefix(prefixOf(t))
				s, other := newStore(t, client, prefix), newStore(t, direct, prefix)
				label := prefixOf(t)
				if _, err := s.Execute(t.Context(), request("k"), pay(label, "first")); err != nil {
					t.Fatal(err)
				}
				p.on(script(t, "release"), f, 1)
				switch err := s.Release(t.Context(), request("k").Identity); {
				case r.resends && err != nil:
					t.Errorf("Release: %v", err)
				case !r.resends && !errors.Is(err, idempotency.ErrUnavailable):
					t.Errorf("Release: %v, want unavailable", err)
				}
				want := idempotency.ErrNotFound
				if f == cut && !r.resends {
					want = nil
				}
				if err := s.Release(t.Context(), request("k").Identity); !errors.Is(err, want) {
					t.Errorf("Release again: %v, want %v", err, want)
				}
				if _, err := s.Execute(t.Context(), request("k"), pay(label, "second")); err != nil {
					t.Fatal(err)
				}
				if f == cut || !r.resends {
					return
				}
				p.onThen(script(t, "release"), f, 1, func() {
					if _, err := other.Execute(t.Context(), request("k"), pay(label, "third")); err != nil {
						t.Error(err)
					}
				})
				_ = s.Release(t.Context(), request("k").Identity) // it has released, or says that the record has changed
				if res, err := s.Execute(t.Context(), request("k"), never(t)); err != nil || string(res.Body) != "third" {
					t.Errorf("%+v, %v; want the third answer", res, err)
				}
			})
		}
	}
}

// As long as no completion is answered the outcome is unknown and the claim is
// left alone: a retry is in flight, and then gets the answer if it was stored.
// If it was not, the retry executes when the lease is over.
//
// Covers CRA-09.
func TestUnknownOutcome(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		fate     fate
		replayed bool
	}{{"Stored", loseAnswer, true}, {"NotStored", cut, false}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, client, direct := routes[1].open(t)
			s := newStore(t, client, redisstore.WithFinishTimeout(time.Second), redisstore.WithLease(4*time.Second, time.Minute))
			label := prefixOf(t)
			completion := p.on(script(t, "complete"), c.fate, 1000)
			if _, err := s.Execute(t.Context(), request("k"), pay(label, "first")); !errors.Is(err, idempotency.ErrOutcomeUnknown) {
				t.Fatalf("%v, want outcome unknown", err)
			}
			<-completion.struck
			p.clear()
			if !c.replayed {
				if _, err := s.Execute(t.Context(), request("k"), never(t)); !errors.Is(err, idempotency.ErrInFlight) {
					t.Errorf("retry at once: %v, want in flight", err)
				}
			}
			if res := settled(t, s, request("k"), pay(label, "second")); res.Replayed != c.replayed {
				t.Errorf("retry: %+v", res)
			}
			wantEffects(t, direct, label, 1)
		})
	}
}
