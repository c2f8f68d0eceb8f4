package dynamostore_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemgen/idemgen/runtime/dynamostore"
	"github.com/idemgen/idemgen/runtime/idempotency"
)

// reads notes the reads that a client sends.
type reads struct {
	http.RoundTripper

	mu       sync.Mutex
	all      int
	lenient  []string // those that may see an older state
	withItem int      // writes whose refusal brings the item
}

func (r *reads) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	_, operation, _ := strings.Cut(req.Header.Get("X-Amz-Target"), ".")
	var sent struct {
		ConsistentRead                      bool
		ReturnValuesOnConditionCheckFailure string
	}
	if err := json.Unmarshal(body, &sent); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch operation {
	case "GetItem", "BatchGetItem", "Query", "Scan":
		r.all++
		if !sent.ConsistentRead {
			r.lenient = append(r.lenient, operation)
		}
	case "PutItem":
		if sent.ReturnValuesOnConditionCheckFailure == "ALL_OLD" {
			r.withItem++
		}
	}
	return r.RoundTripper.RoundTrip(req)
}

// What a request is answered rests on strongly consistent reads, or on the item
// that a refused write brings: never on a copy that lags behind.
//
// Covers STO-07, STO-17.
func TestReadsAreConsistent(t *testing.T) {
	t.Parallel()
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			p := newProxy(t, s.url(t)) // refusals come without the item, so that it has to be read
			noted := &reads{RoundTripper: http.DefaultTransport}
			store := s.open(t, newClient(p.URL, func(o *dynamodb.Options) { o.HTTPClient = &http.Client{Transport: noted} }))
			noted.mu.Lock()
			noted.all, noted.lenient = 0, nil // what New has asked is no request
			noted.mu.Unlock()

			work := s.pay(t, prefixOf(t), "first")
			_, err := store.Execute(t.Context(), request("k"), func(ctx context.Context, tx *dynamostore.Tx) (idempotency.Response, error) {
				if _, err := store.Execute(ctx, request("k"), never(t)); !errors.Is(err, idempotency.ErrInFlight) {
					t.Errorf("duplicate: %v", err)
				}
				return work(ctx, tx)
			})
			if err != nil {
				t.Fatal(err)
			}
			if res, err := store.Execute(t.Context(), request("k"), never(t)); err != nil || !res.Replayed {
				t.Errorf("retry: %+v, %v", res, err)
			}
			other := request("k")
			other.Fingerprint = idempotency.FingerprintOf([]byte("other"))
			if _, err := store.Execute(t.Context(), other, never(t)); !errors.Is(err, idempotency.ErrMismatch) {
				t.Errorf("other content: %v", err)
			}
			if _, err := store.Lookup(t.Context(), request("k").Identity); err != nil {
				t.Error(err)
			}
			if err := store.Release(t.Context(), request("k").Identity); err != nil {
				t.Error(err)
			}

			noted.mu.Lock()
			defer noted.mu.Unlock()
			if len(noted.lenient) > 0 {
				t.Errorf("%v may see an older state", noted.lenient)
			}
			if wantReads := map[bool]int{true: 1, false: 4}[s.name == service.name]; noted.all < wantReads || noted.withItem < 4 {
				t.Errorf("%d reads and %d writes that bring the item, want at least %d and 4", noted.all, noted.withItem, wantReads)
			}
		})
	}
}

// A record that somebody has damaged has an unknown outcome, and is never
// executed again: a claim whose lease is missing may have been an answer.
func TestDamagedRecord(t *testing.T) {
	t.Parallel()
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			for what, damage := range map[string]func(item){
				"no status":         func(i item) { delete(i, "status") },
				"a text for status": func(i item) { i["status"] = text("201") },
				"another status":    func(i item) { i["status"] = number(99) },
				"a text for body":   func(i item) { i["body"] = text("first") },
				"no end":            func(i item) { delete(i, "expires_at") },
				"unknown format":    func(i item) { i["header"] = &types.AttributeValueMemberB{Value: []byte{7}} },
			} {
				prefix := prefixOf(t)
				client := newClient(s.url(t))
				store := s.open(t, client, dynamostore.WithPrefix(prefix))
				if _, err := store.Execute(t.Context(), request("k"), s.pay(t, prefix, "first")); err != nil {
					t.Fatal(err)
				}
				i := s.stored(t, prefix, "k")
				damage(i)
				if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(s.table(t)), Item: i}); err != nil {
					t.Fatal(err)
				}
				if res, err := store.Execute(t.Context(), request("k"), never(t)); !errors.Is(err, idempotency.ErrOutcomeUnknown) {
					t.Errorf("%s: %+v, %v; want outcome unknown", what, res, err)
				}
				if _, err := store.Lookup(t.Context(), request("k").Identity); !errors.Is(err, idempotency.ErrOutcomeUnknown) {
					t.Errorf("%s: Lookup: %v; want outcome unknown", what, err)
				}
			}
		})
	}
}

// The largest answer fits beside the longest scope, operation and key that are
// taken.
//
// Covers RSP-08.
func TestLargestItem(t *testing.T) {
	t.Parallel()
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			store := s.open(t, newClient(s.url(t)), dynamostore.WithPrefix(strings.Repeat("x", 64)))
			req := request(strings.Repeat("k", 255))
			req.Operation = strings.Repeat("o", 255)
			req.Scope = strings.Repeat("s", dynamostore.MaxIdentity-2*255)
			large := idempotency.Response{Status: http.StatusOK, Body: make([]byte, dynamostore.MaxAnswer)}
			for _, replayed := range []bool{false, true} {
				res, err := store.Execute(t.Context(), req, func(context.Context, *dynamostore.Tx) (idempotency.Response, error) { return large, nil })
				if err != nil || res.Replayed != replayed || !bytes.Equal(res.Body, large.Body) {
					t.Fatalf("Replayed %v, %d bytes, %v", res.Replayed, len(res.Body), err)
				}
			}
			req.Scope += "s"
			if _, err := store.Execute(t.Context(), req, never(t)); err == nil || !strings.Contains(err.Error(), "can be stored") {
				t.Errorf("one byte more: %v, want it refused", err)
			}
		})
	}
}
