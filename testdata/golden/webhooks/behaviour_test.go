package api

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
	"github.com/idemgen/idemgen/testdata/drive"
)

const keyHeader = "Webhook-Id"

// shop receives what the document says is sent.
type shop struct {
	runs atomic.Int32
	// settle decides what becomes of payments that are settled.
	settle func(w http.ResponseWriter, run int32, in PaymentSettledInput)
}

var (
	_ IdempotentWebhookReceiver[struct{}]  = (*shop)(nil)
	_ IdempotentCallbackReceiver[struct{}] = (*shop)(nil)
)

func (s *shop) HandlePaymentSettledWebhook(w http.ResponseWriter, _ *http.Request, _ struct{}, req PaymentSettledIdempotentRequest) {
	run := s.runs.Add(1)
	if s.settle != nil {
		s.settle(w, run, req.Input())
		return
	}
	in := req.Input()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Source", in.Params.Source)
	w.WriteHeader(http.StatusAccepted)
	fmt.Fprintf(w, `{"number": %d, "amount": %d, "id": %q, "key": %q}`, run, in.Body.Amount, in.Body.Id, req.IdempotencyKey)
}

func (s *shop) HandleChargeRefundedWebhook(w http.ResponseWriter, _ *http.Request, _ struct{}, req ChargeRefundedIdempotentRequest) {
	fmt.Fprint(w, "run ", s.runs.Add(1), ", key ", req.IdempotencyKey, ", id ", req.Input().Body.Id)
}

func (s *shop) HandleInvoicePaidWebhook(w http.ResponseWriter, r *http.Request, _ struct{}, req InvoicePaidIdempotentRequest) {
	s.runs.Add(1)
	in := req.Input()
	switch {
	case in.JSONBody != nil:
		fmt.Fprint(w, "json ", in.JSONBody.Id)
	case in.FormdataBody != nil:
		fmt.Fprint(w, "form ", in.FormdataBody.Id)
	case in.TextBody != nil:
		fmt.Fprint(w, "text ", *in.TextBody)
	case in.Body != nil:
		b, _ := io.ReadAll(in.Body)
		raw, _ := io.ReadAll(r.Body) // can be read beside
		fmt.Fprint(w, in.ContentType, " ", string(b), string(raw))
	}
}

func (s *shop) HandleAccountClosedWebhook(w http.ResponseWriter, _ *http.Request, _ struct{}, req AccountClosedOnceIdempotentRequest) {
	s.runs.Add(1)
	if reason := req.Input().Params.Reason; reason != nil {
		w.Header().Set("X-Reason", *reason)
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *shop) HandlePingWebhook(w http.ResponseWriter, _ *http.Request) {
	s.runs.Add(1)
	w.WriteHeader(http.StatusNoContent)
}

func (s *shop) HandleOrderShippedCallback(w http.ResponseWriter, _ *http.Request, _ struct{}, req OrderShippedIdempotentRequest) {
	s.runs.Add(1)
	w.Header().Set("X-Order", req.Input().Body.Id)
	w.WriteHeader(http.StatusNoContent)
}

func (s *shop) HandleOrderLostCallback(w http.ResponseWriter, _ *http.Request, _ struct{}, _ OrderLostIdempotentRequest) {
	s.runs.Add(1)
	w.WriteHeader(http.StatusNoContent)
}

// serve mounts the receivers where a team could. What stands before webhooks is
// given in check.
func serve(t *testing.T, s *shop, check WebhookReceiverMiddlewareFunc) string {
	t.Helper()
	hooks := NewIdempotentWebhookReceiver(s, memstore.New(), idempotency.Unscoped)
	callbacks := NewIdempotentCallbackReceiver(s, memstore.New(), idempotency.Unscoped)
	if check == nil {
		check = func(next http.Handler) http.Handler { return next }
	}
	mux := http.NewServeMux()
	mux.Handle("POST /hooks/{shop}/payment", PaymentSettledWebhookHandler(hooks, nil, check))
	mux.Handle("POST /hooks/charge", ChargeRefundedWebhookHandler(hooks, nil, check))
	mux.Handle("PUT /hooks/invoice", InvoicePaidWebhookHandler(hooks, nil, check))
	mux.Handle("DELETE /hooks/account", AccountClosedWebhookHandler(hooks, nil, check))
	mux.Handle("POST /hooks/ping", PingWebhookHandler(hooks, nil, check))
	mux.Handle("POST /shipped", OrderShippedCallbackHandler(callbacks, nil))
	mux.Handle("POST /lost", OrderLostCallbackHandler(callbacks, nil))
	return drive.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if recover() != nil {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}()
		mux.ServeHTTP(w, r)
	}))
}

func settled(body string) drive.Request {
	return drive.Request{Method: "POST", Path: "/hooks/a/payment?source=bank", ContentType: "application/json", Body: body}
}

const event = `{"id":"evt_1","amount":1}`

// Duplicates get the stored answer, whatever shape requests and answers have;
// another event under the same key is refused, and so is one without a key.
func TestReceivers(t *testing.T) {
	t.Parallel()
	invoice := func(mediaType, body string) drive.Request {
		return drive.Request{Method: "PUT", Path: "/hooks/invoice", ContentType: mediaType, Body: body}
	}
	elsewhere := settled(event)
	elsewhere.Path = "/hooks/b/payment?source=bank"
	attempt := settled(event)
	attempt.Header = http.Header{"Webhook-Attempt": {"2"}}
	for name, op := range map[string]drive.Operation{
		"json": {
			Request:  settled(event),
			Same:     []drive.Request{settled(`{ "amount": 1, "id": "evt_1" }`)},
			Other:    []drive.Request{settled(`{"id":"evt_1","amount":2}`), elsewhere, attempt},
			Status:   202,
			Body:     `{"number": 1, "amount": 1, "id": "evt_1", "key": "key-1"}`,
			Declared: true,
		},
		"one of several": {
			Request: invoice("application/json", event),
			Same:    []drive.Request{invoice("application/json; charset=utf-8", `{"id":"evt_1","amount":1,"sent_at":"now"}`)},
			Other:   []drive.Request{invoice("application/json", `{"id":"evt_2","amount":1}`), invoice("text/plain", event)},
			Status:  200, Body: "json evt_1",
		},
		"form": {
			Request: invoice("application/x-www-form-urlencoded", "id=evt_1&amount=1"),
			Other:   []drive.Request{invoice("application/x-www-form-urlencoded", "id=evt_1&amount=2")},
			Status:  200, Body: "form evt_1",
		},
		"text": {Request: invoice("text/plain", "paid"), Other: []drive.Request{invoice("text/plain", "lost")}, Status: 200, Body: "text paid"},
		"bytes": {
			Request: invoice("application/octet-stream", "\x00\xff"),
			Other:   []drive.Request{invoice("application/octet-stream", "\x00\xfe")},
			Status:  200, Body: "application/octet-stream \x00\xff\x00\xff",
		},
		"no body": {
			Request: drive.Request{Method: "DELETE", Path: "/hooks/account?reason=moved"},
			Other:   []drive.Request{{Method: "DELETE", Path: "/hooks/account"}},
			Status:  204,
		},
		"callback": {
			Request: drive.Request{Method: "POST", Path: "/shipped", ContentType: "application/json", Body: event},
			Other:   []drive.Request{{Method: "POST", Path: "/shipped", ContentType: "application/json", Body: `{"id":"evt_2","amount":1}`}},
			Status:  204,
		},
		"optional callback": {Request: drive.Request{Method: "POST", Path: "/lost"}, Status: 204, Optional: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := new(shop)
			op.KeyHeader, op.Runs = keyHeader, func() int { return int(s.runs.Load()) }
			drive.Run(t, serve(t, s, nil), op)
		})
	}
}

// An event whose id is in the body is known by it, whatever is in the header.
func TestKeyInBody(t *testing.T) {
	t.Parallel()
	s := new(shop)
	url := serve(t, s, nil)
	send := func(body string) drive.Answer {
		r := drive.Request{Method: "POST", Path: "/hooks/charge", ContentType: "application/json", Body: body}
		return drive.Send(t, url, r, keyHeader, "delivery")
	}
	for i, want := range []struct{ body, answer, replayed string }{
		{`{"id":"evt_1","amount":1,"sent_at":"1"}`, "run 1, key evt_1, id evt_1", ""},
		{`{"amount":1, "id":"evt_1","sent_at":"2"}`, "run 1, key evt_1, id evt_1", "true"},
		{`{"id":"evt_2","amount":1}`, "run 2, key evt_2, id evt_2", ""},
		{`{"id":"evt_1","amount":1}`, "run 1, key evt_1, id evt_1", "true"},
	} {
		if got := send(want.body); got.Status != http.StatusOK || got.Body != want.answer || got.Header.Get("Idempotent-Replayed") != want.replayed {
			t.Errorf("%d: %d %q, replayed %q, want %q and %q", i, got.Status, got.Body, got.Header.Get("Idempotent-Replayed"), want.answer, want.replayed)
		}
	}
	drive.Refused(t, "other", send(`{"id":"evt_1","amount":2}`), http.StatusUnprocessableEntity, "mismatch")
	drive.Refused(t, "missing", send(`{"amount":1}`), http.StatusBadRequest, "key_missing")
	drive.Refused(t, "number", send(`{"id":1,"amount":1}`), http.StatusBadRequest, "key_invalid")
	drive.Refused(t, "twice", send(`{"id":"evt_1","amount":1,"id":"evt_3"}`), http.StatusBadRequest, "key_invalid")
	if runs := s.runs.Load(); runs != 2 {
		t.Errorf("%d runs, want 2", runs)
	}
}

// An event that is not marked is received as often as it comes.
func TestUnmarked(t *testing.T) {
	t.Parallel()
	s := new(shop)
	url := serve(t, s, nil)
	for range 2 {
		got := drive.Send(t, url, drive.Request{Method: "POST", Path: "/hooks/ping", ContentType: "application/json", Body: event}, keyHeader, "k")
		if got.Status != http.StatusNoContent || got.Header.Get("Idempotent-Replayed") != "" {
			t.Errorf("%d, replayed %q", got.Status, got.Header.Get("Idempotent-Replayed"))
		}
	}
	if runs := s.runs.Load(); runs != 2 {
		t.Errorf("%d runs, want 2", runs)
	}
}

// A handler that fails leaves the key free, and the redelivery runs again.
func TestRedelivery(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fail   func(http.ResponseWriter)
		status int
	}{
		"error": {func(w http.ResponseWriter) { http.Error(w, "the database is away", http.StatusInternalServerError) }, 500},
		"busy":  {func(w http.ResponseWriter) { w.WriteHeader(http.StatusTooManyRequests) }, 429},
		"panic": {func(http.ResponseWriter) { panic("no luck") }, 500},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &shop{settle: func(w http.ResponseWriter, run int32, _ PaymentSettledInput) {
				if run == 1 {
					test.fail(w)
					return
				}
				w.WriteHeader(http.StatusAccepted)
			}}
			url := serve(t, s, nil)
			for i, want := range []struct {
				status   int
				replayed string
			}{{test.status, ""}, {http.StatusAccepted, ""}, {http.StatusAccepted, "true"}} {
				got := drive.Send(t, url, settled(event), keyHeader, "k")
				if got.Status != want.status || got.Header.Get("Idempotent-Replayed") != want.replayed {
					t.Errorf("delivery %d: %d, replayed %q, want %d, %q", i+1, got.Status, got.Header.Get("Idempotent-Replayed"), want.status, want.replayed)
				}
			}
			if runs := s.runs.Load(); runs != 2 {
				t.Errorf("%d runs, want 2", runs)
			}
		})
	}
}

// A redelivery that comes while the first one is being handled is told to come
// again.
func TestInFlight(t *testing.T) {
	t.Parallel()
	started, finish := make(chan struct{}), make(chan struct{})
	s := &shop{settle: func(w http.ResponseWriter, _ int32, _ PaymentSettledInput) {
		close(started)
		<-finish
		w.WriteHeader(http.StatusAccepted)
	}}
	url := serve(t, s, nil)
	first := make(chan drive.Answer, 1)
	go func() { first <- drive.Send(t, url, settled(event), keyHeader, "k") }()
	select {
	case <-started:
	case <-time.After(10 * time.Second):
		t.Fatal("the handler has not started")
	}
	got := drive.Send(t, url, settled(event), keyHeader, "k")
	drive.Refused(t, "redelivery", got, http.StatusConflict, "in_flight")
	if got.Header.Get("Retry-After") == "" {
		t.Error("there is no Retry-After")
	}
	close(finish)
	if got := <-first; got.Status != http.StatusAccepted {
		t.Errorf("first: %d %s", got.Status, got.Body)
	}
	if got := drive.Send(t, url, settled(event), keyHeader, "k"); got.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("afterwards: %d %s, want a replay", got.Status, got.Body)
	}
}

// Of many deliveries at the same time, one runs.
func TestDeliveredAtOnce(t *testing.T) {
	t.Parallel()
	s := new(shop)
	url := serve(t, s, nil)
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			got := drive.Send(t, url, settled(event), keyHeader, "k")
			if got.Status != http.StatusAccepted && got.Status != http.StatusConflict {
				t.Errorf("%d %s", got.Status, got.Body)
			}
		})
	}
	group.Wait()
	if runs := s.runs.Load(); runs != 1 {
		t.Errorf("%d runs, want 1", runs)
	}
}

// A body that is no event is refused and leaves the key free.
func TestNoEvent(t *testing.T) {
	t.Parallel()
	s := new(shop)
	url := serve(t, s, nil)
	for _, body := range []string{"", "{", `{"id":1}`, event + "{}"} {
		drive.Refused(t, body, drive.Send(t, url, settled(body), keyHeader, "k"), http.StatusBadRequest, "body_invalid")
	}
	if got := drive.Send(t, url, settled(event), keyHeader, "k"); got.Status != http.StatusAccepted || s.runs.Load() != 1 {
		t.Errorf("%d %s after %d runs", got.Status, got.Body, s.runs.Load())
	}
}

// signed checks a signature over the key and the body, in the form of Standard
// Webhooks without the time, and leaves the body to be read again.
func signed(secret []byte) WebhookReceiverMiddlewareFunc {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
			if err != nil {
				http.Error(w, "the body cannot be read", http.StatusBadRequest)
				return
			}
			if !hmac.Equal([]byte(r.Header.Get("Webhook-Signature")), []byte(signature(secret, r.Header.Get(keyHeader), string(body)))) {
				http.Error(w, "the signature is wrong", http.StatusUnauthorized)
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			next.ServeHTTP(w, r)
		})
	}
}

func signature(secret []byte, id, body string) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(id + "." + body))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// A middleware that checks signatures sees the body as it came, and stands before
// replays too.
func TestSignature(t *testing.T) {
	t.Parallel()
	secret := []byte("secret")
	s := new(shop)
	url := serve(t, s, signed(secret))
	send := func(signature string) drive.Answer {
		r := settled(event)
		r.Header = http.Header{"Webhook-Signature": {signature}}
		return drive.Send(t, url, r, keyHeader, "k")
	}
	right := signature(secret, "k", event)
	for i, want := range []struct {
		signature, replayed string
		status              int
	}{{"", "", 401}, {right, "", 202}, {right, "true", 202}, {"", "", 401}, {signature(secret, "other", event), "", 401}} {
		if got := send(want.signature); got.Status != want.status || got.Header.Get("Idempotent-Replayed") != want.replayed {
			t.Errorf("%d: %d %s, replayed %q, want %d, %q", i, got.Status, got.Body, got.Header.Get("Idempotent-Replayed"), want.status, want.replayed)
		}
	}
	if runs := s.runs.Load(); runs != 1 {
		t.Errorf("%d runs, want 1", runs)
	}
}

// The scope tells senders apart that count alike.
func TestScope(t *testing.T) {
	t.Parallel()
	s := new(shop)
	hooks := NewIdempotentWebhookReceiver(s, memstore.New(), func(ctx context.Context, _ http.Header) (string, error) {
		sender, _ := ctx.Value(drive.UserKey).(string)
		return sender, nil
	})
	handler := PaymentSettledWebhookHandler(hooks, nil, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), drive.UserKey, r.PathValue("shop"))))
		})
	})
	mux := http.NewServeMux()
	mux.Handle("POST /hooks/{shop}/payment", handler)
	mux.Handle("POST /hooks/payment", handler)
	url := drive.Serve(t, mux)
	for _, name := range []string{"a", "b", "a"} {
		r := settled(event)
		r.Path = "/hooks/" + name + "/payment?source=bank"
		if got := drive.Send(t, url, r, keyHeader, "k"); got.Status != http.StatusAccepted {
			t.Errorf("%s: %d %s", name, got.Status, got.Body)
		}
	}
	r := settled(event)
	r.Path = "/hooks/payment?source=bank"
	drive.Refused(t, "nobody", drive.Send(t, url, r, keyHeader, "k"), http.StatusUnauthorized, "scope_missing")
	if runs := s.runs.Load(); runs != 2 {
		t.Errorf("%d runs, want 2", runs)
	}
}

// What the document says of webhooks and callbacks reaches the runtime. No path
// is known of them, and those without an operationId are named by their route.
func TestOperations(t *testing.T) {
	t.Parallel()
	type operation struct {
		id, method, path, header string
		optional                 bool
	}
	for _, test := range []struct {
		got  *idempotency.Operation
		want operation
	}{
		{PaymentSettledOp{}.Operation(), operation{"paymentSettled", "POST", "webhook payment.settled", keyHeader, false}},
		{InvoicePaidOp{}.Operation(), operation{"PUT webhook invoice.paid", "PUT", "webhook invoice.paid", keyHeader, false}},
		{AccountClosedOnceOp{}.Operation(), operation{"accountClosed", "DELETE", "webhook account.{event}", keyHeader, false}},
		{OrderShippedOp{}.Operation(), operation{"orderShipped", "POST", "callback orderShipped", keyHeader, false}},
		{OrderLostOp{}.Operation(), operation{"orderLost", "POST", "callback orderLost", keyHeader, true}},
		{PlaceOrderOp{}.Operation(), operation{"placeOrder", "POST", "/orders", "Idempotency-Key", false}},
	} {
		got := operation{test.got.ID, test.got.Method, test.got.Path, test.got.Key.Header, test.got.Optional}
		if got != test.want {
			t.Errorf("got %+v, want %+v", got, test.want)
		}
		if test.got.Retention != 168*time.Hour {
			t.Errorf("%s is kept for %s", test.got.ID, test.got.Retention)
		}
	}
}

// Tests and consumers of queues make requests of what has been delivered.
func TestRequest(t *testing.T) {
	t.Parallel()
	key, err := ParsePaymentSettledIdempotencyKey("msg_1")
	if err != nil {
		t.Fatal(err)
	}
	req := NewPaymentSettledIdempotentRequest(key, PaymentSettledInput{Body: Event{Id: "evt_1", Amount: 1}})
	b, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	var read PaymentSettledIdempotentRequest
	if err := json.Unmarshal(b, &read); err != nil || !read.Equal(req) || !reflect.DeepEqual(read.Input(), req.Input()) {
		t.Errorf("%s read as %v, %v", b, read, err)
	}
}
