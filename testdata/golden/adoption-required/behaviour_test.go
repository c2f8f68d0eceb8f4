package api_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
	optional "github.com/idemgen/idemgen/testdata/golden/adoption-optional"
	required "github.com/idemgen/idemgen/testdata/golden/adoption-required"

	"github.com/idemgen/idemgen/testdata/drive"
)

// ledger counts payments through all stages.
type ledger struct {
	mu       sync.Mutex
	payments int64
}

func (l *ledger) pay() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.payments++
	return l.payments
}

// The server of each stage.
type (
	unmarkedServer struct{ *ledger }
	optionalServer struct{ *ledger }
	requiredServer struct{ *ledger }
)

func (s unmarkedServer) CreatePayment(context.Context, optional.CreatePaymentRequestObject) (optional.CreatePaymentResponseObject, error) {
	return optional.CreatePayment201JSONResponse{Number: s.pay()}, nil
}

func (s optionalServer) CreatePayment(context.Context, struct{}, optional.CreatePaymentIdempotentRequest) (optional.CreatePaymentResponseObject, error) {
	return optional.CreatePayment201JSONResponse{Number: s.pay()}, nil
}

func (s requiredServer) CreatePayment(context.Context, struct{}, required.CreatePaymentIdempotentRequest) (required.CreatePaymentResponseObject, error) {
	return required.CreatePayment201JSONResponse{Number: s.pay()}, nil
}

// keyless counts, by caller, the requests that came without a key.
type keyless struct {
	mu       sync.Mutex
	requests map[string]int
}

func (k *keyless) observe(_ context.Context, e idempotency.Event) {
	if e.Outcome != idempotency.OutcomeUnprotected {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.requests[e.Operation+" by "+e.Scope]++
}

// counts returns the counters and sets them to zero. The observer of a request
// runs after its answer, so the server is closed before.
func (k *keyless) counts() map[string]int {
	k.mu.Lock()
	defer k.mu.Unlock()
	counts := k.requests
	k.requests = make(map[string]int)
	return counts
}

// The stages in which a live operation is switched on: what clients with and
// without a key see at each, and that the counter of requests without a key says
// when the last step can be taken.
//
// Covers GEN-36.
func TestAdoption(t *testing.T) {
	t.Parallel()
	var payments ledger
	store := memstore.New()
	counter := &keyless{requests: make(map[string]int)}
	scope := idempotency.Scope(func(_ context.Context, header http.Header) (string, error) { return header.Get("X-Account"), nil })

	const (
		amount5 = `{"amount":5}`
		amount6 = `{"amount":6}`
	)
	// step is a request and what its sender sees.
	type step struct {
		what, body, key string
		status          int
		answer          string // of a payment: its number; of a refusal: its code
		replayed        bool
	}
	for _, stage := range []struct {
		name    string
		handler http.Handler
		steps   []step
		keyless map[string]int
	}{
		{
			"unmarked", optional.Handler(optional.NewStrictHandler(unmarkedServer{&payments}, nil)),
			[]step{
				{"without a key", amount5, "", 201, `{"number":1}`, false},
				{"its retry", amount5, "", 201, `{"number":2}`, false},
				{"with a key, which says nothing yet", amount5, "early", 201, `{"number":3}`, false},
				{"its retry", amount5, "early", 201, `{"number":4}`, false},
			},
			map[string]int{},
		},
		{
			"optional", optional.Handler(optional.NewIdempotentHandler(optionalServer{&payments}, store, scope,
				idempotency.WithObserver(counter.observe))),
			[]step{
				{"without a key, as before", amount5, "", 201, `{"number":5}`, false},
				{"its retry", amount5, "", 201, `{"number":6}`, false},
				{"with a key", amount5, "a", 201, `{"number":7}`, false},
				{"its retry", amount5, "a", 201, `{"number":7}`, true},
				{"another request under its key", amount6, "a", 422, "mismatch", false},
				{"with a key that is none", amount5, "a b", 400, "key_invalid", false},
				{"the retry of a request from before, which left no record", amount5, "early", 201, `{"number":8}`, false},
			},
			map[string]int{"createPayment by acme": 2},
		},
		{
			"optional, all clients send keys", optional.Handler(optional.NewIdempotentHandler(optionalServer{&payments}, store, scope,
				idempotency.WithObserver(counter.observe))),
			[]step{
				{"with a key", amount5, "b", 201, `{"number":9}`, false},
				{"its retry", amount5, "b", 201, `{"number":9}`, true},
			},
			map[string]int{},
		},
		{
			"required", required.Handler(required.NewIdempotentHandler(requiredServer{&payments}, store, scope,
				idempotency.WithObserver(counter.observe))),
			[]step{
				{"without a key", amount5, "", 400, "key_missing", false},
				{"the retry of a request from the stage before", amount5, "a", 201, `{"number":7}`, true},
				{"with a key", amount5, "c", 201, `{"number":10}`, false},
				{"its retry", amount5, "c", 201, `{"number":10}`, true},
			},
			map[string]int{},
		},
		{
			"and back to optional", optional.Handler(optional.NewIdempotentHandler(optionalServer{&payments}, store, scope,
				idempotency.WithObserver(counter.observe))),
			[]step{
				{"the retry of a request from the stage before", amount5, "c", 201, `{"number":10}`, true},
				{"without a key", amount5, "", 201, `{"number":11}`, false},
			},
			map[string]int{"createPayment by acme": 1},
		},
	} {
		server := httptest.NewServer(stage.handler)
		for _, s := range stage.steps {
			at := fmt.Sprintf("%s: %s", stage.name, s.what)
			request := drive.Request{
				Method: "POST", Path: "/payments", ContentType: "application/json", Body: s.body,
				Header: http.Header{"X-Account": {"acme"}},
			}
			var keys []string
			if s.key != "" {
				keys = append(keys, s.key)
			}
			got := drive.Send(t, server.URL, request, "Idempotency-Key", keys...)
			if s.status >= 400 {
				drive.Refused(t, at, got, s.status, s.answer)
				continue
			}
			if replayed := got.Header.Get("Idempotent-Replayed") == "true"; got.Status != s.status || got.Body != s.answer+"\n" || replayed != s.replayed {
				t.Errorf("%s: %d %q, replayed %v; want %d %q, replayed %v", at, got.Status, got.Body, replayed, s.status, s.answer, s.replayed)
			}
		}
		server.Close()
		if got := counter.counts(); !maps.Equal(got, stage.keyless) {
			t.Errorf("%s: requests without a key: %v, want %v", stage.name, got, stage.keyless)
		}
	}
}
