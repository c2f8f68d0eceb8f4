package api

import (
	"net"
	"net/http"
	"testing"

	"github.com/gofiber/fiber/v3"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
)

// serve mounts the receivers where a team could.
func serve(t *testing.T, s *shop) string {
	t.Helper()
	hooks := NewIdempotentWebhookReceiver(handlers{shop: s}, memstore.New(), idempotency.Unscoped)
	callbacks := NewIdempotentCallbackReceiver(callbackHandlers{shop: s}, memstore.New(), idempotency.Unscoped)
	app := fiber.New()
	app.Post("/hooks/payment", PaymentSettledWebhookHandler(hooks))
	app.Post("/hooks/ping", PingWebhookHandler(hooks))
	app.Post("/shipped", OrderShippedCallbackHandler(callbacks))

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- app.Listener(listener, fiber.ListenConfig{DisableStartupMessage: true}) }()
	t.Cleanup(func() {
		if err := app.Shutdown(); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return "http://" + listener.Addr().String()
}

// handlers write the answers of a shop.
type handlers struct {
	IdempotentWebhookReceiver[struct{}]
	shop *shop
}

func (h handlers) HandlePaymentSettledWebhook(c fiber.Ctx, _ struct{}, req PaymentSettledIdempotentRequest) error {
	status, body := h.shop.settle(req)
	return c.Status(status).SendString(body)
}

func (h handlers) HandlePingWebhook(c fiber.Ctx) error {
	h.shop.runs.Add(1)
	return c.SendStatus(http.StatusNoContent)
}

type callbackHandlers struct {
	IdempotentCallbackReceiver[struct{}]
	shop *shop
}

func (h callbackHandlers) HandleOrderShippedCallback(c fiber.Ctx, _ struct{}, _ OrderShippedIdempotentRequest) error {
	h.shop.runs.Add(1)
	return c.SendStatus(http.StatusNoContent)
}
