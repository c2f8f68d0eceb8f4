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
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

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

// refusals are what a completion may be answered when it is sent again.
func (s server) refusals() map[string]fate {
	all := map[string]fate{"Expired": expire, "Refused": decline}
	if s.transactions {
		all["WriteRefused"] = declineWrite
	}
	return all
}

// A completion without an answer that is refused when it is sent again is settled
// by its token: nobody is told that nothing was kept of what was stored, nor
// that something may have been of what was not.
//
// Covers CRA-04, CRA-09, STO-06.
func TestLostCompletionThenRefused(t *testing.T) {
	t.Parallel()
	for _, s := range servers {
		for name, change := range clients {
			for fateName, f := range map[string]fate{"AnswerLost": loseAnswer, "Cut": cut} {
				for refusalName, refusal := range s.refusals() {
					t.Run(s.name+name+fateName+refusalName, func(t *testing.T) {
						t.Parallel()
						p := newProxy(t, s.url(t))
						store := s.open(t, newClient(p.URL, change))
						label := prefixOf(t)
						var second *rule
						work := s.pay(t, label, "first")
						res, err := store.Execute(t.Context(), request("k"), func(ctx context.Context, tx *dynamostore.Tx) (idempotency.Response, error) {
							p.on(s.operation(), f, 1)
							second = p.on(s.operation(), refusal, 1)
							return work(ctx, tx)
						})
						if n := p.met(second); n != 1 {
							t.Errorf("%d completions were refused, want 1", n)
						}
						if f == loseAnswer {
							if err != nil || res.Replayed || string(res.Body) != "first" {
								t.Errorf("%+v, %v; want the handler's answer", res, err)
							}
						} else if err == nil || errors.Is(err, idempotency.ErrOutcomeUnknown) {
							t.Errorf("%+v, %v; want an error for what was not kept", res, err)
						}
						if res, err := store.Execute(t.Context(), request("k"), s.pay(t, label, "second")); err != nil || res.Replayed != (f == loseAnswer) {
							t.Errorf("retry: %+v, %v", res, err)
						}
						s.wantEffects(t, label, 1)
					})
				}
			}
		}
	}
}

// A completion without an answer that is refused when it is sent again is of
// unknown outcome if nobody can say what is there: since the service does not
// answer that either, or since the record is gone.
//
// Covers CRA-09, EXP-12.
func TestLostCompletionThenUnknown(t *testing.T) {
	t.Parallel()
	for _, s := range servers {
		for fateName, f := range map[string]fate{"AnswerLost": loseAnswer, "Cut": cut} {
			for refusalName, refusal := range s.refusals() {
				for _, vanishes := range []bool{true, false} {
					t.Run(fmt.Sprint(s.name, fateName, refusalName, "/gone=", vanishes), func(t *testing.T) {
						t.Parallel()
						p := newProxy(t, s.url(t))
						prefix := prefixOf(t)
						store := s.open(t, newClient(p.URL), dynamostore.WithPrefix(prefix), dynamostore.WithFinishTimeout(2*time.Second))
						label := prefixOf(t)
						work := s.pay(t, label, "first")
						_, err := store.Execute(t.Context(), request("k"), func(ctx context.Context, tx *dynamostore.Tx) (idempotency.Response, error) {
							if vanishes {
								p.onThen(s.operation(), f, 1, func() { s.remove(t, prefix, "k") })
							} else {
								p.on(s.operation(), f, 1)
								p.on("DeleteItem", cut, 1000)
							}
							p.on(s.operation(), refusal, 1)
							return work(ctx, tx)
						})
						p.clear()
						var refused *dynamostore.RefusedError
						if !errors.Is(err, idempotency.ErrOutcomeUnknown) || errors.Is(err, idempotency.ErrUnavailable) || errors.As(err, &refused) {
							t.Errorf("%v, want outcome unknown", err)
						}
						if errors.Is(err, idempotency.ErrLeaseLost) != vanishes {
							t.Errorf("%v, want a lost lease: %v", err, vanishes)
						}
						s.wantEffects(t, label, map[fate]int{loseAnswer: 1, cut: 0}[f])
					})
				}
			}
		}
	}
}

// A completion whose answer is lost, and whose record is gone when it is sent
// again, has an unknown outcome.
//
// Covers CRA-09, EXP-12.
func TestLostCompletionThenGone(t *testing.T) {
	t.Parallel()
	for _, s := range servers {
		if s.name == service.name {
			continue // recognises the transaction, and answers that it was carried out
		}
		for name, change := range clients {
			for fateName, f := range map[string]fate{"AnswerLost": loseAnswer, "Cut": cut} {
				t.Run(s.name+name+fateName, func(t *testing.T) {
					t.Parallel()
					p := newProxy(t, s.url(t))
					prefix := prefixOf(t)
					store := s.open(t, newClient(p.URL, change), dynamostore.WithPrefix(prefix))
					label := prefixOf(t)
					work := s.pay(t, label, "first")
					_, err := store.Execute(t.Context(), request("k"), func(ctx context.Context, tx *dynamostore.Tx) (idempotency.Response, error) {
						p.onThen(s.operation(), f, 1, func() { s.remove(t, prefix, "k") }) // expired, or released
						return work(ctx, tx)
					})
					if !errors.Is(err, idempotency.ErrOutcomeUnknown) || !errors.Is(err, idempotency.ErrLeaseLost) {
						t.Errorf("%v, want outcome unknown since the record is gone", err)
					}
					s.wantEffects(t, label, map[fate]int{loseAnswer: 1, cut: 0}[f])
				})
			}
		}
	}
}

// A claim that was made, whose answer was lost, and that is refused when the
// client sends it again, is given up: the key is not in flight with nobody at
// work.
//
// Covers CRA-08, STO-06.
func TestLostClaimThenRefused(t *testing.T) {
	t.Parallel()
	for _, s := range servers {
		for refusalName, refusal := range map[string]fate{"Expired": expire, "Conflict": conflict} {
			t.Run(s.name+refusalName, func(t *testing.T) {
				t.Parallel()
				p := newProxy(t, s.url(t))
				store := s.open(t, newClient(p.URL), dynamostore.WithLease(time.Hour, time.Hour))
				label := prefixOf(t)
				p.on("PutItem", loseAnswer, 1)
				p.on("PutItem", refusal, 1)
				if _, err := store.Execute(t.Context(), request("k"), never(t)); !errors.Is(err, idempotency.ErrUnavailable) && !errors.Is(err, idempotency.ErrInFlight) {
					t.Errorf("%v, want unavailable or in flight", err)
				}
				if res := settled(t, store, request("k"), s.pay(t, label, "second")); res.Replayed {
					t.Errorf("retry: %+v", res)
				}
				s.wantEffects(t, label, 1)
			})
		}
	}
}

// A heartbeat without an answer, and the end of a claim without one, change
// nothing for others: the claim holds while work runs, and the key is free when
// work has failed, or after the lease where the client sends nothing again.
//
// Covers CON-10, STO-06.
func TestLostHeartbeatAndEnd(t *testing.T) {
	t.Parallel()
	for _, s := range servers {
		for name, change := range clients {
			for fateName, f := range map[string]fate{"AnswerLost": loseAnswer, "Cut": cut} {
				t.Run(s.name+name+fateName, func(t *testing.T) {
					t.Parallel()
					const lease = 1500 * time.Millisecond
					p := newProxy(t, s.url(t))
					store := s.open(t, newClient(p.URL, change), dynamostore.WithLease(lease, time.Minute), dynamostore.WithClockSkew(0))
					label := prefixOf(t)
					work := s.pay(t, label, "first")
					failure := errors.New("failure")
					beats := p.on("UpdateItem", f, 2)
					end := p.on("DeleteItem", f, 1)
					start := time.Now()
					_, err := store.Execute(t.Context(), request("k"), func(ctx context.Context, tx *dynamostore.Tx) (idempotency.Response, error) {
						eventually(t, "two heartbeats", func() bool { return p.met(beats) == 2 })
						for time.Since(start) < lease*6/5 {
							if _, err := store.Execute(ctx, request("k"), never(t)); !errors.Is(err, idempotency.ErrInFlight) {
								t.Errorf("a duplicate: %v, want in flight", err)
							}
							time.Sleep(lease / 30)
						}
						_, err := work(ctx, tx)
						return idempotency.Response{}, errors.Join(err, ctx.Err(), failure)
					})
					if !errors.Is(err, failure) || errors.Is(err, context.Canceled) {
						t.Errorf("%v, want the handler's failure alone", err)
					}
					if n := p.met(end); n != 1 {
						t.Errorf("%d ends met their fate, want 1", n)
					}
					if res := settled(t, store, request("k"), s.pay(t, label, "second")); res.Replayed {
						t.Errorf("retry: %+v", res)
					}
					s.wantEffects(t, label, 1)
				})
			}
		}
	}
}

// A record that changes just before the deletion of what was listed arrives stays:
// an answer that is released and stored anew, and a claim that is extended.
func TestReleaseEntryOfWhatChanges(t *testing.T) {
	t.Parallel()
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			p := newProxy(t, s.url(t))
			prefix := prefixOf(t)
			opts := []dynamostore.Option{
				dynamostore.WithPrefix(prefix), dynamostore.WithClockSkew(0), dynamostore.WithLease(50*time.Millisecond, 50*time.Millisecond),
			}
			store, client := s.open(t, newClient(p.URL), opts...), newClient(s.url(t))
			other := s.open(t, client, opts...)
			answer := func(body string) {
				if res := settled(t, other, request("answer"), s.pay(t, prefix, body)); res.Replayed {
					t.Errorf("%s: %+v", body, res)
				}
			}
			// The client sends a deletion again that did not arrive.
			release := func(key string, state idempotency.State, change func()) error {
				e := listed(t, store, idempotency.Filter{ID: request(key).ID()})[key]
				if e.State != state {
					t.Errorf("%+v, want %v", e, state)
				}
				p.onThen("DeleteItem", cut, 1, change)
				return store.ReleaseEntry(t.Context(), e)
			}

			answer("first")
			err := release("answer", idempotency.StateAnswer, func() {
				if err := other.Release(t.Context(), request("answer").Identity); err != nil {
					t.Error(err)
				}
				answer("second")
			})
			if !errors.Is(err, idempotency.ErrChanged) {
				t.Errorf("an answer: %v, want %v", err, idempotency.ErrChanged)
			}
			if res, err := store.Execute(t.Context(), request("answer"), never(t)); err != nil || string(res.Body) != "second" {
				t.Errorf("%+v, %v; want the second answer", res, err)
			}

			_, _ = store.Execute(t.Context(), request("claim"), func(ctx context.Context, _ *dynamostore.Tx) (idempotency.Response, error) {
				<-ctx.Done()
				eventually(t, "the end of the lease", func() bool {
					return listed(t, store, idempotency.Filter{ID: request("claim").ID()})["claim"].State == idempotency.StatePassed
				})
				err := release("claim", idempotency.StatePassed, func() {
					_, err := client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
						TableName: aws.String(s.table(t)), Key: item{"id": s.stored(t, prefix, "claim")["id"]},
						UpdateExpression: aws.String("SET lease_until = :until"),
						ExpressionAttributeValues: item{
							":until": &types.AttributeValueMemberN{Value: fmt.Sprint(time.Now().Add(time.Hour).UnixMilli())},
						},
					})
					if err != nil {
						t.Error(err)
					}
				})
				if !errors.Is(err, idempotency.ErrInFlight) {
					t.Errorf("a claim: %v, want %v", err, idempotency.ErrInFlight)
				}
				if s.stored(t, prefix, "claim") == nil {
					t.Error("the claim is gone")
				}
				return created("late"), nil
			})
		})
	}
}

// A release without an answer that the client sends again has released, and
// deletes no record that has been made since.
//
// Covers CON-16.
func TestLostRelease(t *testing.T) {
	t.Parallel()
	for _, s := range servers {
		for fateName, f := range map[string]fate{"AnswerLost": loseAnswer, "Cut": cut} {
			t.Run(s.name+fateName, func(t *testing.T) {
				t.Parallel()
				p := newProxy(t, s.url(t))
				prefix := dynamostore.WithPrefix(prefixOf(t))
				store, other := s.open(t, newClient(p.URL), prefix), s.open(t, newClient(s.url(t)), prefix)
				label := prefixOf(t)
				execute := func(store *dynamostore.Store, name string) {
					if res, err := store.Execute(t.Context(), request("k"), s.pay(t, label, name)); err != nil || res.Replayed {
						t.Errorf("%s: %+v, %v", name, res, err)
					}
				}
				execute(store, "first")
				p.on("DeleteItem", f, 1)
				if err := store.Release(t.Context(), request("k").Identity); err != nil {
					t.Errorf("Release: %v", err)
				}
				if err := store.Release(t.Context(), request("k").Identity); !errors.Is(err, idempotency.ErrNotFound) {
					t.Errorf("Release again: %v", err)
				}
				execute(store, "second")
				if f == cut {
					return
				}
				p.onThen("DeleteItem", f, 1, func() { execute(other, "third") })
				_ = store.Release(t.Context(), request("k").Identity) // it has released, or says that the record has changed
				if res, err := store.Execute(t.Context(), request("k"), never(t)); err != nil || string(res.Body) != "third" {
					t.Errorf("%+v, %v; want the third answer", res, err)
				}
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
		for name, change := range clients {
			for fateName, f := range map[string]fate{"AnswerLost": loseAnswer, "Cut": cut} {
				for refusalName, refusal := range s.refusals() {
					t.Run(s.name+name+fateName+refusalName, func(t *testing.T) {
						t.Parallel()
						p := newProxy(t, s.url(t))
						store := s.open(t, newClient(p.URL, change))
						label := prefixOf(t)
						p.on("TransactWriteItems", f, 1)
						p.on("TransactWriteItems", refusal, 1)
						var refused *dynamostore.RefusedError
						if _, err := store.Transact(t.Context(), s.pay(t, label, "plain")); !errors.Is(err, idempotency.ErrOutcomeUnknown) || errors.As(err, &refused) {
							t.Errorf("%v, want outcome unknown", err)
						}
						s.wantEffects(t, label, map[fate]int{loseAnswer: 1, cut: 0}[f])
					})
				}
			}
		}
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
				store := s.open(t, newClient(p.URL, once), dynamostore.WithFinishTimeout(time.Second),
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

// A service that nobody can connect to any more when work has returned has kept
// nothing, with a key or without one.
func TestGoneBeforeCompletion(t *testing.T) {
	t.Parallel()
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			label := prefixOf(t)
			for name, run := range map[string]func(*dynamostore.Store, idempotency.Work[*dynamostore.Tx]) error{
				"Execute": func(store *dynamostore.Store, work idempotency.Work[*dynamostore.Tx]) error {
					_, err := store.Execute(t.Context(), request("k"), work)
					return err
				},
				"Transact": func(store *dynamostore.Store, work idempotency.Work[*dynamostore.Tx]) error {
					_, err := store.Transact(t.Context(), work)
					return err
				},
			} {
				p := newProxy(t, s.url(t))
				connecting := func(o *dynamodb.Options) {
					o.HTTPClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
				}
				store := s.open(t, newClient(p.URL, once, connecting), dynamostore.WithFinishTimeout(time.Second))
				err := run(store, func(ctx context.Context, tx *dynamostore.Tx) (idempotency.Response, error) {
					p.Close()
					return created("first"), tx.Queue(increment(s.business(t), label))
				})
				if !errors.Is(err, idempotency.ErrUnavailable) {
					t.Errorf("%s: %v, want unavailable", name, err)
				}
			}
			s.wantEffects(t, label, 0)
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
//
// Covers CRA-16.
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
