package api

import (
	"net/http"
	"testing"

	"github.com/kataras/iris/v12"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
	"github.com/idemgen/idemgen/testdata/drive"
)

// cancels: net/http ends the context of a request whose caller has gone.
const cancels = true

// serve serves s behind a middleware that says who the caller is and answers
// panics.
func serve(t *testing.T, s *server, opts ...idempotency.Option) string {
	t.Helper()
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
	RegisterHandlers(app, NewIdempotentHandler(s, memstore.New(), drive.ByUser, opts...))
	if err := app.Build(); err != nil {
		t.Fatal(err)
	}
	return drive.Serve(t, app)
}

// strictServers are ways to leave the strict server as it is.
func strictServers() map[string][]idempotency.Option {
	return map[string][]idempotency.Option{
		"none":  nil,
		"empty": {WithStrictServer()},
	}
}
