package redisstore_test

import (
	"context"
	"errors"
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

// clients are those that send a command again when its answer is
// lost, as they do by default, and that do not.
var clients = map[string]func(*redis.Options){
	"Resending": func(*redis.Options) {},
	"Once":      func(o *redis.Options) { o.MaxRetries = -1 },
}

// A claim whose answer is lost is recognised when the client sends it again. If
// the client does not, the request is unavailable and the key free: nobody
// takes the claim for a rival's.
//
// Covers CRA-08, STO-05.
func TestLostClaim(t *testing.T) {
	t.Parallel()
	for name, change := range clients {
		for fateName, f := range map[string]fate{"AnswerLost": loseAnswer, "Cut": cut} {
			t.Run(name+fateName, func(t *testing.T) {
				t.Parallel()
				direct := newSingle(t)
				p := newProxy(t, testenv.Redis(t))
				s := newStore(t, newClient(t, p.addr, change), redisstore.WithLease(time.Hour, time.Hour))
				label := prefixOf(t)
				claim := p.on(script(t, "claim"), f, 1)
				res, err := s.Execute(t.Context(), request("k"), pay(label, "first"))
				<-claim.struck
				switch {
				case name == "Resending" && (err != nil || res.Replayed):
					t.Errorf("%+v, %v; want the handler's answer", res, err)
				case name == "Once" && !errors.Is(err, idempotency.ErrUnavailable):
					t.Errorf("%+v, %v; want unavailable", res, err)
				}
				res = settled(t, s, request("k"), pay(label, "second"))
				if res.Replayed != (name == "Resending") {
					t.Errorf("retry: %+v", res)
				}
				wantEffects(t, direct, label, 1)
			})
		}
	}
}

// A completion whose answer is lost is sent again, by the client or the store,
// and is carried out once.
//
// Covers CRA-04, CRA-08, CRA-09, STO-05.
func TestLostCompletion(t *testing.T) {
	t.Parallel()
	for name, change := range clients {
		for fateName, f := range map[string]fate{"AnswerLost": loseAnswer, "Cut": cut} {
			for _, times := range []int{1, 3} {
				t.Run(name+fateName+string(rune('0'+times)), func(t *testing.T) {
					t.Parallel()
					direct := newSingle(t)
					p := newProxy(t, testenv.Redis(t))
					s := newStore(t, newClient(t, p.addr, change))
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
			direct := newSingle(t)
			p := newProxy(t, testenv.Redis(t))
			s := newStore(t, newClient(t, p.addr, clients["Once"]), redisstore.WithFinishTimeout(200*time.Millisecond), redisstore.WithLease(3*time.Second, time.Minute))
			label := prefixOf(t)
			p.on(script(t, "complete"), c.fate, 1000)
			if _, err := s.Execute(t.Context(), request("k"), pay(label, "first")); !errors.Is(err, idempotency.ErrOutcomeUnknown) {
				t.Fatalf("%v, want outcome unknown", err)
			}
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
