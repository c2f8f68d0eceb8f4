package bad

import (
	"context"
	"net/http"

	"shop/echo"
	"shop/gin"
	"shop/hooks"
	"shop/nethttp"
	"shop/strict"

	gingonic "github.com/gin-gonic/gin"
	labstack "github.com/labstack/echo/v4"
)

// Servers that were there before their operations were marked.

type oldServer struct{ name string }

func (*oldServer) CreatePayment(w http.ResponseWriter, r *http.Request) {}

func (*oldServer) HandlePaidWebhook(w http.ResponseWriter, r *http.Request) {}

func (*oldServer) HandlePingWebhook(w http.ResponseWriter, r *http.Request) {}

func (*oldServer) HandleShippedCallback(w http.ResponseWriter, r *http.Request) {}

type oldEcho struct{}

func (oldEcho) CreatePayment(c labstack.Context) error { return nil }

type oldGin struct{}

func (oldGin) CreatePayment(c *gingonic.Context) {}

type oldStrict struct{}

func (oldStrict) CreatePayment(ctx context.Context) error { return nil }

type partly struct {
	nethttp.Unimplemented
	*oldServer
}

func (partly) CreatePayment(w http.ResponseWriter, r *http.Request) {}

func serveOld(mux *http.ServeMux, db string) {
	nethttp.HandlerFromMux(&oldServer{db}, mux) // want `HandlerFromMux gets &oldServer{…}, whose handlers run unprotected: serve what nethttp.NewIdempotentHandler returns \(unprotected-server\)`
	nethttp.Handler(partly{})                   // want `Handler gets partly{}, whose handlers run unprotected`

	srv := &oldServer{db}
	nethttp.HandlerWithOptions(srv, nethttp.ServerOptions{BaseURL: "/v1"}) // want `HandlerWithOptions gets srv, whose handlers run unprotected`

	var si nethttp.ServerInterface = srv
	nethttp.Handler(si)                           // want `Handler gets si, whose handlers run unprotected`
	nethttp.Handler(nethttp.ServerInterface(srv)) // want `Handler gets nethttp.ServerInterface\(srv\), whose handlers run unprotected`
	converted := nethttp.ServerInterface(srv)
	nethttp.Handler(converted) // want `Handler gets converted, whose handlers run unprotected`

	wrapper := nethttp.ServerInterfaceWrapper{Handler: srv} // want `ServerInterfaceWrapper gets srv, whose handlers run unprotected`
	mux.HandleFunc("POST /payments", wrapper.CreatePayment)
}

func serveOldFrameworks(router any) {
	echo.RegisterHandlers(router, oldEcho{})                                  // want `RegisterHandlers gets oldEcho{}, whose handlers run unprotected: serve what echo.NewIdempotentHandler returns`
	echo.RegisterHandlersWithBaseURL(router, oldEcho{}, "/v1")                // want `RegisterHandlersWithBaseURL gets oldEcho{}`
	gin.RegisterHandlers(router, oldGin{})                                    // want `RegisterHandlers gets oldGin{}, whose handlers run unprotected: serve what gin.NewIdempotentHandler returns`
	gin.RegisterHandlersWithOptions(router, oldGin{}, gin.GinServerOptions{}) // want `RegisterHandlersWithOptions gets oldGin{}`
}

// logged wraps a strict server, which is never a protected one.
type logged struct{ strict.StrictServerInterface }

func serveOldStrict(mux *http.ServeMux) {
	strict.HandlerFromMux(strict.NewStrictHandler(oldStrict{}, nil), mux)                          // want `NewStrictHandler gets oldStrict{}, whose handlers run unprotected: serve what strict.NewIdempotentHandler returns`
	strict.NewStrictHandlerWithOptions(logged{oldStrict{}}, nil, strict.StrictHTTPServerOptions{}) // want `NewStrictHandlerWithOptions gets logged{…}`
}

var paid = hooks.PaidWebhookHandler(&oldServer{}, nil) // want `PaidWebhookHandler gets &oldServer{}, whose handlers run unprotected: serve what hooks.NewIdempotentWebhookReceiver returns`

var shipped = hooks.ShippedCallbackHandler(&oldServer{}, nil) // want `ShippedCallbackHandler gets &oldServer{}, whose handlers run unprotected: serve what hooks.NewIdempotentCallbackReceiver returns`
