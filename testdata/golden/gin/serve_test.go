package api

import (
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"

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
	return drive.Serve(t, newEngine(NewIdempotentHandler(s, memstore.New(), drive.ByUser, opts...)))
}

func newEngine(s ServerInterface) *gin.Engine {
	engine := gin.New()
	engine.Use(func(c *gin.Context) {
		defer func() {
			if recover() != nil {
				c.AbortWithStatus(http.StatusInternalServerError)
			}
		}()
		if user := c.GetHeader("X-User"); user != "" {
			c.Set("user", user)
		}
		c.Next()
	})
	RegisterHandlers(engine, s)
	return engine
}

// strictServers are ways to leave the strict server as it is: error handlers
// that are nil have oapi-codegen's defaults.
func strictServers() map[string][]idempotency.Option {
	return map[string][]idempotency.Option{
		"none":  nil,
		"empty": {WithStrictServer(StrictGinServerOptions{})},
	}
}

// Gin's context can look into the request's, which looks into gin's.
func TestContextWithFallback(t *testing.T) {
	t.Parallel()
	drive.Behaviour(t, drive.Target{
		Serve: func(t *testing.T, bank *drive.Bank, opts ...idempotency.Option) string {
			t.Helper()
			engine := newEngine(NewIdempotentHandler(&server{Bank: bank}, memstore.New(), drive.ByUser, opts...))
			engine.ContextWithFallback = true
			return drive.Serve(t, engine)
		},
		Cancels: cancels,
	})
}
