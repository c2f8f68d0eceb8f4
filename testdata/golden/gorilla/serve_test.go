package api

import (
	"context"
	"net/http"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
)

// newHandler serves s behind middlewares that say who the caller is and answer
// panics.
func newHandler(s *server, opts ...idempotency.Option) http.Handler {
	next := Handler(NewIdempotentHandler(s, memstore.New(), byUser, opts...))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if recover() != nil {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}()
		if user := r.Header.Get("X-User"); user != "" {
			r = r.WithContext(context.WithValue(r.Context(), userKey, user))
		}
		next.ServeHTTP(w, r)
	})
}

// strictServers are ways to leave the strict server as it is: error handlers
// that are nil have oapi-codegen's defaults.
func strictServers() map[string][]idempotency.Option {
	return map[string][]idempotency.Option{
		"none":  nil,
		"empty": {WithStrictServer(StrictHTTPServerOptions{})},
	}
}
