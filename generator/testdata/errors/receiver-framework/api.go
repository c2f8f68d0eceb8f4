package api

import (
	"net/http"

	"example.com/web"
)

type ServerInterface interface {
	// (POST /orders)
	PlaceOrder(w http.ResponseWriter, r *http.Request)
}

type WebhookReceiverInterface interface {
	// HandlePostWebhookPaymentSettledWebhook handles the POST webhook for payment.settled.
	HandlePostWebhookPaymentSettledWebhook(c *web.Context) error
}

type CallbackReceiverInterface interface {
	// HandleOrderShippedCallback handles the POST callback for shipped.
	HandleOrderShippedCallback(c *web.Context) error
}
