package good

import (
	"context"
	"testing"

	"shop/api"
)

// Tests misuse keys on purpose.
func TestRefused(t *testing.T) {
	var client api.IdempotentClient
	client.CreatePayment(context.Background(), api.CreatePaymentIdempotentRequest{})
}
