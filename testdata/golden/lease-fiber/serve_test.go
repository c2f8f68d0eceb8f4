package api

import (
	"net/http"
	"testing"

	"github.com/gofiber/fiber/v2"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/testdata/drive"
)

func serve(t *testing.T, handler ServerInterface, callbacks CallbackReceiverInterface) string {
	t.Helper()
	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	RegisterHandlers(app, handler)
	app.Post("/provider", RepeatRefundCallbackHandler(callbacks))
	return drive.Listen(t, app.Listener, app.Shutdown)
}

// receiver writes the answers of refunds.
type receiver struct{ refunds *drive.Refunds }

var _ IdempotentCallbackReceiver[struct{}] = receiver{}

func (r receiver) HandleRepeatRefundCallback(c *fiber.Ctx, lease *idempotency.Lease, _ RepeatRefundIdempotentRequest) error {
	key, token, err := r.refunds.Create(c.UserContext(), lease)
	if err != nil {
		return err
	}
	return c.Status(http.StatusCreated).JSON(fiber.Map{"provider_key": key, "token": token})
}
