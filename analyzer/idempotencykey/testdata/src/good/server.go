package good

import (
	"context"
	"net/http"

	"shop/api"
	"shop/echo"
	"shop/gin"
	"shop/hooks"
	"shop/nethttp"
	"shop/strict"
	"shop/unmarked"

	gingonic "github.com/gin-gonic/gin"
	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/jackc/pgx/v5"
	labstack "github.com/labstack/echo/v4"
)

type oldServer struct{}

func (oldServer) CreatePayment(w http.ResponseWriter, r *http.Request) {}

func (oldServer) HandlePaidWebhook(w http.ResponseWriter, r *http.Request) {}

func (oldServer) HandlePingWebhook(w http.ResponseWriter, r *http.Request) {}

type protectedServer struct{}

func (protectedServer) CreatePayment(w http.ResponseWriter, r *http.Request, tx pgx.Tx) {}

type protectedEcho struct{}

func (protectedEcho) CreatePayment(c labstack.Context, tx pgx.Tx) error { return nil }

type protectedGin struct{}

func (protectedGin) CreatePayment(c *gingonic.Context, tx pgx.Tx) {}

type protectedStrict struct{}

func (protectedStrict) CreatePayment(ctx context.Context, tx pgx.Tx) error { return nil }

type receiver struct{}

func (receiver) HandlePaidWebhook(w http.ResponseWriter, r *http.Request, tx pgx.Tx, req api.CreatePaymentIdempotentRequest) {
}

func (receiver) HandlePingWebhook(w http.ResponseWriter, r *http.Request) {}

func (receiver) HandleShippedCallback(w http.ResponseWriter, r *http.Request, tx pgx.Tx, req api.CreatePaymentIdempotentRequest) {
}

// Servers that wrap what idemgen protects.

type embedding struct{ nethttp.ServerInterface }

type counting struct {
	next nethttp.ServerInterface
	n    int
}

func (c *counting) CreatePayment(w http.ResponseWriter, r *http.Request) {
	c.n++
	c.next.CreatePayment(w, r)
}

type base struct {
	*base
	payments interface {
		CreatePayment(w http.ResponseWriter, r *http.Request)
	}
}

type based struct{ base }

func (b based) CreatePayment(w http.ResponseWriter, r *http.Request) { b.payments.CreatePayment(w, r) }

func counted(next nethttp.ServerInterface) nethttp.ServerInterface { return &counting{next: next} }

func serveProtected(mux *http.ServeMux, store idempotency.Store[pgx.Tx]) {
	protected := nethttp.NewIdempotentHandler(protectedServer{}, store)
	nethttp.HandlerFromMux(protected, mux)
	nethttp.Handler(nethttp.NewIdempotentHandler[pgx.Tx](protectedServer{}, store))
	nethttp.Handler(embedding{protected})
	nethttp.Handler(&counting{next: protected})
	nethttp.Handler(based{base{payments: protected}})
	nethttp.Handler(counted(protected))
	wrapper := nethttp.ServerInterfaceWrapper{Handler: protected}
	mux.HandleFunc("POST /payments", wrapper.CreatePayment)

	echo.RegisterHandlers(nil, echo.NewIdempotentHandler(protectedEcho{}, store))
	gin.RegisterHandlers(nil, gin.NewIdempotentHandler(protectedGin{}, store))
	strict.HandlerFromMux(strict.NewIdempotentHandler(protectedStrict{}, store), mux)
	hooks.PaidWebhookHandler(hooks.NewIdempotentWebhookReceiver(receiver{}, store), nil)
	hooks.ShippedCallbackHandler(hooks.NewIdempotentCallbackReceiver(receiver{}, store), nil)
}

// What a variable, a parameter or a function holds is not known.
func serveEither(si nethttp.ServerInterface, store idempotency.Store[pgx.Tx], old bool) {
	nethttp.Handler(si)
	if si == nil {
		si = oldServer{}
	}
	nethttp.Handler(si)

	var either nethttp.ServerInterface = oldServer{}
	if !old {
		either = nethttp.NewIdempotentHandler(protectedServer{}, store)
	}
	nethttp.Handler(either)

	var filled nethttp.ServerInterface = oldServer{}
	fill(&filled)
	nethttp.Handler(filled)

	var unset nethttp.ServerInterface
	fill(&unset)
	nethttp.Handler(unset)

	for _, each := range []nethttp.ServerInterface{si, either} {
		nethttp.Handler(each)
	}

	made, err := makeServer()
	if err == nil {
		nethttp.Handler(made)
	}
	nethttp.Handler(nil)
}

func HandlerOf(si nethttp.ServerInterface) nethttp.ServerInterface { return counted(si) }

func fill(si *nethttp.ServerInterface) {}

func makeServer() (nethttp.ServerInterface, error) { return nil, nil }

func serveAny[S nethttp.ServerInterface](s S) { nethttp.Handler(s) }

// A server of nothing, a spec without marked operations, an event that is not
// marked, and functions that serve nothing.
func serveElse() {
	nethttp.Handler(nethttp.Unimplemented{})
	unmarked.Handler(oldServer{})
	unmarked.PaidWebhookHandler(oldServer{})
	hooks.PingWebhookHandler(oldServer{}, nil)
	HandlerOf(oldServer{})
	nethttp.Adapt[pgx.Tx](oldServer{})
	//idemgen:allow unprotected-server these routes are read only
	nethttp.Handler(oldServer{})
}
