package api

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
	"github.com/idemgen/idemgen/testdata/drive"
	"github.com/idemgen/idemgen/testdata/golden/references/common"
)

type server struct {
	IdempotentServer[struct{}]
	ran []string
}

func (s *server) Transfer(_ context.Context, _ struct{}, req TransferIdempotentRequest) (TransferResponseObject, error) {
	in := req.Input()
	s.ran = append(s.ran, fmt.Sprintf("%s pays %d", in.Params.XTenant, in.Body.Amount))
	return Transfer200JSONResponse(common.Transfer{Amount: 1, Before: &in.Body}), nil
}

func (s *server) Refund(_ context.Context, _ struct{}, req RefundIdempotentRequest) (RefundResponseObject, error) {
	in := req.Input()
	s.ran = append(s.ran, fmt.Sprintf("%s gets %d", in.Id, in.Body.Amount))
	return Refund200JSONResponse(in.Body), nil
}

func (s *server) Reverse(_ context.Context, _ struct{}, req ReverseIdempotentRequest) (ReverseResponseObject, error) {
	s.ran = append(s.ran, fmt.Sprintf("reverse %d", req.Input().Body.Amount))
	return Reverse204Response{}, nil
}

// Operations, parameters and types come from whatever file and package they are
// in, and markers count in every file.
//
// Covers GEN-11 and GEN-20.
func TestReferences(t *testing.T) {
	t.Parallel()
	request := func(path, body string) drive.Request {
		return drive.Request{Method: "POST", Path: path, ContentType: "application/json", Body: body, Header: http.Header{"X-Tenant": {"t"}}}
	}
	other := request("/transfers", `{"amount":7}`)
	other.Header = http.Header{"X-Tenant": {"u"}}
	for name, test := range map[string]struct {
		op  drive.Operation
		ran string
	}{
		"transfer": {drive.Operation{
			Request: request("/transfers", `{"amount":7}`),
			Other:   []drive.Request{request("/transfers", `{"amount":8}`), request("/transfers", `{"amount":7,"before":{"amount":7}}`), other},
			Status:  200, Body: `{"amount":1,"before":{"amount":7}}` + "\n", Declared: true,
		}, "[t pays 7]"},
		"refund": {drive.Operation{
			Request: request("/refunds/r", `{"amount":7}`),
			Other:   []drive.Request{request("/refunds/q", `{"amount":7}`), request("/refunds/r", `{"amount":8}`)},
			Status:  200, Body: `{"amount":7}` + "\n",
		}, "[r gets 7]"},
		"reverse": {drive.Operation{
			Request: request("/reversals", `{"amount":7}`),
			Other:   []drive.Request{request("/reversals", `{"amount":8}`)},
			Status:  204,
		}, "[reverse 7]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := new(server)
			test.op.Runs = func() int { return len(s.ran) }
			drive.Run(t, drive.Serve(t, Handler(NewIdempotentHandler(s, memstore.New(), idempotency.Unscoped))), test.op)
			if got := fmt.Sprint(s.ran); got != test.ran {
				t.Errorf("ran %s, want %s", got, test.ran)
			}
		})
	}
	if o := (TransferOp{}).Operation(); o.Key.MaxLength != 64 || o.Retention != 36*time.Hour {
		t.Errorf("transfer: %+v", o)
	}
	if o := (RefundOp{}).Operation(); o.Retention != 48*time.Hour {
		t.Errorf("refund: %+v", o)
	}
}
