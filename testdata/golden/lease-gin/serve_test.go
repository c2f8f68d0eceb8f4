package api

import (
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/testdata/drive"
)

func serve(t *testing.T, handler ServerInterface, callbacks CallbackReceiverInterface) string {
	t.Helper()
	engine := gin.New()
	RegisterHandlers(engine, handler)
	engine.POST("/provider", RepeatRefundCallbackHandler(callbacks))
	return drive.Serve(t, engine)
}

// receiver writes the answers of refunds.
type receiver struct{ refunds *drive.Refunds }

var _ IdempotentCallbackReceiver[struct{}] = receiver{}

func (r receiver) HandleRepeatRefundCallback(c *gin.Context, lease *idempotency.Lease, _ RepeatRefundIdempotentRequest) {
	key, token, err := r.refunds.Create(c.Request.Context(), lease)
	if err != nil {
		c.String(http.StatusInternalServerError, err.Error())
		return
	}
	c.JSON(http.StatusCreated, gin.H{"provider_key": key, "token": token})
}
