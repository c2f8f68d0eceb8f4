package api

import (
	"context"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/testdata/drive"
)

func serve(t *testing.T, s *service, store idempotency.LeaseStore[struct{}]) string {
	t.Helper()
	engine := gin.New()
	RegisterHandlers(engine, NewIdempotentHandler(handlers{s}, store, idempotency.Unscoped))
	return drive.Serve(t, engine)
}

// handlers give the answers of a service.
type handlers struct{ *service }

var _ IdempotentServer[struct{}] = handlers{}

func (h handlers) CreatePayment(context.Context, struct{}, CreatePaymentIdempotentRequest) (CreatePaymentResponseObject, error) {
	h.payments.Add(1)
	return CreatePayment201Response{}, nil
}

func (h handlers) CreateRefund(ctx context.Context, lease *idempotency.Lease, _ CreateRefundIdempotentRequest) (CreateRefundResponseObject, error) {
	key, token, err := h.createRefund(ctx, lease)
	if err != nil {
		return nil, err
	}
	return CreateRefund201JSONResponse{ProviderKey: key, Token: token}, nil
}

func (h handlers) CancelRefund(ctx context.Context, lease *idempotency.Lease, req CancelRefundIdempotentRequest) (CancelRefundResponseObject, error) {
	if err := h.cancelRefund(ctx, lease, req.Input(), req.IdempotencyKey); err != nil {
		return nil, err
	}
	return CancelRefund204Response{}, nil
}
