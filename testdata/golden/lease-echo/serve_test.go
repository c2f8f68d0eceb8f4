package api

import (
	"net/http"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/testdata/drive"
)

func serve(t *testing.T, handler ServerInterface, callbacks CallbackReceiverInterface) string {
	t.Helper()
	e := echo.New()
	RegisterHandlers(e, handler)
	e.POST("/provider", RepeatRefundCallbackHandler(callbacks))
	return drive.Serve(t, e)
}

// receiver writes the answers of refunds.
type receiver struct{ refunds *drive.Refunds }

var _ IdempotentCallbackReceiver[struct{}] = receiver{}

func (r receiver) HandleRepeatRefundCallback(c echo.Context, lease *idempotency.Lease, _ RepeatRefundIdempotentRequest) error {
	key, token, err := r.refunds.Create(c.Request().Context(), lease)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusCreated, echo.Map{"provider_key": key, "token": token})
}
