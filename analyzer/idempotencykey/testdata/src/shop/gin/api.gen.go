// Package gin has the shape of generated code for gin.
package gin

import (
	"github.com/gin-gonic/gin"
	"github.com/idemgen/idemgen/runtime/idempotency"
)

type ServerInterface interface{ CreatePayment(c *gin.Context) }

type IRouter interface{}

type GinServerOptions struct{ BaseURL string }

func RegisterHandlers(router IRouter, si ServerInterface) {}

func RegisterHandlersWithOptions(router IRouter, si ServerInterface, options GinServerOptions) {}

type IdempotentServer[Tx any] interface {
	CreatePayment(c *gin.Context, tx Tx)
}

func NewIdempotentHandler[Tx any](srv IdempotentServer[Tx], store idempotency.Store[Tx]) ServerInterface {
	return nil
}
