package api

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
	"github.com/idemgen/idemgen/testdata/drive"
)

// server counts what has run, and with what.
type server struct {
	IdempotentServer[struct{}]
	ran []string
}

func (s *server) Own(_ context.Context, _ struct{}, req OwnIdempotentRequest) (OwnResponseObject, error) {
	in := req.Input()
	s.ran = append(s.ran, strings.Join([]string{in.S, in.Tx, in.Edge, in.Idempotency, in.IdemW, in.OwnOperation, in.Answer}, " "))
	return Own204Response{}, nil
}

func (s *server) Keywords(_ context.Context, _ struct{}, req KeywordsIdempotentRequest) (KeywordsResponseObject, error) {
	in := req.Input()
	s.ran = append(s.ran, fmt.Sprintf("%s %s %d", in.Type, in.Func, in.Range))
	return Keywords204Response{}, nil
}

func (s *server) SendTransaction(_ context.Context, _ struct{}, req SendTransactionIdempotentRequest) (SendTransactionResponseObject, error) {
	s.ran = append(s.ran, req.Input().Tx)
	return SendTransaction204Response{}, nil
}

func (s *server) APIExport(context.Context, struct{}, APIExportIdempotentRequest) (APIExportResponseObject, error) {
	s.ran = append(s.ran, "APIExport")
	return APIExport204Response{}, nil
}

func (s *server) ApiExport(context.Context, struct{}, ApiExportIdempotentRequest) (ApiExportResponseObject, error) {
	s.ran = append(s.ran, "ApiExport")
	return ApiExport204Response{}, nil
}

func (s *server) Payment(context.Context, struct{}, ChargeIdempotentRequest) (PaymentResponseObject, error) {
	s.ran = append(s.ran, "payment")
	return Payment204Response{}, nil
}

func (s *server) NewPayment(context.Context, struct{}, NewPaymentIdempotentRequest) (NewPaymentResponseObject, error) {
	s.ran = append(s.ran, "newPayment")
	return NewPayment204Response{}, nil
}

func (s *server) OrderCreateV10(_ context.Context, _ struct{}, req OrderCreateV10IdempotentRequest) (OrderCreateV10ResponseObject, error) {
	return OrderCreateV10200JSONResponse(req.Input().Body), nil
}

func (s *server) Bar(_ context.Context, _ struct{}, req BarIdempotentRequest) (BarResponseObject, error) {
	in := req.Input()
	s.ran = append(s.ran, fmt.Sprintf("%s %s %s %s", in.Id, *in.Params.Id, *in.Params.Bar, *in.Body.IdempotencyKey))
	return Bar200JSONResponse{Body: "bar"}, nil
}

// Names that Go, oapi-codegen or idemgen have already do no harm, and no
// operation takes another's record.
//
// Covers GEN-03 and GEN-04.
func TestNames(t *testing.T) {
	t.Parallel()
	s := new(server)
	srv := httptest.NewServer(Handler(NewIdempotentHandler(s, memstore.New(), idempotency.Unscoped)))
	t.Cleanup(srv.Close)
	var want []string
	for _, call := range []struct{ method, path, ran string }{
		{"POST", "/own/s/tx/edge/runtime/w/var/answer", "s tx edge runtime w var answer"},
		{"POST", "/keywords/type/func/3", "type func 3"},
		{"POST", "/transactions/t", "t"},
		{"POST", "/exports", "APIExport"},
		{"PUT", "/exports", "ApiExport"},
		{"POST", "/payments", "payment"},
		{"PUT", "/payments", "newPayment"},
	} {
		for i := range 2 {
			got := drive.Send(t, srv.URL, drive.Request{Method: call.method, Path: call.path}, "Idempotency-Key", "one-key-for-all")
			if replayed := got.Header.Get("Idempotent-Replayed") == "true"; got.Status != 204 || replayed != (i == 1) {
				t.Errorf("%s %s: %d %s, replayed %t", call.method, call.path, got.Status, got.Body, replayed)
			}
		}
		want = append(want, call.ran)
	}
	if fmt.Sprintf("%q", s.ran) != fmt.Sprintf("%q", want) {
		t.Errorf("ran %q, want %q", s.ran, want)
	}
	if id := (OrderCreateV10Op{}).Operation().ID; id != "order-create_v1.0" {
		t.Errorf("the record's operation is %q", id)
	}
}

// One name in several sections of the document's components, or in several
// places of a request, stays several things. The key's header is the key,
// however the document declares and spells it, and a body's member of its name
// is none.
//
// Covers GEN-05, GEN-09 and GEN-11.
func TestOneNameInSeveralPlaces(t *testing.T) {
	t.Parallel()
	s := new(server)
	bar := func(path, body string) drive.Request {
		return drive.Request{Method: "POST", Path: path, ContentType: "application/json", Body: body}
	}
	drive.Run(t, drive.Serve(t, Handler(NewIdempotentHandler(s, memstore.New(), idempotency.Unscoped))), drive.Operation{
		Request: bar("/bars/1?id=2&bar=3", `{"idempotencyKey":"4"}`),
		Other: []drive.Request{
			bar("/bars/2?id=2&bar=3", `{"idempotencyKey":"4"}`),
			bar("/bars/1?id=1&bar=3", `{"idempotencyKey":"4"}`),
			bar("/bars/1?id=2&bar=4", `{"idempotencyKey":"4"}`),
			bar("/bars/1?id=2&bar=3", `{"idempotencyKey":"5"}`),
		},
		Status: 200, Body: "\"bar\"\n",
		Declared: true,
		Runs:     func() int { return len(s.ran) },
	})
	if got := strings.Join(s.ran, ", "); got != "1 2 3 4" {
		t.Errorf("ran %s", got)
	}
}
