package dynamostore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemgen/idemgen/runtime/dynamostore"
	"github.com/idemgen/idemgen/runtime/idempotency"
)

// transactional are the servers that have transactions.
var transactional = []server{kumo, service}

func put(table, label string, more ...string) types.TransactWriteItem {
	i := item{"label": text(label)}
	for n, v := range more {
		i[fmt.Sprint("more", n)] = text(v)
	}
	return types.TransactWriteItem{Put: &types.Put{TableName: aws.String(table), Item: i}}
}

// An emulator without transactions is named as the reason why nothing is kept.
func TestNoTransactions(t *testing.T) {
	t.Parallel()
	store := dynalite.open(t, newClient(dynalite.url(t)))
	business := dynalite.business(t)
	work := func(_ context.Context, tx *dynamostore.Tx) (idempotency.Response, error) {
		return created("paid"), tx.Queue(increment(business, "label"))
	}
	_, err := store.Execute(t.Context(), request("k"), work)
	_, errWithout := store.Transact(t.Context(), work)
	for _, err := range []error{err, errWithout} {
		if err == nil || !strings.Contains(err.Error(), "has no TransactWriteItems") {
			t.Errorf("%v, want it to name TransactWriteItems", err)
		}
	}
	if res, err := store.Execute(t.Context(), request("k"), func(context.Context, *dynamostore.Tx) (idempotency.Response, error) {
		return created("nothing queued"), nil
	}); err != nil || res.Replayed {
		t.Errorf("the key is not free: %+v, %v", res, err)
	}
}

// What no transaction takes is refused when it is queued, and nothing of the run
// is kept, even if work goes on.
func TestQueueRefuses(t *testing.T) {
	t.Parallel()
	s := dynalite
	store := s.open(t, newClient(s.url(t)))
	own := s.table(t)
	big := strings.Repeat("x", 300<<10)
	for _, c := range []struct {
		name, want string
		writes     []types.TransactWriteItem
	}{
		{"empty", "one of Put, Update, Delete and ConditionCheck", []types.TransactWriteItem{{}}},
		{"several", "one of Put, Update, Delete and ConditionCheck", []types.TransactWriteItem{{Put: put("t", "a").Put, Update: increment("t", "b").Update}}},
		{"no table", "names no table", []types.TransactWriteItem{put("", "a")}},
		{"no key", "has no key", []types.TransactWriteItem{{Delete: &types.Delete{TableName: aws.String("t")}}}},
		{"own table", "is the store's", []types.TransactWriteItem{put(own, "a")}},
		{"own table's ARN", "is the store's", []types.TransactWriteItem{put("arn:aws:dynamodb:eu-central-1:1:table/"+own, "a")}},
		{"item", "at most 409600", []types.TransactWriteItem{put("t", "a", big, big)}},
		{"100", "at most 100 items", many("t", 100)},
		{"twice", "writes 0 and 2", []types.TransactWriteItem{put("t", "a"), put("t", "b"), increment("t", "a")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := store.Execute(t.Context(), request(c.name), func(_ context.Context, tx *dynamostore.Tx) (idempotency.Response, error) {
				if err := tx.Queue(c.writes...); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v, want %q", err, c.want)
				}
				return created("nonetheless"), nil
			})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Execute: %v, want %q", err, c.want)
			}
			if _, err := store.Lookup(t.Context(), request(c.name).Identity); !errors.Is(err, idempotency.ErrNotFound) {
				t.Errorf("Lookup: %v", err)
			}
		})
	}
	t.Run("4 MB", func(t *testing.T) {
		t.Parallel()
		work := func(_ context.Context, tx *dynamostore.Tx) (idempotency.Response, error) {
			for i := range 14 {
				if err := tx.Queue(put("t", fmt.Sprint(i), big)); err != nil {
					return idempotency.Response{}, err
				}
			}
			return created("large"), nil
		}
		if _, err := store.Execute(t.Context(), request("4MB"), work); err == nil || !strings.Contains(err.Error(), "at most 4194304") {
			t.Errorf("Execute: %v", err)
		}
		if _, err := store.Transact(t.Context(), work); err == nil || !strings.Contains(err.Error(), "at most 4194304") {
			t.Errorf("Transact: %v", err)
		}
	})
}

// 99 writes are written with the answer.
func TestMostWrites(t *testing.T) {
	t.Parallel()
	for _, s := range transactional {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			store, business, label := s.open(t, newClient(s.url(t))), s.business(t), prefixOf(t)
			if _, err := store.Execute(t.Context(), request("k"), func(_ context.Context, tx *dynamostore.Tx) (idempotency.Response, error) {
				for i := range 99 {
					if err := tx.Queue(increment(business, fmt.Sprint(label, i))); err != nil {
						return idempotency.Response{}, err
					}
				}
				return created("99"), nil
			}); err != nil {
				t.Fatal(err)
			}
			for i := range 99 {
				s.wantEffects(t, fmt.Sprint(label, i), 1)
			}
		})
	}
}

// A condition of work that does not hold comes back as a typed error, whether
// the client has asked before or not. Nothing is kept and the key is free.
//
// Covers CRA-07.
func TestConditionOfWork(t *testing.T) {
	t.Parallel()
	for _, s := range transactional {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			store, business, label := s.open(t, newClient(s.url(t))), s.business(t), prefixOf(t)
			work := func(_ context.Context, tx *dynamostore.Tx) (idempotency.Response, error) {
				return created("paid"), tx.Queue(increment(business, label), absent(business, label+"balance"))
			}
			run := map[string]func() error{
				"Execute":  func() error { _, err := store.Execute(t.Context(), request("k"), work); return err },
				"Transact": func() error { _, err := store.Transact(t.Context(), work); return err },
			}
			for name, f := range run {
				var refused *dynamostore.RefusedError
				err := f()
				if !errors.As(err, &refused) || refused.Index != 1 || refused.Code != "ConditionalCheckFailed" {
					t.Errorf("%s: %v, want the refusal of write 1", name, err)
				}
				if commit := new(idempotency.CommitError); !errors.As(err, &commit) {
					t.Errorf("%s: %T, want it to be handed to the server's error handler", name, err)
				}
				if cancelled := new(types.TransactionCanceledException); !errors.As(err, &cancelled) {
					t.Errorf("%s: %v does not wrap the client's error", name, err)
				}
			}
			s.wantEffects(t, label, 0)
			if _, err := newClient(s.url(t)).PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(business), Item: item{"label": text(label + "balance")}}); err != nil {
				t.Fatal(err)
			}
			for name, f := range run {
				if err := f(); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			s.wantEffects(t, label, 2)
		})
	}
}

// A completion that creates what must not exist is not refused by itself when
// the client sends it again.
//
// Covers CRA-08, STO-06.
func TestLostCompletionWithCondition(t *testing.T) {
	t.Parallel()
	for _, s := range transactional {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			p := newProxy(t, s.url(t))
			store, business, label := s.open(t, newClient(p.URL)), s.business(t), prefixOf(t)
			lost := p.on("TransactWriteItems", loseAnswer, 1)
			res, err := store.Execute(t.Context(), request("k"), func(_ context.Context, tx *dynamostore.Tx) (idempotency.Response, error) {
				w := put(business, label)
				w.Put.ConditionExpression = aws.String("attribute_not_exists(label)")
				return created("paid"), tx.Queue(w)
			})
			if err != nil || res.Replayed || p.met(lost) != 1 {
				t.Errorf("%+v, %v after %d lost answers", res, err, p.met(lost))
			}
			if res, err := store.Execute(t.Context(), request("k"), never(t)); err != nil || !res.Replayed {
				t.Errorf("retry: %+v, %v", res, err)
			}
		})
	}
}
