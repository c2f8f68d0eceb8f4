package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
	"github.com/idemgen/idemgen/testdata/drive"
)

// server has a few of the operations; the std-http case has them all. This file
// is the same for chi, gorilla and the older versions of oapi-codegen.
type server struct {
	IdempotentServer[struct{}]
	runs atomic.Int32
}

func (s *server) CreatePayment(_ context.Context, _ struct{}, req CreatePaymentIdempotentRequest) (CreatePaymentResponseObject, error) {
	s.runs.Add(1)
	in := req.Input()
	if in.Body.Amount < 0 {
		return nil, errors.New("a negative amount")
	}
	return CreatePayment201JSONResponse{
		Body:    Payment{To: in.AccountId + in.Body.To, Amount: in.Body.Amount},
		Headers: CreatePayment201ResponseHeaders{Location: "/payments/1"},
	}, nil
}

func (s *server) CancelPayment(context.Context, struct{}, CancelPaymentIdempotentRequest) (CancelPaymentResponseObject, error) {
	s.runs.Add(1)
	return CancelPayment204Response{}, nil
}

func (s *server) PutDocument(_ context.Context, _ struct{}, req PutDocumentIdempotentRequest) (PutDocumentResponseObject, error) {
	s.runs.Add(1)
	b, err := io.ReadAll(req.Input().Body)
	body := req.Input().Name + string(b)
	return PutDocument200ApplicationoctetStreamResponse{Body: strings.NewReader(body), ContentLength: int64(len(body))}, err
}

func newHandler(s *server, opts ...idempotency.Option) http.Handler {
	return Handler(NewIdempotentHandler(s, memstore.New(), idempotency.Unscoped, opts...))
}

func payment(body string) drive.Request {
	return drive.Request{Method: "POST", Path: "/accounts/a/payments?dry_run=true", ContentType: "application/json", Body: body}
}

func TestBehaviour(t *testing.T) {
	t.Parallel()
	document := func(body string) drive.Request {
		return drive.Request{Method: "PUT", Path: "/documents/d", ContentType: "application/octet-stream", Body: body}
	}
	for name, op := range map[string]drive.Operation{
		"json": {
			Request: payment(`{"to":"b","amount":1}`),
			Same:    []drive.Request{payment(`{ "amount": 1, "to": "b" }`)},
			Other:   []drive.Request{payment(`{"to":"b","amount":2}`)},
			Status:  201,
		},
		"no body": {
			Request: drive.Request{Method: "DELETE", Path: "/payments/00000000-0000-0000-0000-000000000001"},
			Other:   []drive.Request{{Method: "DELETE", Path: "/payments/00000000-0000-0000-0000-000000000002"}},
			Status:  204,
		},
		"bytes": {
			Request: document("\x00\xff"),
			Other:   []drive.Request{document("\x00\xfe")},
			Status:  200, Body: "d\x00\xff",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := new(server)
			op.Runs = func() int { return int(s.runs.Load()) }
			drive.Run(t, newHandler(s), op)
		})
	}
}

// Error handlers that are left nil have oapi-codegen's defaults.
func TestStrictOptions(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]idempotency.Option{
		"none":  nil,
		"empty": {WithStrictServer(StrictHTTPServerOptions{})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(newHandler(new(server), opts...))
			t.Cleanup(srv.Close)
			for body, status := range map[string]int{`{"to":"b","amount":-1}`: 500, `{"to":`: 400} {
				if got := drive.Send(t, srv, payment(body), "Idempotency-Key", "k"); got.Status != status {
					t.Errorf("%s: %d %s, want %d", body, got.Status, got.Body, status)
				}
			}
		})
	}
}
