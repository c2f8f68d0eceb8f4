package dynamostore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemgen/idemgen/runtime/dynamostore"
	"github.com/idemgen/idemgen/runtime/idempotency"
)

// listed collects what the store lists, by key.
func listed(t *testing.T, store *dynamostore.Store, filter idempotency.Filter) map[string]idempotency.Entry {
	t.Helper()
	entries := map[string]idempotency.Entry{}
	for e, err := range store.List(t.Context(), filter) {
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

// Answers and claims of the store are listed with what they are worth, and neither
// those of a store with a longer prefix nor what others have put into the table.
func TestList(t *testing.T) {
	t.Parallel()
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			prefix := prefixOf(t)
			client := newClient(s.url(t))
			store := s.open(t, client, dynamostore.WithPrefix(prefix))
			exact := s.open(t, client, dynamostore.WithPrefix(prefix), dynamostore.WithClockSkew(0), dynamostore.WithLease(50*time.Millisecond, 50*time.Millisecond))
			other := s.open(t, client, dynamostore.WithPrefix(prefix+"x"))
			label := prefixOf(t)
			for _, foreign := range []item{
				{"id": text(prefix + "order-4711")},
				{"id": text(prefix + strings.Repeat("0", 32)), "status": text("paid")},
				{"id": text(prefix + strings.Repeat("1", 32)), "scope": &types.AttributeValueMemberN{Value: "1"}, "token": text("t")},
			} {
				if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(s.table(t)), Item: foreign}); err != nil {
					t.Fatal(err)
				}
			}
			for _, st := range []*dynamostore.Store{store, other} {
				if _, err := st.Execute(t.Context(), request("answer"), s.pay(t, label, "first")); err != nil {
					t.Fatal(err)
				}
			}
			_, err := store.Execute(t.Context(), request("claim"), func(context.Context, *dynamostore.Tx) (idempotency.Response, error) {
				all := listed(t, store, idempotency.Filter{})
				a, c := all["answer"], all["claim"]
				if len(all) != 2 || a.Identity != request("answer").Identity || a.State != idempotency.StateAnswer || a.Status != 201 ||
					a.Bytes != int64(len("Content-Type: text/plain\r\n"+"first")) || !a.LeaseUntil.IsZero() {
					t.Errorf("%+v; the answer's entry is %+v", all, a)
				}
				if left := time.Until(c.LeaseUntil); c.Identity != request("claim").Identity || c.State != idempotency.StateClaim || c.Status != 0 || c.Bytes != 0 ||
					left < 10*time.Second || left > 50*time.Second {
					t.Errorf("the claim's entry is %+v", c)
				}
				return created("second"), nil
			})
			if err != nil {
				t.Error(err)
			}
			_, err = exact.Execute(t.Context(), request("stalled"), func(ctx context.Context, _ *dynamostore.Tx) (idempotency.Response, error) {
				<-ctx.Done()
				time.Sleep(50 * time.Millisecond) // past the last heartbeat's lease
				if c := listed(t, exact, idempotency.Filter{ID: request("stalled").ID()})["stalled"]; c.State != idempotency.StatePassed {
					t.Errorf("without a margin: %+v, want a lease that has passed", c)
				}
				if c := listed(t, store, idempotency.Filter{ID: request("stalled").ID()})["stalled"]; c.State != idempotency.StateClaim {
					t.Errorf("with a margin: %+v, want a claim", c)
				}
				return created("third"), nil
			})
			if err != nil && !errors.Is(err, idempotency.ErrLeaseLost) { // nobody has taken over
				t.Errorf("%v, want a lost lease or none", err)
			}

			id := request("answer").ID()
			key := s.stored(t, prefix, "answer")["id"]
			if _, err := client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
				TableName: aws.String(s.table(t)), Key: item{"id": key},
				UpdateExpression: aws.String("REMOVE created_at"),
			}); err != nil {
				t.Fatal(err)
			}
			for _, filter := range []idempotency.Filter{{}, {ID: id}} {
				var failed error
				for _, err := range store.List(t.Context(), filter) {
					failed = err
				}
				if failed == nil || !strings.Contains(failed.Error(), "damaged") || !strings.Contains(failed.Error(), prefix) {
					t.Errorf("a damaged item: %v", failed)
				}
			}
			if _, err := store.Stats(t.Context()); err == nil {
				t.Error("Stats of a damaged item: no error")
			}
		})
	}
}

// A list reads one page after another, and ends with an error where the service
// does not answer.
func TestListPages(t *testing.T) {
	t.Parallel()
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			p := newProxy(t, s.url(t))
			store := s.open(t, newClient(p.URL, once), dynamostore.WithPrefix(prefixOf(t)))
			const records = 12
			for i := range records {
				_, err := store.Execute(t.Context(), request(string(rune('a'+i))), func(context.Context, *dynamostore.Tx) (idempotency.Response, error) {
					return created(strings.Repeat("x", 300<<10)), nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			before := p.trips.Load()
			if all := listed(t, store, idempotency.Filter{}); len(all) != records || all["a"].Bytes < 300<<10 {
				t.Errorf("%d entries, want %d: %+v", len(all), records, all["a"])
			}
			if pages := p.trips.Load() - before; s.pages && pages < 3 {
				t.Errorf("%d pages for %d answers of 300 KB, want several", pages, records)
			}
			p.on("Scan", cut, 1)
			for e, err := range store.List(t.Context(), idempotency.Filter{}) {
				if !errors.Is(err, idempotency.ErrUnavailable) {
					t.Errorf("%+v, %v; want unavailable", e, err)
				}
			}
		})
	}
}
