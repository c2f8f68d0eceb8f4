// Package fix holds mistakes with a suggested fix, and some without.
package fix

import (
	"context"

	"shop/api"
	"shop/retry"
)

func defined(ctx context.Context, client api.IdempotentClient, in api.CreatePaymentInput) (err error) {
	for range 3 {
		key := api.NewCreatePaymentIdempotencyKey() // want `each attempt`
		_, err = client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(key, in))
		if err == nil {
			return nil
		}
	}
	return err
}

func inlined(ctx context.Context, client api.IdempotentClient, in api.CreatePaymentInput) (err error) {
	if in.Amount > 0 {
	attempts:
		for range 3 {
			_, err = client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(api.NewCreatePaymentIdempotencyKey(), in)) // want `each attempt`
			if err == nil {
				break attempts
			}
		}
	}
	return err
}

func repeated(ctx context.Context, client api.IdempotentClient, in api.CreatePaymentInput) error {
	if err := retry.Do(ctx, func(ctx context.Context) error {
		id := api.NewCreatePaymentIdempotencyKey() // want `each attempt`
		_, err := client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(id, in))
		return err
	}); err != nil {
		return err
	}
	return nil
}

// The name is taken: there is a finding, but no fix.
func taken(ctx context.Context, client api.IdempotentClient, key string, in api.CreatePaymentInput) (err error) {
	for range 3 {
		_, err = client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(api.NewCreatePaymentIdempotencyKey(), in)) // want `each attempt`
		if err == nil {
			return nil
		}
	}
	return err
}

// The key is set again in the loop, so it does not move.
func setAgain(ctx context.Context, client api.IdempotentClient, in api.CreatePaymentInput) (err error) {
	for range 3 {
		key := api.NewCreatePaymentIdempotencyKey() // want `each attempt`
		if in.Amount == 0 {
			key, err = api.ParseCreatePaymentIdempotencyKey("free")
		}
		_, err = client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(key, in))
		if err == nil {
			return nil
		}
	}
	return err
}
