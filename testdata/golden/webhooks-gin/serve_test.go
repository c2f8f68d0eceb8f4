package api

import (
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
	"github.com/idemgen/idemgen/testdata/drive"
)

// serve mounts the receivers where a team could.
func serve(t *testing.T, s *shop) string {
	t.Helper()
	hooks := NewIdempotentWebhookReceiver(handlers{shop: s}, memstore.New(), idempotency.Unscoped)
	callbacks := NewIdempotentCallbackReceiver(callbackHandlers{shop: s}, memstore.New(), idempotency.Unscoped)
	engine := gin.New()
	engine.POST("/hooks/payment", PaymentSettledWebhookHandler(hooks))
	engine.POST("/hooks/ping", PingWebhookHandler(hooks))
	engine.POST("/shipped", OrderShippedCallbackHandler(callbacks))
	return drive.Serve(t, engine)
}

// handlers write the answers of a shop.
type handlers struct {
	IdempotentWebhookReceiver[struct{}]
	shop *shop
}

func (h handlers) HandlePaymentSettledWebhook(c *gin.Context, _ struct{}, req PaymentSettledIdempotentRequest) {
	status, body := h.shop.settle(req)
	c.Data(status, "application/json", []byte(body))
}

func (h handlers) HandlePingWebhook(c *gin.Context) {
	h.shop.runs.Add(1)
	c.Status(http.StatusNoContent)
}

type callbackHandlers struct {
	IdempotentCallbackReceiver[struct{}]
	shop *shop
}

func (h callbackHandlers) HandleOrderShippedCallback(c *gin.Context, _ struct{}, _ OrderShippedIdempotentRequest) {
	h.shop.runs.Add(1)
	c.Status(http.StatusNoContent)
}
