package api

import (
	"net/http"
	"testing"

	"github.com/kataras/iris/v12"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/testdata/drive"
)

func serve(t *testing.T, handler ServerInterface, callbacks CallbackReceiverInterface) string {
	t.Helper()
	app := iris.New()
	app.Logger().SetLevel("disable")
	app.Post("/provider", RepeatRefundCallbackHandler(callbacks))
	RegisterHandlers(app, handler)
	if err := app.Build(); err != nil {
		t.Fatal(err)
	}
	return drive.Serve(t, app)
}

// receiver writes the answers of refunds.
type receiver struct{ refunds *drive.Refunds }

var _ IdempotentCallbackReceiver[struct{}] = receiver{}

func (r receiver) HandleRepeatRefundCallback(c iris.Context, lease *idempotency.Lease, _ RepeatRefundIdempotentRequest) {
	key, token, err := r.refunds.Create(c.Request().Context(), lease)
	if err != nil {
		c.StopWithError(http.StatusInternalServerError, err)
		return
	}
	c.StatusCode(http.StatusCreated)
	_ = c.JSON(iris.Map{"provider_key": key, "token": token}) // the caller sees what it gets
}
