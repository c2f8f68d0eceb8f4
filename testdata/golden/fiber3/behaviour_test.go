package api

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/testdata/drive"
)

// server has a few of the operations. This file is the same for every strict
// server and the older versions of oapi-codegen; the std-http case tests all
// operations beside.
type server struct {
	IdempotentServer[struct{}]
	*drive.Bank
}

func (s *server) CreatePayment(ctx context.Context, _ struct{}, req CreatePaymentIdempotentRequest) (CreatePaymentResponseObject, error) {
	in := req.Input()
	location, err := s.Pay(ctx, in.Body.To, in.Body.Amount)
	if err != nil {
		return nil, err
	}
	return CreatePayment201JSONResponse{
		Body:    Payment{To: in.AccountId + in.Body.To, Amount: in.Body.Amount},
		Headers: CreatePayment201ResponseHeaders{Location: location},
	}, nil
}

func (s *server) CancelPayment(context.Context, struct{}, CancelPaymentIdempotentRequest) (CancelPaymentResponseObject, error) {
	s.Ran()
	return CancelPayment204Response{}, nil
}

func (s *server) PutDocument(_ context.Context, _ struct{}, req PutDocumentIdempotentRequest) (PutDocumentResponseObject, error) {
	s.Ran()
	b, err := io.ReadAll(req.Input().Body)
	body := req.Input().Name + string(b)
	return PutDocument200ApplicationoctetStreamResponse{Body: strings.NewReader(body), ContentLength: int64(len(body))}, err
}

// Every target promises a client the same.
func TestBehaviour(t *testing.T) {
	t.Parallel()
	for name, strict := range strictServers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drive.Behaviour(t, drive.Target{
				Serve: func(t *testing.T, bank *drive.Bank, opts ...idempotency.Option) string {
					t.Helper()
					return serve(t, &server{Bank: bank}, append(opts, strict...)...)
				},
				Cancels: cancels,
			})
		})
	}
}
