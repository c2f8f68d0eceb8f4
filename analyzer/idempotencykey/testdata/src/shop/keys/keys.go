// Package keys makes keys.
package keys

import (
	"errors"

	"shop/api"
)

// Payment returns a new key.
func Payment() api.CreatePaymentIdempotencyKey { // want Payment:"fresh"
	key := api.NewCreatePaymentIdempotencyKey()
	return key
}

// Request returns a request under a new key.
func Request(in api.CreatePaymentInput) (api.CreatePaymentIdempotentRequest, error) { // want Request:"fresh"
	if in.Amount <= 0 {
		return api.CreatePaymentIdempotentRequest{}, errors.New("no amount")
	}
	return api.NewCreatePaymentIdempotentRequest(Payment(), in), nil
}

// Of returns the key of an order, or a new one where it has none.
func Of(order string) api.CreatePaymentIdempotencyKey {
	key, err := api.ParseCreatePaymentIdempotencyKey(order)
	if err != nil {
		return Payment()
	}
	return key
}
