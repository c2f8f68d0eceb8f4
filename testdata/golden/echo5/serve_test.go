package api

import (
	"testing"

	"github.com/labstack/echo/v5"

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
	e := echo.New()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) (err error) {
			defer func() {
				if recover() != nil {
					err = echo.ErrInternalServerError
				}
			}()
			if user := c.Request().Header.Get("X-User"); user != "" {
				c.Set("user", user)
			}
			return next(c)
		}
	})
	RegisterHandlers(e, NewIdempotentHandler(s, memstore.New(), drive.ByUser, opts...))
	return drive.Serve(t, e)
}

// strictServers are ways to leave the strict server as it is.
func strictServers() map[string][]idempotency.Option {
	return map[string][]idempotency.Option{
		"none":  nil,
		"empty": {WithStrictServer()},
	}
}
