// Package echo has the shape of generated code for echo.
package echo

import (
	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/labstack/echo/v4"
)

type ServerInterface interface{ CreatePayment(c echo.Context) error }

type EchoRouter interface{}

func RegisterHandlers(router EchoRouter, si ServerInterface) {}

func RegisterHandlersWithBaseURL(router EchoRouter, si ServerInterface, baseURL string) {}

type IdempotentServer[Tx any] interface {
	CreatePayment(c echo.Context, tx Tx) error
}

func NewIdempotentHandler[Tx any](srv IdempotentServer[Tx], store idempotency.Store[Tx]) ServerInterface {
	return nil
}
