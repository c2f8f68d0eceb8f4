package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/retry"
)

// recorder keeps the bodies that arrive, and answers 503 to the first, to be
// asked again.
type recorder struct {
	next http.Handler

	mu      sync.Mutex
	bodies  []string
	headers []http.Header
}

func (rec *recorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	rec.mu.Lock()
	rec.bodies, rec.headers = append(rec.bodies, string(body)), append(rec.headers, r.Header)
	first := len(rec.bodies) == 1
	rec.mu.Unlock()
	if first {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	rec.next.ServeHTTP(w, r)
}

// newClient returns a client of a server behind a recorder.
func newClient(t *testing.T) (IdempotentClient, *recorder) {
	t.Helper()
	rec := &recorder{next: newHandler(new(server))}
	srv := httptest.NewServer(rec)
	t.Cleanup(srv.Close)
	client, err := NewIdempotentClient(srv.URL, retry.WithBackoff(func(int) time.Duration { return 0 }))
	if err != nil {
		t.Fatal(err)
	}
	return client, rec
}

// key returns a key of an operation.
func key[Op idempotency.OpType](s string) idempotency.Key[Op] { return idempotency.MustParseKey[Op](s) }

func ptr[T any](v T) *T { return &v }

// order returns a body that is one of two schemas.
func order(t *testing.T, phone Phone) Order {
	t.Helper()
	var o Order
	if err := o.FromPhone(phone); err != nil {
		t.Fatal(err)
	}
	return o
}

// stored returns a request as it comes back from where it was kept.
func stored[R any](t *testing.T, req R) R {
	t.Helper()
	data, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	var again R
	if err := json.Unmarshal(data, &again); err != nil {
		t.Fatal(err)
	}
	return again
}

// A client writes the key into the body, once, whatever the shape of the body,
// and all attempts send the same bytes. The usual header is not sent.
func TestClientWritesKeyIntoBody(t *testing.T) {
	t.Parallel()
	id := uuid.MustParse("8e03978e-40d5-43dd-bc93-6894a57f9324")
	ctx := context.Background()
	for name, test := range map[string]struct {
		call func(c IdempotentClient) (status int, err error)
		want string
	}{
		"a string, required": {func(c IdempotentClient) (int, error) {
			r, err := c.CreatePayment(ctx, NewCreatePaymentIdempotentRequest(key[CreatePaymentOp]("k1"), CreatePaymentInput{Body: CreatePaymentJSONRequestBody{Amount: 5}}))
			return r.StatusCode(), err
		}, `{"amount":5,"idempotency_key":"k1"}`},
		"a string that holds the key": {func(c IdempotentClient) (int, error) {
			r, err := c.CreatePayment(ctx, NewCreatePaymentIdempotentRequest(key[CreatePaymentOp]("k1"), CreatePaymentInput{Body: CreatePaymentJSONRequestBody{Amount: 5, IdempotencyKey: "k1"}}))
			return r.StatusCode(), err
		}, `{"amount":5,"idempotency_key":"k1"}`},
		"stored, a pointer": {func(c IdempotentClient) (int, error) {
			r, err := c.CreateRefund(ctx, stored(t, NewCreateRefundIdempotentRequest(key[CreateRefundOp](`"a,b"`), CreateRefundInput{Body: Refund{Amount: ptr(int64(1 << 60))}})))
			return r.StatusCode(), err
		}, `{"amount":1152921504606846976,"idempotency_key":"\"a,b\""}`},
		"no object around it": {func(c IdempotentClient) (int, error) {
			r, err := c.CreateTransfer(ctx, NewCreateTransferIdempotentRequest(key[CreateTransferOp](id.String()), CreateTransferInput{}))
			return r.StatusCode(), err
		}, `{"meta":{"request/id":"8e03978e-40d5-43dd-bc93-6894a57f9324"}}`},
		"a UUID within": {func(c IdempotentClient) (int, error) {
			in := CreateTransferInput{Body: CreateTransferJSONRequestBody{Amount: ptr(1)}}
			in.Body.Meta = &struct {
				Note      *string    `json:"note,omitempty"`
				Requestid *uuid.UUID `json:"request/id,omitempty"`
			}{ptr("n"), &id}
			r, err := c.CreateTransfer(ctx, stored(t, NewCreateTransferIdempotentRequest(key[CreateTransferOp](id.String()), in)))
			return r.StatusCode(), err
		}, `{"amount":1,"meta":{"note":"n","request/id":"8e03978e-40d5-43dd-bc93-6894a57f9324"}}`},
		"oneOf": {func(c IdempotentClient) (int, error) {
			r, err := c.CreateOrder(ctx, stored(t, NewCreateOrderIdempotentRequest(key[CreateOrderOp]("k1"), CreateOrderInput{Body: order(t, Phone{By: "phone", Number: "5"})})))
			return r.StatusCode(), err
		}, `{"by":"Phone","number":"5","idempotency_key":"k1"}`},
		"allOf, another media type": {func(c IdempotentClient) (int, error) {
			r, err := c.CreateShipment(ctx, stored(t, NewCreateShipmentIdempotentRequest(key[CreateShipmentOp]("k1"), CreateShipmentInput{Body: Shipment{To: ptr("<Ada>")}})))
			return r.StatusCode(), err
		}, `{"idempotency_key":"k1","to":"\u003cAda\u003e"}`},
		"a type of its own": {func(c IdempotentClient) (int, error) {
			r, err := c.AddNote(ctx, NewAddNoteIdempotentRequest(key[AddNoteOp]("k1"), AddNoteInput{Body: &AddNoteJSONRequestBody{IdempotencyKey: ptr(Token(""))}}))
			return r.StatusCode(), err
		}, `{"idempotency_key":"k1"}`},
		"any object": {func(c IdempotentClient) (int, error) {
			r, err := c.PostEvent(ctx, NewPostEventIdempotentRequest(key[PostEventOp]("k1"), PostEventInput{Body: PostEventJSONRequestBody{"a": 1}}))
			return r.StatusCode(), err
		}, `{"a":1,"id":"k1"}`},
		"no object": {func(c IdempotentClient) (int, error) {
			r, err := c.PostEvent(ctx, NewPostEventIdempotentRequest(key[PostEventOp]("k1"), PostEventInput{}))
			return r.StatusCode(), err
		}, `{"id":"k1"}`},
		"form": {func(c IdempotentClient) (int, error) {
			r, err := c.SubmitForm(ctx, stored(t, NewSubmitFormIdempotentRequest(key[SubmitFormOp]("a&b"), SubmitFormInput{Body: SubmitFormFormdataRequestBody{Color: "red"}})))
			return r.StatusCode(), err
		}, `color=red&idempotency_key=a%26b`},
		"form, one of two": {func(c IdempotentClient) (int, error) {
			r, err := c.SubmitEither(ctx, NewSubmitEitherIdempotentRequest(key[SubmitEitherOp]("k1"), SubmitEitherInput{FormdataBody: &Refund{Amount: ptr(int64(5))}}))
			return r.StatusCode(), err
		}, `amount=5&idempotency_key=k1`},
		"JSON, one of two": {func(c IdempotentClient) (int, error) {
			r, err := c.SubmitEither(ctx, NewSubmitEitherIdempotentRequest(key[SubmitEitherOp]("k1"), SubmitEitherInput{JSONBody: &Refund{}}))
			return r.StatusCode(), err
		}, `{"idempotency_key":"k1"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, rec := newClient(t)
			if status, err := test.call(client); err != nil || status != http.StatusCreated {
				t.Fatalf("status %d, %v", status, err)
			}
			if len(rec.bodies) != 2 || rec.bodies[0] != test.want || rec.bodies[1] != test.want {
				t.Errorf("sent %q, want %q twice", rec.bodies, test.want)
			}
			for _, h := range rec.headers {
				if _, sent := h["Idempotency-Key"]; sent {
					t.Error("the header is sent")
				}
			}
		})
	}
}

// Whoever has put another key into the body, or one into a request without a
// key, is told so before anything is sent.
func TestClientRefusesTwoKeys(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, test := range map[string]struct {
		call func(c IdempotentClient) error
		want string
	}{
		"a string": {func(c IdempotentClient) error {
			_, err := c.CreatePayment(ctx, NewCreatePaymentIdempotentRequest(key[CreatePaymentOp]("k1"), CreatePaymentInput{Body: CreatePaymentJSONRequestBody{IdempotencyKey: "k2"}}))
			return err
		}, "the member /idempotency_key of the body is not the request's key; leave it out"},
		"a union": {func(c IdempotentClient) error {
			body := order(t, Phone{IdempotencyKey: ptr("k2")})
			_, err := c.CreateOrder(ctx, NewCreateOrderIdempotentRequest(key[CreateOrderOp]("k1"), CreateOrderInput{Body: body}))
			return err
		}, "is not the request's key"},
		"a form": {func(c IdempotentClient) error {
			_, err := c.SubmitForm(ctx, NewSubmitFormIdempotentRequest(key[SubmitFormOp]("k1"), SubmitFormInput{Body: SubmitFormFormdataRequestBody{IdempotencyKey: ptr("k2")}}))
			return err
		}, "is not the request's key"},
		"no string": {func(c IdempotentClient) error {
			_, err := c.PostEvent(ctx, NewPostEventIdempotentRequest(key[PostEventOp]("k1"), PostEventInput{Body: PostEventJSONRequestBody{"id": 5}}))
			return err
		}, "is no string"},
		"another letter case": {func(c IdempotentClient) error {
			_, err := c.PostEvent(ctx, NewPostEventIdempotentRequest(key[PostEventOp]("k1"), PostEventInput{Body: PostEventJSONRequestBody{"ID": "k1"}}))
			return err
		}, `there is a member "ID" already`},
		"unprotected": {func(c IdempotentClient) error {
			_, err := c.AddNote(ctx, NewAddNoteUnprotectedRequest(AddNoteInput{Body: &AddNoteJSONRequestBody{IdempotencyKey: ptr(Token("k2"))}}))
			return err
		}, "is not the request's key"},
		"no body": {func(c IdempotentClient) error {
			_, err := c.AddNote(ctx, NewAddNoteIdempotentRequest(key[AddNoteOp]("k1"), AddNoteInput{}))
			return err
		}, "has no body"},
		"no key": {func(c IdempotentClient) error {
			_, err := c.CreatePayment(ctx, CreatePaymentIdempotentRequest{})
			return err
		}, "key_missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, rec := newClient(t)
			var failed *idempotency.CallError
			if err := test.call(client); !errors.As(err, &failed) || !strings.Contains(err.Error(), test.want) || failed.OutcomeUnknown {
				t.Errorf("%v, want %q", err, test.want)
			}
			if len(rec.bodies) > 0 {
				t.Errorf("sent %q", rec.bodies)
			}
		})
	}
}

// A request without a key is sent as it is, and once.
func TestClientWithoutKeyInBody(t *testing.T) {
	t.Parallel()
	for body, want := range map[*AddNoteJSONRequestBody]string{nil: "", {Text: ptr("t")}: `{"text":"t"}`, {}: `{}`} {
		client, rec := newClient(t)
		_, err := client.AddNote(t.Context(), NewAddNoteUnprotectedRequest(AddNoteInput{Body: body}))
		if err == nil || len(rec.bodies) != 1 || rec.bodies[0] != want { // the recorder has answered 503
			t.Errorf("sent %q, %v, want %q", rec.bodies, err, want)
		}
	}
}

// Request editors may sign the body and change what is not the key.
func TestClientEditors(t *testing.T) {
	t.Parallel()
	replace := func(old, with string) RequestEditorFn {
		return func(_ context.Context, r *http.Request) error {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return err
			}
			body = []byte(strings.Replace(string(body), old, with, 1))
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(string(body))), int64(len(body))
			return nil
		}
	}
	remove := func(_ context.Context, r *http.Request) error {
		r.Body, r.ContentLength = nil, 0
		return nil
	}
	for name, test := range map[string]struct {
		edit RequestEditorFn
		want string // of the error, or "" for none
	}{
		"puts it back":           {replace("", ""), ""},
		"changes another member": {replace(`"amount":5`, `"amount": 6 `), ""},
		"changes the key":        {replace("k1", "k2"), "is not the request's key"},
		"takes the key away":     {replace(`,"idempotency_key":"k1"`, ""), "the key in the body is gone"},
		"adds another":           {replace(`"amount":5`, `"Idempotency_Key":"k1"`), "already"},
		"takes the body away":    {remove, "is gone"},
		"breaks it":              {replace("{", ""), "there is no object around it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, rec := newClient(t)
			req := NewCreatePaymentIdempotentRequest(key[CreatePaymentOp]("k1"), CreatePaymentInput{Body: CreatePaymentJSONRequestBody{Amount: 5}})
			_, err := client.CreatePayment(t.Context(), req, test.edit)
			switch {
			case test.want == "" && (err != nil || len(rec.bodies) != 2 || rec.bodies[0] != rec.bodies[1]):
				t.Errorf("sent %q, %v", rec.bodies, err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || len(rec.bodies) > 0):
				t.Errorf("sent %q, %v, want %q", rec.bodies, err, test.want)
			}
		})
	}
}

// A header that the operation declares is sent as it is given, and only then.
func TestClientLeavesDeclaredHeader(t *testing.T) {
	t.Parallel()
	for _, given := range []*string{nil, ptr("other")} {
		client, rec := newClient(t)
		in := PostRawInput{Params: PostRawParams{IdempotencyKey: given}}
		if _, err := client.PostRaw(t.Context(), NewPostRawIdempotentRequest(key[PostRawOp]("k1"), in)); err != nil {
			t.Fatal(err)
		}
		for _, h := range rec.headers {
			if got := h.Get("Idempotency-Key"); given == nil && got != "" || given != nil && got != *given {
				t.Errorf("header %q", got)
			}
		}
		if rec.bodies[0] != `{"idempotency_key":"k1"}` {
			t.Errorf("sent %q", rec.bodies)
		}
	}
}
