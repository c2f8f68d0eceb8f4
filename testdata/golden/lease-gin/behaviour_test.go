package api

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
	"github.com/idemgen/idemgen/testdata/drive"
)

// This file is the same for every server of the document; the file beside it
// says how each writes the answers.

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

// service refunds at a provider.
type service struct {
	provider provider
	payments atomic.Int32
	cancels  atomic.Int32
	// then is what happens once the provider has refunded.
	then func(ctx context.Context, lease *idempotency.Lease) error
}

// createRefund returns the provider's key and the token of the run.
func (s *service) createRefund(ctx context.Context, lease *idempotency.Lease) (key, token string, err error) {
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

func (s *service) cancelRefund(ctx context.Context, lease *idempotency.Lease, in CancelRefundInput, key CancelRefundIdempotencyKey) error {
	s.cancels.Add(1)
	if in.Lease != "r1" {
		return errors.New("another refund")
	}
	if key.IsZero() != lease.Token().IsZero() || key.IsZero() != lease.Deadline().IsZero() {
		return errors.New("a key without a lease, or a lease without a key")
	}
	return lease.Extend(ctx, time.Hour)
}

func refund(payment string) drive.Request {
	return drive.Request{Method: "POST", Path: "/refunds", ContentType: "application/json", Body: `{"payment":"` + payment + `"}`}
}

func send(t *testing.T, url string, r drive.Request, keys ...string) drive.Answer {
	t.Helper()
	return drive.Send(t, url, r, "Idempotency-Key", keys...)
}

// refunded checks the answer of a refund.
func refunded(t *testing.T, got drive.Answer) {
	t.Helper()
	var body struct {
		ProviderKey string `json:"provider_key"`
		Token       string `json:"token"`
	}
	if err := json.Unmarshal([]byte(got.Body), &body); got.Status != http.StatusCreated || err != nil || body.ProviderKey == "" || len(body.Token) != 32 {
		t.Errorf("status %d, body %s, %v", got.Status, got.Body, err)
	}
}

// A refund is made once, and a retry gets its answer. Operations in a transaction
// stand beside it.
func TestRefund(t *testing.T) {
	t.Parallel()
	s := new(service)
	url := serve(t, s, memstore.New())
	first := send(t, url, refund("p1"), "k")
	refunded(t, first)
	again := send(t, url, refund("p1"), "k")
	if again.Body != first.Body || again.Status != first.Status || again.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("retry: %+v, want %+v", again, first)
	}
	drive.Refused(t, "another body", send(t, url, refund("p2"), "k"), http.StatusUnprocessableEntity, "mismatch")
	drive.Refused(t, "no key", send(t, url, refund("p1")), http.StatusBadRequest, "key_missing")
	s.provider.want(t, 1)

	payment := drive.Request{Method: "POST", Path: "/payments"}
	for range 2 {
		if got := send(t, url, payment, "k"); got.Status != http.StatusCreated {
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
func TestRefundThatFails(t *testing.T) {
	t.Parallel()
	s := new(service)
	var tokens []string
	s.then = func(_ context.Context, lease *idempotency.Lease) error {
		if tokens = append(tokens, lease.Token().String()); len(tokens) == 1 {
			return errors.New("the connection to the provider was lost")
		}
		return nil
	}
	url := serve(t, s, memstore.New())
	if got := send(t, url, refund("p1"), "k"); got.Status != http.StatusInternalServerError {
		t.Errorf("a failed refund: %+v", got)
	}
	refunded(t, send(t, url, refund("p1"), "k"))
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
func TestRefundThatLosesItsLease(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	store := memstore.New(memstore.WithClock(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }))
	s := new(service)
	var url string
	var second drive.Answer
	s.then = func(ctx context.Context, lease *idempotency.Lease) error {
		s.then = nil
		duplicate := send(t, url, refund("p1"), "k")
		drive.Refused(t, "duplicate", duplicate, http.StatusConflict, "in_flight")
		if duplicate.Header.Get("Retry-After") != "1" {
			t.Errorf("Retry-After %q", duplicate.Header.Get("Retry-After"))
		}
		drive.Refused(t, "another body", send(t, url, refund("p2"), "k"), http.StatusUnprocessableEntity, "mismatch")

		ahead.Store(int64(31 * time.Second))
		second = send(t, url, refund("p1"), "k")
		if err := lease.Extend(ctx, time.Minute); !errors.Is(err, idempotency.ErrLeaseLost) {
			t.Errorf("Extend: %v", err)
		}
		if cause := context.Cause(ctx); !errors.Is(cause, idempotency.ErrLeaseLost) {
			t.Errorf("the handler's context: %v", cause)
		}
		return nil
	}
	url = serve(t, s, store)
	first := send(t, url, refund("p1"), "k")
	drive.Refused(t, "the first", first, http.StatusServiceUnavailable, "outcome_unknown")
	refunded(t, second)
	if third := send(t, url, refund("p1"), "k"); third.Body != second.Body {
		t.Errorf("retry: %+v, want %+v", third, second)
	}
	s.provider.want(t, 2)
}

// Without a key an operation that allows it runs every time and holds no lease.
func TestCancelRefund(t *testing.T) {
	t.Parallel()
	s := new(service)
	url := serve(t, s, memstore.New())
	r := drive.Request{Method: "DELETE", Path: "/refunds/r1"}
	for _, keys := range [][]string{{}, {}, {"k"}, {"k"}} {
		if got := send(t, url, r, keys...); got.Status != http.StatusNoContent {
			t.Errorf("keys %q: %+v", keys, got)
		}
	}
	if n := s.cancels.Load(); n != 3 {
		t.Errorf("%d runs, want 3", n)
	}
}

// What the document says of leases reaches the runtime.
func TestOperations(t *testing.T) {
	t.Parallel()
	for op, want := range map[*idempotency.Operation]time.Duration{
		CreatePaymentOp{}.Operation(): 0,
		CreateRefundOp{}.Operation():  30 * time.Second,
		CancelRefundOp{}.Operation():  time.Minute,
	} {
		if op.Lease != want {
			t.Errorf("%s has a lease of %v, want %v", op.ID, op.Lease, want)
		}
	}
}
