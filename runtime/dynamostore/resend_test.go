package dynamostore_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/idemgen/idemgen/runtime/dynamostore"
	"github.com/idemgen/idemgen/runtime/idempotency"
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

// pay makes one effect where the server has transactions, and answers with the
// body.
func (s server) pay(t testing.TB, label, body string) idempotency.Work[*dynamostore.Tx] {
	business := s.business(t)
	return func(_ context.Context, tx *dynamostore.Tx) (idempotency.Response, error) {
		if !s.transactions {
			return created(body), nil
		}
		return created(body), tx.Queue(increment(business, label))
	}
}

func never(t *testing.T) idempotency.Work[*dynamostore.Tx] {
	return func(context.Context, *dynamostore.Tx) (idempotency.Response, error) {
		t.Error("work ran; it must not")
		return idempotency.Response{}, errors.New("work ran")
	}
}

// wantEffects counts effects where the server has transactions.
func (s server) wantEffects(t *testing.T, label string, want int) {
	t.Helper()
	if !s.transactions {
		return
	}
	if n, err := effects(t.Context(), newClient(s.url(t)), s.business(t), label); n != want || err != nil {
		t.Errorf("%d effects %q, error %v; want %d", n, label, err, want)
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
func settled(t *testing.T, s *dynamostore.Store, req idempotency.Request, work idempotency.Work[*dynamostore.Tx]) (res idempotency.Result) {
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

// once keeps a client from sending a request again.
func once(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} }

// clients are those that send a request again when its answer is lost, as they
// do by default, and that do not.
var clients = map[string]func(*dynamodb.Options){
	"Resending": func(*dynamodb.Options) {},
	"Once":      once,
}

// operation is that of a completion.
func (s server) operation() string {
	if s.transactions {
		return "TransactWriteItems"
	}
	return "PutItem"
}

// A claim whose answer is lost is recognised when the client sends it again. If
// the client does not, the request is unavailable and the key free: nobody
// takes the claim for a rival's.
//
// Covers CRA-08, STO-06.
func TestLostClaim(t *testing.T) {
	t.Parallel()
	for _, s := range servers {
		for name, change := range clients {
			for fateName, f := range map[string]fate{"AnswerLost": loseAnswer, "Cut": cut} {
				t.Run(s.name+name+fateName, func(t *testing.T) {
					t.Parallel()
					p := newProxy(t, s.url(t))
					store := s.open(t, newClient(p.URL, change), dynamostore.WithLease(time.Hour, time.Hour))
					label := prefixOf(t)
					claim := p.on("PutItem", f, 1)
					res, err := store.Execute(t.Context(), request("k"), s.pay(t, label, "first"))
					if n := p.met(claim); n != 1 {
						t.Errorf("%d claims met their fate, want 1", n)
					}
					switch {
					case name == "Resending" && (err != nil || res.Replayed):
						t.Errorf("%+v, %v; want the handler's answer", res, err)
					case name == "Once" && !errors.Is(err, idempotency.ErrUnavailable):
						t.Errorf("%+v, %v; want unavailable", res, err)
					}
					res = settled(t, store, request("k"), s.pay(t, label, "second"))
					if res.Replayed != (name == "Resending") {
						t.Errorf("retry: %+v", res)
					}
					s.wantEffects(t, label, 1)
				})
			}
		}
	}
}

// A completion whose answer is lost is sent again, by the client or the store,
// and is carried out once, whether the server recognises transactions or not.
//
// Covers CRA-04, CRA-08, CRA-09, STO-06.
func TestLostCompletion(t *testing.T) {
	t.Parallel()
	for _, s := range servers {
		for name, change := range clients {
			for fateName, f := range map[string]fate{
				"AnswerLost": loseAnswer, "Cut": cut, "Throttled": throttle, "Conflict": conflict, "InProgress": progress,
			} {
				for _, times := range []int{1, 4} {
					t.Run(fmt.Sprint(s.name, name, fateName, times), func(t *testing.T) {
						t.Parallel()
						p := newProxy(t, s.url(t))
						store := s.open(t, newClient(p.URL, change), dynamostore.WithFinishTimeout(time.Minute))
						label := prefixOf(t)
						var completion *rule
						work := s.pay(t, label, "first")
						res, err := store.Execute(t.Context(), request("k"), func(ctx context.Context, tx *dynamostore.Tx) (idempotency.Response, error) {
							completion = p.on(s.operation(), f, times)
							return work(ctx, tx)
						})
						if err != nil || res.Replayed || string(res.Body) != "first" {
							t.Errorf("%+v, %v; want the handler's answer", res, err)
						}
						// The record of an answer that was stored and lost settles it.
						if n := p.met(completion); f != loseAnswer && n != times || n == 0 {
							t.Errorf("%d completions met their fate, want %d", n, times)
						}
						p.clear()
						if n := p.transactions(); s.transactions && n != 1 {
							t.Errorf("%d transactions for DynamoDB, want one, sent again", n)
						}
						s.wantEffects(t, label, 1)
						if res, err := store.Execute(t.Context(), request("k"), never(t)); err != nil || !res.Replayed {
							t.Errorf("retry: %+v, %v", res, err)
						}
					})
				}
			}
		}
	}
}

// A completion that was carried out, whose answer was lost, and that is refused
// when it is sent again, is found in the record: nobody is told that nothing was
// kept.
//
// Covers CRA-09.
func TestLostCompletionThenRefused(t *testing.T) {
	t.Parallel()
	for _, s := range servers {
		for name, change := range clients {
			t.Run(s.name+name, func(t *testing.T) {
				t.Parallel()
				p := newProxy(t, s.url(t))
				store := s.open(t, newClient(p.URL, change))
				label := prefixOf(t)
				var refusal *rule
				work := s.pay(t, label, "first")
				res, err := store.Execute(t.Context(), request("k"), func(ctx context.Context, tx *dynamostore.Tx) (idempotency.Response, error) {
					p.on(s.operation(), loseAnswer, 1)
					refusal = p.on(s.operation(), expire, 1)
					return work(ctx, tx)
				})
				if err != nil || res.Replayed || string(res.Body) != "first" {
					t.Errorf("%+v, %v; want the handler's answer", res, err)
				}
				if n := p.met(refusal); n != 1 {
					t.Errorf("%d completions were refused, want 1", n)
				}
				s.wantEffects(t, label, 1)
			})
		}
	}
}

// Without a key there is no record that tells: a transaction that is refused
// after an answer was lost has an unknown outcome.
//
// Covers CRA-09.
func TestLostTransactThenRefused(t *testing.T) {
	t.Parallel()
	for _, s := range transactional {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			p := newProxy(t, s.url(t))
			store := s.open(t, newClient(p.URL, once))
			label := prefixOf(t)
			p.on("TransactWriteItems", loseAnswer, 1)
			p.on("TransactWriteItems", expire, 1)
			if _, err := store.Transact(t.Context(), s.pay(t, label, "plain")); !errors.Is(err, idempotency.ErrOutcomeUnknown) {
				t.Errorf("%v, want outcome unknown", err)
			}
			s.wantEffects(t, label, 1)
		})
	}
}

// As long as no completion is answered the outcome is unknown and the claim is
// left alone: a retry is in flight, and then gets the answer if it was stored.
// If it was not, the retry executes when the lease is over.
//
// Covers CRA-01, CRA-09.
func TestUnknownOutcome(t *testing.T) {
	t.Parallel()
	for _, s := range servers {
		for _, c := range []struct {
			name     string
			fate     fate
			replayed bool
		}{{"Stored", loseAnswer, true}, {"NotStored", cut, false}} {
			t.Run(s.name+c.name, func(t *testing.T) {
				t.Parallel()
				p := newProxy(t, s.url(t))
				store := s.open(t, newClient(p.URL, once), dynamostore.WithFinishTimeout(200*time.Millisecond),
					dynamostore.WithLease(3*time.Second, time.Minute), dynamostore.WithClockSkew(0))
				label := prefixOf(t)
				work := s.pay(t, label, "first")
				_, err := store.Execute(t.Context(), request("k"), func(ctx context.Context, tx *dynamostore.Tx) (idempotency.Response, error) {
					p.on(s.operation(), c.fate, 1000)
					p.on("GetItem", cut, 1000)
					return work(ctx, tx)
				})
				if !errors.Is(err, idempotency.ErrOutcomeUnknown) {
					t.Fatalf("%v, want outcome unknown", err)
				}
				p.clear()
				if !c.replayed {
					if _, err := store.Execute(t.Context(), request("k"), never(t)); !errors.Is(err, idempotency.ErrInFlight) {
						t.Errorf("retry at once: %v, want in flight", err)
					}
				}
				if res := settled(t, store, request("k"), s.pay(t, label, "second")); res.Replayed != c.replayed {
					t.Errorf("retry: %+v", res)
				}
				s.wantEffects(t, label, 1)
			})
		}
	}
}

// A completion that meets nothing but a lack of capacity is unavailable, keeps
// nothing, and frees the key.
func TestThrottledForTooLong(t *testing.T) {
	t.Parallel()
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			p := newProxy(t, s.url(t))
			store := s.open(t, newClient(p.URL, once), dynamostore.WithFinishTimeout(4*time.Second))
			label := prefixOf(t)
			work := s.pay(t, label, "first")
			_, err := store.Execute(t.Context(), request("k"), func(ctx context.Context, tx *dynamostore.Tx) (idempotency.Response, error) {
				p.on(s.operation(), throttle, 1000)
				return work(ctx, tx)
			})
			if !errors.Is(err, idempotency.ErrUnavailable) {
				t.Fatalf("%v, want unavailable", err)
			}
			p.clear()
			s.wantEffects(t, label, 0)
			if res, err := store.Execute(t.Context(), request("k"), s.pay(t, label, "second")); err != nil || res.Replayed {
				t.Errorf("retry: %+v, %v", res, err)
			}
			s.wantEffects(t, label, 1)
		})
	}
}

// A claim that meets the holder's transaction is in flight.
func TestClaimMeetsCompletion(t *testing.T) {
	t.Parallel()
	p := newProxy(t, dynalite.url(t))
	store := dynalite.open(t, newClient(p.URL))
	p.on("PutItem", conflict, 1)
	if _, err := store.Execute(t.Context(), request("k"), never(t)); !errors.Is(err, idempotency.ErrInFlight) {
		t.Errorf("%v, want in flight", err)
	}
}

// A server that cannot be reached is unavailable, and no handler runs.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	p := newProxy(t, dynalite.url(t))
	store := dynalite.open(t, newClient(p.URL, once), dynamostore.WithClaimTimeout(time.Second))
	p.dark.Store(true)
	if _, err := store.Execute(t.Context(), request("k"), never(t)); !errors.Is(err, idempotency.ErrUnavailable) {
		t.Errorf("Execute: %v, want unavailable", err)
	}
	if _, err := store.Lookup(t.Context(), request("k").Identity); !errors.Is(err, idempotency.ErrUnavailable) {
		t.Errorf("Lookup: %v, want unavailable", err)
	}
	if err := store.Release(t.Context(), request("k").Identity); !errors.Is(err, idempotency.ErrUnavailable) {
		t.Errorf("Release: %v, want unavailable", err)
	}
}
