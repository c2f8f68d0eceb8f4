package api

import (
	"net/http"
	"testing"

	"github.com/labstack/echo/v5"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
	"github.com/idemgen/idemgen/testdata/drive"
)

// serve mounts the receivers where a team could.
func serve(t *testing.T, s *shop) string {
	t.Helper()
	hooks := NewIdempotentWebhookReceiver(handlers{shop: s}, memstore.New(), idempotency.Unscoped)
	callbacks := NewIdempotentCallbackReceiver(callbackHandlers{shop: s}, memstore.New(), idempotency.Unscoped)
	e := echo.New()
	e.POST("/hooks/payment", PaymentSettledWebhookHandler(hooks))
	e.POST("/hooks/ping", PingWebhookHandler(hooks))
	e.POST("/shipped", OrderShippedCallbackHandler(callbacks))
	return drive.Serve(t, e)
}

// handlers write the answers of a shop.
type handlers struct {
	IdempotentWebhookReceiver[struct{}]
	shop *shop
}

func (h handlers) HandlePaymentSettledWebhook(c *echo.Context, _ struct{}, req PaymentSettledIdempotentRequest) error {
	status, body := h.shop.settle(req)
	return c.JSONBlob(status, []byte(body))
}

func (h handlers) HandlePingWebhook(c *echo.Context) error {
	h.shop.runs.Add(1)
	return c.NoContent(http.StatusNoContent)
}

type callbackHandlers struct {
	IdempotentCallbackReceiver[struct{}]
	shop *shop
}

func (h callbackHandlers) HandleOrderShippedCallback(c *echo.Context, _ struct{}, _ OrderShippedIdempotentRequest) error {
	h.shop.runs.Add(1)
	return c.NoContent(http.StatusNoContent)
}
