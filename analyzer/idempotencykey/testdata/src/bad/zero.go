// Package bad holds mistakes, each with the finding that names it.
package bad

import (
	"context"

	"shop/api"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

func zeroRequest(ctx context.Context, client api.IdempotentClient) {
	client.CreatePayment(ctx, api.CreatePaymentIdempotentRequest{}) // want `CreatePayment gets the zero request, which has no key and no input`
}

func zeroKeyLiteral(in api.CreatePaymentInput) api.CreatePaymentIdempotentRequest {
	return api.NewCreatePaymentIdempotentRequest(api.CreatePaymentIdempotencyKey{}, in) // want `NewCreatePaymentIdempotentRequest gets the zero key`
}

func zeroKeyOfTheRuntime(in api.CreatePaymentInput) api.CreatePaymentIdempotentRequest {
	return api.NewCreatePaymentIdempotentRequest(idempotency.Key[api.CreatePaymentOp]{}, in) // want `gets the zero key`
}

func zeroKeyByNew(in api.CreatePaymentInput) api.CreatePaymentIdempotentRequest {
	return api.NewCreatePaymentIdempotentRequest(*new(api.CreatePaymentIdempotencyKey), in) // want `gets the zero key`
}

func neverSet(ctx context.Context, client api.IdempotentClient, in api.CreatePaymentInput) {
	var key api.CreatePaymentIdempotencyKey
	client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(key, in)) // want `gets key, which is never set and so the zero key`
}

func neverSetRequest(ctx context.Context, client api.IdempotentClient) {
	req := api.CreatePaymentIdempotentRequest{}
	client.CreatePayment(ctx, req) // want `CreatePayment gets req, which is never set`
}

func neverSetInClosure(ctx context.Context, client api.IdempotentClient) func() {
	var req api.CreatePaymentIdempotentRequest
	return func() {
		client.CreatePayment(ctx, req) // want `CreatePayment gets req, which is never set`
	}
}

func cleared(req api.CreatePaymentIdempotentRequest) api.CreatePaymentIdempotentRequest {
	req.IdempotencyKey = api.CreatePaymentIdempotencyKey{} // want `req.IdempotencyKey gets the zero key`
	return req
}

func withoutInput(ctx context.Context, client api.IdempotentClient, key api.CreatePaymentIdempotencyKey) {
	client.CreatePayment(ctx, api.CreatePaymentIdempotentRequest{IdempotencyKey: key}) // want `this request has no input: make it with NewCreatePaymentIdempotentRequest`
}
