package dynamostore_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemgen/idemgen/runtime/dynamostore"
	"github.com/idemgen/idemgen/runtime/idempotency"
)

// The benchmarks compare two sides in one run, in slices that take turns, and
// report the median of the slices' ratios: absolute numbers of an emulator say
// nothing about DynamoDB, and ratios say how much work the store adds. An
// iteration is one slice of each side.
//
//	go test -run '^$' -bench . -benchtime 20x ./dynamostore

// slice is how long one side runs before it is the other's turn.
const slice = 150 * time.Millisecond

// compare runs base and other in turns and reports rate(other)/rate(base).
func compare(b *testing.B, clients int, metric string, base, other func(context.Context) error) {
	rate(b, clients, base)
	rate(b, clients, other)
	var ratios []float64
	for b.Loop() {
		r := rate(b, clients, base)
		ratios = append(ratios, rate(b, clients, other)/r)
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], metric)
}

// rate returns how often clients call f in a second.
func rate(b *testing.B, clients int, f func(context.Context) error) float64 {
	var calls atomic.Int64
	start := time.Now()
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for time.Since(start) < slice {
				if err := f(b.Context()); err != nil {
					b.Error(err)
					return
				}
				calls.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(calls.Load()) / time.Since(start).Seconds()
}

// BenchmarkStore compares a first request with a bare PutItem of its answer (one
// round trip, where a first request needs two), one that queues two writes with
// these two in a bare TransactWriteItems, and a replay with a GetItem.
func BenchmarkStore(b *testing.B) {
	answer := idempotency.Response{
		Status: 201,
		Header: http.Header{"Content-Type": {"application/json"}, "Location": {"/payments/0190f2b5-7b1e-7c3a-8f00"}},
		Body:   []byte(`{"id":"0190f2b5","note":"` + strings.Repeat("abcdefghijklmnop", 30) + `____"}`),
	}
	for _, s := range servers {
		b.Run(s.name, func(b *testing.B) {
			client := newClient(s.url(b))
			store, business, prefix := s.open(b, client), s.business(b), prefixOf(b)
			if _, err := client.PutItem(b.Context(), &dynamodb.PutItemInput{
				TableName: aws.String(business),
				Item:      item{"label": text(prefix), "body": &types.AttributeValueMemberB{Value: answer.Body}},
			}); err != nil {
				b.Fatal(err)
			}
			var keys atomic.Int64
			key := func() string { return fmt.Sprint(prefix, keys.Add(1)) }
			execute := func(ctx context.Context, key string, writes ...types.TransactWriteItem) error {
				_, err := store.Execute(ctx, request(key), func(_ context.Context, tx *dynamostore.Tx) (idempotency.Response, error) {
					return answer, tx.Queue(writes...)
				})
				return err
			}
			put := func(ctx context.Context) error {
				_, err := client.PutItem(ctx, &dynamodb.PutItemInput{
					TableName: aws.String(business),
					Item:      item{"label": text(key()), "body": &types.AttributeValueMemberB{Value: answer.Body}},
				})
				return err
			}
			first := func(ctx context.Context) error { return execute(ctx, key()) }
			get := func(ctx context.Context) error {
				_, err := client.GetItem(ctx, &dynamodb.GetItemInput{
					TableName: aws.String(business), Key: item{"label": text(prefix)}, ConsistentRead: aws.Bool(true),
				})
				return err
			}
			replay := func(ctx context.Context) error { return execute(ctx, "replayed") }
			writes := func() []types.TransactWriteItem {
				return []types.TransactWriteItem{increment(business, key()), increment(business, key())}
			}
			transaction := func(ctx context.Context) error {
				_, err := client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: writes()})
				return err
			}
			firstWithWrites := func(ctx context.Context) error { return execute(ctx, key(), writes()...) }
			for _, clients := range []int{1, 8} {
				for _, c := range []struct {
					name, metric string
					base, other  func(context.Context) error
					transaction  bool
				}{
					{"FirstAgainstPut", "x-PutItem", put, first, false},
					{"FirstAgainstTransaction", "x-TransactWriteItems", transaction, firstWithWrites, true},
					{"ReplayAgainstGet", "x-GetItem", get, replay, false},
				} {
					if c.transaction && !s.transactions {
						continue
					}
					b.Run(fmt.Sprintf("%s/clients=%d", c.name, clients), func(b *testing.B) {
						compare(b, clients, c.metric, c.base, c.other)
					})
				}
			}
		})
	}
}
