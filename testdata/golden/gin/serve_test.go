package api

import (
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
	"github.com/idemgen/idemgen/testdata/drive"
)

// newHandler serves s behind middlewares that say who the caller is and answer
// panics.
func newHandler(s *server, opts ...idempotency.Option) http.Handler {
	return newEngine(NewIdempotentHandler(s, memstore.New(), byUser, opts...))
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
	s := new(server)
	engine := newEngine(NewIdempotentHandler(s, memstore.New(), byUser))
	engine.ContextWithFallback = true
	drive.Run(t, engine, drive.Operation{
		Request: payment(`{"to":"b","amount":1}`), Status: 201,
		Runs: func() int { return int(s.runs.Load()) },
	})
}
