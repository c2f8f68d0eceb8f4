package good

import (
	"context"
	"testing"

	"shop/api"
	"shop/nethttp"
)

// Tests misuse keys on purpose.
func TestRefused(t *testing.T) {
	var client api.IdempotentClient
	client.CreatePayment(context.Background(), api.CreatePaymentIdempotentRequest{})
}

// A test serves what it likes.
func serveInTest() { nethttp.Handler(oldServer{}) }
