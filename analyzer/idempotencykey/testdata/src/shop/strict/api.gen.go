// Package strict has the shape of generated code for a strict server.
package strict

import (
	"context"
	"net/http"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

type ServerInterface interface {
	CreatePayment(w http.ResponseWriter, r *http.Request)
}

type StrictServerInterface interface {
	CreatePayment(ctx context.Context) error
}

type StrictMiddlewareFunc func()

type StrictHTTPServerOptions struct{}

type strictHandler struct{ ssi StrictServerInterface }

func (sh *strictHandler) CreatePayment(w http.ResponseWriter, r *http.Request) {}

func NewStrictHandler(ssi StrictServerInterface, middlewares []StrictMiddlewareFunc) ServerInterface {
	return &strictHandler{ssi: ssi}
}

func NewStrictHandlerWithOptions(ssi StrictServerInterface, middlewares []StrictMiddlewareFunc, options StrictHTTPServerOptions) ServerInterface {
	return &strictHandler{ssi: ssi}
}

func HandlerFromMux(si ServerInterface, m *http.ServeMux) http.Handler { return nil }

type IdempotentServer[Tx any] interface {
	CreatePayment(ctx context.Context, tx Tx) error
}

func NewIdempotentHandler[Tx any](srv IdempotentServer[Tx], store idempotency.Store[Tx]) ServerInterface {
	return nil
}
