// Package nethttp has the shape of generated code for net/http, chi and gorilla.
package nethttp

import (
	"net/http"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

type ServerInterface interface {
	CreatePayment(w http.ResponseWriter, r *http.Request)
}

type Unimplemented struct{}

func (Unimplemented) CreatePayment(w http.ResponseWriter, r *http.Request) {}

type ServerInterfaceWrapper struct {
	Handler          ServerInterface
	ErrorHandlerFunc func(w http.ResponseWriter, r *http.Request, err error)
}

func (s *ServerInterfaceWrapper) CreatePayment(w http.ResponseWriter, r *http.Request) {}

type ServerOptions struct{ BaseURL string }

func Handler(si ServerInterface) http.Handler { return HandlerWithOptions(si, ServerOptions{}) }

func HandlerFromMux(si ServerInterface, m *http.ServeMux) http.Handler {
	return HandlerWithOptions(si, ServerOptions{})
}

func HandlerWithOptions(si ServerInterface, options ServerOptions) http.Handler {
	wrapper := ServerInterfaceWrapper{Handler: si}
	return http.HandlerFunc(wrapper.CreatePayment)
}

type IdempotentServer[Tx any] interface {
	CreatePayment(w http.ResponseWriter, r *http.Request, tx Tx)
}

func NewIdempotentHandler[Tx any](srv IdempotentServer[Tx], store idempotency.Store[Tx]) ServerInterface {
	return nil
}
