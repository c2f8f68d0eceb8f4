// Package hooks has the shape of generated code for receivers of webhooks and
// callbacks.
package hooks

import (
	"net/http"

	"shop/api"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

type WebhookReceiverInterface interface {
	HandlePaidWebhook(w http.ResponseWriter, r *http.Request)
	HandlePingWebhook(w http.ResponseWriter, r *http.Request)
}

type CallbackReceiverInterface interface {
	HandleShippedCallback(w http.ResponseWriter, r *http.Request)
}

func PaidWebhookHandler(si WebhookReceiverInterface, errHandler func(w http.ResponseWriter, r *http.Request, err error)) http.Handler {
	return nil
}

func PingWebhookHandler(si WebhookReceiverInterface, errHandler func(w http.ResponseWriter, r *http.Request, err error)) http.Handler {
	return nil
}

func ShippedCallbackHandler(si CallbackReceiverInterface, errHandler func(w http.ResponseWriter, r *http.Request, err error)) http.Handler {
	return nil
}

type IdempotentWebhookReceiver[Tx any] interface {
	HandlePaidWebhook(w http.ResponseWriter, r *http.Request, tx Tx, req api.CreatePaymentIdempotentRequest)
	HandlePingWebhook(w http.ResponseWriter, r *http.Request)
}

func NewIdempotentWebhookReceiver[Tx any](srv IdempotentWebhookReceiver[Tx], store idempotency.Store[Tx]) WebhookReceiverInterface {
	return nil
}

type IdempotentCallbackReceiver[Tx any] interface {
	HandleShippedCallback(w http.ResponseWriter, r *http.Request, tx Tx, req api.CreatePaymentIdempotentRequest)
}

func NewIdempotentCallbackReceiver[Tx any](srv IdempotentCallbackReceiver[Tx], store idempotency.Store[Tx]) CallbackReceiverInterface {
	return nil
}
