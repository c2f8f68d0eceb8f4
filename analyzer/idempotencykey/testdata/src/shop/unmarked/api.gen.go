// Package unmarked has the shape of generated code without protected operations.
package unmarked

import (
	"net/http"
	"time"
)

type ServerInterface interface {
	CreatePayment(w http.ResponseWriter, r *http.Request)
}

func Handler(si ServerInterface) http.Handler { return nil }

type WebhookReceiverInterface interface {
	HandlePaidWebhook(w http.ResponseWriter, r *http.Request)
}

func PaidWebhookHandler(si WebhookReceiverInterface) http.Handler { return nil }

// NewIdempotentHandler is another tool's.
func NewIdempotentHandler(si ServerInterface, wait time.Duration) ServerInterface { return si }

// NewIdempotentWebhookReceiver is another tool's, too.
func NewIdempotentWebhookReceiver() WebhookReceiverInterface { return nil }
