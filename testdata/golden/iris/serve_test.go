package api

import (
	"net/http"

	"github.com/kataras/iris/v12"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
)

// newHandler serves s behind middlewares that say who the caller is and answer
// panics.
func newHandler(s *server, opts ...idempotency.Option) http.Handler {
	app := iris.New()
	app.Logger().SetLevel("disable")
	app.UseRouter(func(c iris.Context) {
		defer func() {
			if recover() != nil {
				c.StopWithStatus(http.StatusInternalServerError)
			}
		}()
		if user := c.GetHeader("X-User"); user != "" {
			c.Values().Set("user", user)
		}
		c.Next()
	})
	RegisterHandlers(app, NewIdempotentHandler(s, memstore.New(), byUser, opts...))
	if err := app.Build(); err != nil {
		panic(err)
	}
	return app
}

// strictServers are ways to leave the strict server as it is.
func strictServers() map[string][]idempotency.Option {
	return map[string][]idempotency.Option{
		"none":  nil,
		"empty": {WithStrictServer()},
	}
}
