package api

import (
	"net/http"
	"testing"

	"github.com/kataras/iris/v12"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
	"github.com/idemgen/idemgen/testdata/drive"
)

// serve mounts the receivers where a team could.
func serve(t *testing.T, s *shop) string {
	t.Helper()
	hooks := NewIdempotentWebhookReceiver(handlers{shop: s}, memstore.New(), idempotency.Unscoped)
	callbacks := NewIdempotentCallbackReceiver(callbackHandlers{shop: s}, memstore.New(), idempotency.Unscoped)
	app := iris.New()
	app.Logger().SetLevel("disable")
	app.Post("/hooks/payment", PaymentSettledWebhookHandler(hooks))
	app.Post("/hooks/ping", PingWebhookHandler(hooks))
	app.Post("/shipped", OrderShippedCallbackHandler(callbacks))
	if err := app.Build(); err != nil {
		t.Fatal(err)
	}
	return drive.Serve(t, app)
}

// handlers write the answers of a shop.
type handlers struct {
	IdempotentWebhookReceiver[struct{}]
	shop *shop
}

func (h handlers) HandlePaymentSettledWebhook(c iris.Context, _ struct{}, req PaymentSettledIdempotentRequest) {
	status, body := h.shop.settle(req)
	c.StatusCode(status)
	_, _ = c.WriteString(body)
}

func (h handlers) HandlePingWebhook(c iris.Context) {
	h.shop.runs.Add(1)
	c.StatusCode(http.StatusNoContent)
}

type callbackHandlers struct {
	IdempotentCallbackReceiver[struct{}]
	shop *shop
}

func (h callbackHandlers) HandleOrderShippedCallback(c iris.Context, _ struct{}, _ OrderShippedIdempotentRequest) {
	h.shop.runs.Add(1)
	c.StatusCode(http.StatusNoContent)
}
