package api

import (
	"net/http"

	"github.com/labstack/echo/v5"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
)

// newHandler serves s behind middlewares that say who the caller is and answer
// panics.
func newHandler(s *server, opts ...idempotency.Option) http.Handler {
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
	RegisterHandlers(e, NewIdempotentHandler(s, memstore.New(), byUser, opts...))
	return e
}

// strictServers are ways to leave the strict server as it is.
func strictServers() map[string][]idempotency.Option {
	return map[string][]idempotency.Option{
		"none":  nil,
		"empty": {WithStrictServer()},
	}
}
