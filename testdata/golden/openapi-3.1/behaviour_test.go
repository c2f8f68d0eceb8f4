package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
	"github.com/idemgen/idemgen/testdata/drive"
)

type server struct {
	IdempotentServer[struct{}]
	runs int
}

func (s *server) Post(_ context.Context, _ struct{}, req PostIdempotentRequest) (PostResponseObject, error) {
	s.runs++
	if order := req.Input().Body; order.Amount < 100 {
		return Post2XXJSONResponse{Body: order, StatusCode: http.StatusAccepted}, nil
	}
	return PostdefaultApplicationProblemPlusJSONResponse{StatusCode: http.StatusPaymentRequired}, nil
}

func (s *server) OptionalAtPath(_ context.Context, _ struct{}, req OptionalAtPathIdempotentRequest) (OptionalAtPathResponseObject, error) {
	s.runs++
	return OptionalAtPath200JSONResponse{
		Body:    Order{Kind: "order", Note: req.Input().Body.Note},
		Headers: OptionalAtPath200ResponseHeaders{IdempotencyKey: req.IdempotencyKey.String() + "-taken"},
	}, nil
}

func (s *server) RequiredInline(context.Context, struct{}, RequiredInlineIdempotentRequest) (RequiredInlineResponseObject, error) {
	s.runs++
	return RequiredInlinedefaultResponse{StatusCode: http.StatusAccepted}, nil
}

func (s *server) ByReference(context.Context, struct{}, ByReferenceIdempotentRequest) (ByReferenceResponseObject, error) {
	s.runs++
	return ByReference204Response{}, nil
}

func (s *server) OtherHeader(context.Context, struct{}, OtherHeaderIdempotentRequest) (OtherHeaderResponseObject, error) {
	s.runs++
	return OtherHeader204Response{}, nil
}

func newHandler(s *server) http.Handler {
	return Handler(NewIdempotentHandler(s, memstore.New(), idempotency.Unscoped))
}

// Types of OpenAPI 3.1 are decoded and count in full, and answers of default and
// range responses are replayed with the status that the handler chose.
//
// Covers GEN-22.
func TestBehaviour(t *testing.T) {
	t.Parallel()
	order := func(body string) drive.Request {
		return drive.Request{Method: "POST", Path: "/", ContentType: "application/json", Body: body}
	}
	note := func(body string) drive.Request {
		return drive.Request{Method: "PUT", Path: "/orders/1", ContentType: "application/json", Body: body}
	}
	for name, op := range map[string]drive.Operation{
		"range": {
			Request: order(`{"kind":"order","amount":1,"note":null,"parts":[{"kind":"order","amount":2}]}`),
			Same:    []drive.Request{order(`{"kind": "order", "amount": 1, "note": null, "parts": [{"kind":"order","amount":2}]}`)},
			Other: []drive.Request{
				order(`{"kind":"order","amount":1,"parts":[{"kind":"order","amount":2}]}`),
				order(`{"kind":"order","amount":1,"note":"","parts":[{"kind":"order","amount":2}]}`),
				order(`{"kind":"other","amount":1,"note":null,"parts":[{"kind":"order","amount":2}]}`),
				order(`{"kind":"order","amount":1,"note":null,"parts":[{"kind":"order","amount":3}]}`),
			},
			Status: 202,
		},
		"default": {Request: order(`{"kind":"order","amount":100}`), Status: 402, Body: "{}\n"},
		"key declared at the path": {
			Request: note(`{"note":null}`),
			Other:   []drive.Request{note(`{"note":""}`), note(`{"note":"x"}`)},
			Status:  200, Body: "{\"amount\":0,\"kind\":\"order\"}\n", Declared: true,
		},
		"key declared by reference": {
			Request: drive.Request{Method: "POST", Path: "/refunds"},
			Status:  204, KeyHeader: "X-Request-ID", Declared: true,
		},
		"key in another header": {
			Request: drive.Request{Method: "PATCH", Path: "/refunds"},
			Status:  204, KeyHeader: "Repeatability-Request-Id", Optional: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := new(server)
			op.Runs = func() int { return s.runs }
			drive.Run(t, drive.Serve(t, newHandler(s)), op)
		})
	}
}

// A header of the answer may have the name of the key's: it is the handler's,
// and is replayed.
func TestAnswerHasTheKeysHeader(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(newHandler(new(server)))
	t.Cleanup(srv.Close)
	for range 2 {
		got := drive.Send(t, srv.URL, drive.Request{Method: "PUT", Path: "/orders/1", ContentType: "application/json", Body: `{"note":"x"}`}, "Idempotency-Key", "k")
		if h := got.Header.Values("Idempotency-Key"); got.Status != 200 || len(h) != 1 || h[0] != "k-taken" {
			t.Errorf("%d, Idempotency-Key: %q", got.Status, h)
		}
	}
}

// A request without a key that the document requires is refused by
// oapi-codegen's own code, as the generator's warning says.
func TestDeclaredAsRequired(t *testing.T) {
	t.Parallel()
	s := new(server)
	srv := httptest.NewServer(newHandler(s))
	t.Cleanup(srv.Close)
	cancel := drive.Request{Method: "DELETE", Path: "/orders/1"}
	drive.Refused(t, "missing key", drive.Send(t, srv.URL, cancel, "Idempotency-Key"), http.StatusBadRequest, "")
	drive.Refused(t, "empty key", drive.Send(t, srv.URL, cancel, "Idempotency-Key", ""), http.StatusBadRequest, "")
	for i := range 2 {
		got := drive.Send(t, srv.URL, cancel, "Idempotency-Key", "k")
		if replayed := got.Header.Get("Idempotent-Replayed") == "true"; got.Status != 202 || replayed != (i == 1) {
			t.Errorf("%d, replayed %t", got.Status, replayed)
		}
	}
	if s.runs != 1 {
		t.Errorf("the handler has run %d times", s.runs)
	}
}

// The operation on the root path is no other path's.
//
// Covers GEN-33.
func TestRootPath(t *testing.T) {
	t.Parallel()
	s := new(server)
	srv := httptest.NewServer(newHandler(s))
	t.Cleanup(srv.Close)
	got := drive.Send(t, srv.URL, drive.Request{Method: "POST", Path: "/elsewhere", ContentType: "application/json", Body: `{"kind":"order","amount":1}`}, "Idempotency-Key", "k")
	if got.Status != http.StatusNotFound || s.runs != 0 {
		t.Errorf("%d, and the handler has run %d times", got.Status, s.runs)
	}
}
