package api

import (
	"context"
	"testing"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/testdata/drive"
)

// This file is the same for every strict server of the document; the file beside
// it says how it is served.

func TestLeases(t *testing.T) {
	t.Parallel()
	drive.Leased{
		Serve: func(t *testing.T, refunds *drive.Refunds, store idempotency.LeaseStore[struct{}]) string {
			t.Helper()
			return serve(t,
				NewIdempotentHandler(handlers{refunds}, store, idempotency.Unscoped),
				NewIdempotentCallbackReceiver(receiver{refunds}, store, idempotency.Unscoped))
		},
		CreatePayment: CreatePaymentOp{}.Operation(),
		CreateRefund:  CreateRefundOp{}.Operation(),
		CancelRefund:  CancelRefundOp{}.Operation(),
	}.Behave(t)
}

// handlers give the answers of refunds.
type handlers struct{ refunds *drive.Refunds }

var _ IdempotentServer[struct{}] = handlers{}

func (h handlers) CreatePayment(context.Context, struct{}, CreatePaymentIdempotentRequest) (CreatePaymentResponseObject, error) {
	h.refunds.Pay()
	return CreatePayment201Response{}, nil
}

func (h handlers) CreateRefund(ctx context.Context, lease *idempotency.Lease, _ CreateRefundIdempotentRequest) (CreateRefundResponseObject, error) {
	key, token, err := h.refunds.Create(ctx, lease)
	if err != nil {
		return nil, err
	}
	return CreateRefund201JSONResponse{ProviderKey: key, Token: token}, nil
}

func (h handlers) CancelRefund(ctx context.Context, lease *idempotency.Lease, req CancelRefundIdempotentRequest) (CancelRefundResponseObject, error) {
	if err := h.refunds.Cancel(ctx, lease, req.Input().Lease, req.IdempotencyKey.IsZero()); err != nil {
		return nil, err
	}
	return CancelRefund204Response{}, nil
}
