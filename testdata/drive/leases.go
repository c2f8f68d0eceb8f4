package drive

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
)

// Leased is a server that is generated from testdata/golden/lease/openapi.yaml.
type Leased struct {
	// Serve starts the server of refunds on a loopback address, which it returns
	// as a URL, and stops it with the test.
	Serve func(t *testing.T, refunds *Refunds, store idempotency.LeaseStore[struct{}]) string
	// CreatePayment, CreateRefund and CancelRefund are what the document says of
	// each operation.
	CreatePayment, CreateRefund, CancelRefund *idempotency.Operation
}

// Behave checks the server: its operation createRefund, and its receiver of the
// callback repeatRefund at /provider, which are to do the same.
func (l Leased) Behave(t *testing.T) {
	checks := map[string]func(*testing.T){
		"CreatePayment": l.createPayment,
		"CancelRefund":  l.cancelRefund,
		"Operations":    l.operations,
	}
	for name, path := range map[string]string{"Operation": "/refunds", "Callback": "/provider"} {
		refund := func(payment string) Request {
			return Request{Method: "POST", Path: path, ContentType: "application/json", Body: `{"payment":"` + payment + `"}`}
		}
		checks[name] = func(t *testing.T) { l.refund(t, refund) }
		checks[name+"Fails"] = func(t *testing.T) { l.refundFails(t, refund) }
		checks[name+"LosesItsLease"] = func(t *testing.T) { l.refundLosesItsLease(t, refund) }
	}
	for name, check := range checks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t)
		})
	}
}

// provider is another system, which makes a refund once for each key.
type provider struct {
	mu      sync.Mutex
	refunds map[string]int // how often each was asked for
}

func (p *provider) refund(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refunds == nil {
		p.refunds = make(map[string]int)
	}
	p.refunds[key]++
}

// want expects one refund that was asked for so often.
func (p *provider) want(t *testing.T, asked int) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.refunds) != 1 {
		t.Errorf("%d refunds, want 1: %v", len(p.refunds), p.refunds)
	}
	for _, n := range p.refunds {
		if n != asked {
			t.Errorf("asked for %d times, want %d", n, asked)
		}
	}
}

// Refunds is what handlers do, whatever server they are for: it refunds at a
// provider.
type Refunds struct {
	provider provider
	payments atomic.Int32
	cancels  atomic.Int32
	// then is what happens once the provider has refunded.
	then func(ctx context.Context, lease *idempotency.Lease) error
}

// Pay is the handler of createPayment.
func (s *Refunds) Pay() { s.payments.Add(1) }

// Create is the handler of createRefund. It returns the provider's key and the
// token of the run.
func (s *Refunds) Create(ctx context.Context, lease *idempotency.Lease) (key, token string, err error) {
	key, err = idempotency.DeriveUUID(ctx, "provider: refund")
	if err != nil {
		return "", "", err
	}
	s.provider.refund(key)
	if s.then != nil {
		err = s.then(ctx, lease)
	}
	return key, lease.Token().String(), err
}

// Cancel is the handler of cancelRefund, with its path's parameter, and whether
// it has no key.
func (s *Refunds) Cancel(ctx context.Context, lease *idempotency.Lease, id string, keyless bool) error {
	s.cancels.Add(1)
	if id != "r1" {
		return errors.New("another refund")
	}
	if keyless != lease.Token().IsZero() || keyless != lease.Deadline().IsZero() {
		return errors.New("a key without a lease, or a lease without a key")
	}
	return lease.Extend(ctx, time.Hour)
}

// refunded checks the answer of a refund.
func refunded(t *testing.T, got Answer) {
	t.Helper()
	var body struct {
		ProviderKey string `json:"provider_key"`
		Token       string `json:"token"`
	}
	if err := json.Unmarshal([]byte(got.Body), &body); got.Status != http.StatusCreated || err != nil || body.ProviderKey == "" || len(body.Token) != 32 {
		t.Errorf("status %d, body %s, %v", got.Status, got.Body, err)
	}
}

// A refund is made once, and a retry gets its answer.
func (l Leased) refund(t *testing.T, refund func(payment string) Request) {
	s := new(Refunds)
	url := l.Serve(t, s, memstore.New())
	first := Send(t, url, refund("p1"), keyHeader, "k")
	refunded(t, first)
	again := Send(t, url, refund("p1"), keyHeader, "k")
	if again.Body != first.Body || again.Status != first.Status || again.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("retry: %+v, want %+v", again, first)
	}
	Refused(t, "another body", Send(t, url, refund("p2"), keyHeader, "k"), http.StatusUnprocessableEntity, "mismatch")
	Refused(t, "no key", Send(t, url, refund("p1"), keyHeader), http.StatusBadRequest, "key_missing")
	s.provider.want(t, 1)
}

// createPayment checks that an operation in a transaction stands beside the others.
func (l Leased) createPayment(t *testing.T) {
	s := new(Refunds)
	url := l.Serve(t, s, memstore.New())
	payment := Request{Method: "POST", Path: "/payments"}
	for range 2 {
		if got := Send(t, url, payment, keyHeader, "k"); got.Status != http.StatusCreated {
			t.Errorf("payment: %+v", got)
		}
	}
	if n := s.payments.Load(); n != 1 {
		t.Errorf("%d payments", n)
	}
}

// A handler that fails after its effect runs again with the same derived key and
// another token.
//
// Covers ERR-06.
func (l Leased) refundFails(t *testing.T, refund func(payment string) Request) {
	s := new(Refunds)
	var tokens []string
	s.then = func(_ context.Context, lease *idempotency.Lease) error {
		if tokens = append(tokens, lease.Token().String()); len(tokens) == 1 {
			return errors.New("the connection to the provider was lost")
		}
		return nil
	}
	url := l.Serve(t, s, memstore.New())
	if got := Send(t, url, refund("p1"), keyHeader, "k"); got.Status != http.StatusInternalServerError {
		t.Errorf("a failed refund: %+v", got)
	}
	refunded(t, Send(t, url, refund("p1"), keyHeader, "k"))
	s.provider.want(t, 2)
	if len(tokens) != 2 || tokens[0] == tokens[1] {
		t.Errorf("tokens %q", tokens)
	}
}

// While a refund runs its duplicates are refused. When its lease has passed, the
// next one takes over, the first one loses its lease and its answer, and the
// provider has refunded once.
//
// Covers CON-10.
func (l Leased) refundLosesItsLease(t *testing.T, refund func(payment string) Request) {
	var ahead atomic.Int64
	store := memstore.New(memstore.WithClock(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }))
	s := new(Refunds)
	var url string
	var second Answer
	s.then = func(ctx context.Context, lease *idempotency.Lease) error {
		s.then = nil
		duplicate := Send(t, url, refund("p1"), keyHeader, "k")
		Refused(t, "duplicate", duplicate, http.StatusConflict, "in_flight")
		if duplicate.Header.Get("Retry-After") != "1" {
			t.Errorf("Retry-After %q", duplicate.Header.Get("Retry-After"))
		}
		Refused(t, "another body", Send(t, url, refund("p2"), keyHeader, "k"), http.StatusUnprocessableEntity, "mismatch")

		ahead.Store(int64(31 * time.Second))
		second = Send(t, url, refund("p1"), keyHeader, "k")
		if err := lease.Extend(ctx, time.Minute); !errors.Is(err, idempotency.ErrLeaseLost) {
			t.Errorf("Extend: %v", err)
		}
		if cause := context.Cause(ctx); !errors.Is(cause, idempotency.ErrLeaseLost) {
			t.Errorf("the handler's context: %v", cause)
		}
		return nil
	}
	url = l.Serve(t, s, store)
	first := Send(t, url, refund("p1"), keyHeader, "k")
	Refused(t, "the first", first, http.StatusServiceUnavailable, "outcome_unknown")
	refunded(t, second)
	if third := Send(t, url, refund("p1"), keyHeader, "k"); third.Body != second.Body {
		t.Errorf("retry: %+v, want %+v", third, second)
	}
	s.provider.want(t, 2)
}

// Without a key an operation that allows it runs every time and holds no lease.
func (l Leased) cancelRefund(t *testing.T) {
	s := new(Refunds)
	url := l.Serve(t, s, memstore.New())
	r := Request{Method: "DELETE", Path: "/refunds/r1"}
	for _, keys := range [][]string{{}, {}, {"k"}, {"k"}} {
		if got := Send(t, url, r, keyHeader, keys...); got.Status != http.StatusNoContent {
			t.Errorf("keys %q: %+v", keys, got)
		}
	}
	if n := s.cancels.Load(); n != 3 {
		t.Errorf("%d runs, want 3", n)
	}
}

// operations checks that what the document says of leases reaches the runtime.
func (l Leased) operations(t *testing.T) {
	for op, want := range map[*idempotency.Operation]time.Duration{
		l.CreatePayment: 0,
		l.CreateRefund:  30 * time.Second,
		l.CancelRefund:  time.Minute,
	} {
		if op.Lease != want {
			t.Errorf("%s has a lease of %v, want %v", op.ID, op.Lease, want)
		}
	}
}
