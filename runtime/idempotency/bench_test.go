package idempotency_test

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
)

const payment = `{"to": "bob", "amount": 250, "currency": "EUR", "reference": "invoice 2026-1143", "metadata": {"order": "A-77121", "channel": "web", "customer": "c_9911"}}`

// discard is a ResponseWriter that keeps nothing.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) WriteHeader(int)             {}
func (d discard) Write(p []byte) (int, error) { return len(p), nil }

func visit(w http.ResponseWriter) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(201)
	_, err := io.WriteString(w, payment)
	return err
}

// newRequest returns a request whose body and key can be set again.
func newRequest() *http.Request {
	return &http.Request{
		Method: "POST", URL: &url.URL{Path: "/pay"},
		Header:        http.Header{"Idempotency-Key": {""}, "Content-Type": {"application/json"}, "X-Api-Key": {"alice"}},
		ContentLength: int64(len(payment)),
	}
}

// forgetful is a store that runs work and keeps nothing.
type forgetful struct{}

func (forgetful) Execute(ctx context.Context, _ idempotency.Request, work idempotency.Work[struct{}]) (idempotency.Result, error) {
	response, err := work(ctx, struct{}{})
	return idempotency.Result{Response: response}, err
}

func (forgetful) Transact(ctx context.Context, work idempotency.Work[struct{}]) (idempotency.Response, error) {
	return work(ctx, struct{}{})
}

// BenchmarkOverhead measures what the runtime adds to a request without a
// database: bare reads the body and writes the answer, edge does so through the
// edge without a store, first executes under a fresh key with memstore, replay
// answers what is stored.
func BenchmarkOverhead(b *testing.B) {
	w := discard{http.Header{}}
	body := strings.NewReader(payment)
	b.Run("bare", func(b *testing.B) {
		b.ReportAllocs()
		r := newRequest()
		for range b.N {
			body.Reset(payment)
			r.Body = io.NopCloser(body)
			if _, err := io.ReadAll(r.Body); err != nil {
				b.Fatal(err)
			}
			if err := visit(w); err != nil {
				b.Fatal(err)
			}
		}
	})
	serve := func(b *testing.B, store idempotency.Store[struct{}], key func(i int) string) {
		b.ReportAllocs()
		edge := idempotency.NewEdge(store, func(_ context.Context, h http.Header) (string, error) { return h["X-Api-Key"][0], nil })
		r := newRequest()
		for i := range b.N {
			body.Reset(payment)
			r.Body = io.NopCloser(body)
			r.Header["Idempotency-Key"][0] = key(i)
			edge.ServeHTTP(w, r, &payOperation, func(w http.ResponseWriter, r *http.Request) {
				answer, err := edge.Run(r.Context(), &payOperation, func(context.Context, struct{}, *idempotency.Call) (idempotency.Visit, error) {
					return visit, nil
				})
				if err != nil {
					b.Fatal(err)
				}
				if err := answer.WriteTo(w); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
	b.Run("edge", func(b *testing.B) {
		serve(b, forgetful{}, func(int) string { return "k" })
	})
	b.Run("first", func(b *testing.B) {
		serve(b, memstore.New(), func(i int) string { return strconv.Itoa(1e9 + i) })
	})
	b.Run("replay", func(b *testing.B) {
		serve(b, memstore.New(), func(int) string { return "k" })
	})
}
