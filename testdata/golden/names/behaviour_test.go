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

// Names that Go, oapi-codegen or idemgen have already do no harm, and no
// operation takes another's record.
//
// Covers GEN-03, GEN-04 and GEN-05.
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
			got := drive.Send(t, srv, drive.Request{Method: call.method, Path: call.path}, "Idempotency-Key", "one-key-for-all")
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
