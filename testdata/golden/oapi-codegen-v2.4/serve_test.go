package api

import (
	"context"
	"net/http"
	"testing"

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
	next := Handler(NewIdempotentHandler(s, memstore.New(), drive.ByUser, opts...))
	return drive.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if recover() != nil {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}()
		if user := r.Header.Get("X-User"); user != "" {
			r = r.WithContext(context.WithValue(r.Context(), drive.UserKey, user))
		}
		next.ServeHTTP(w, r)
	}))
}

// strictServers are ways to leave the strict server as it is: error handlers
// that are nil have oapi-codegen's defaults.
func strictServers() map[string][]idempotency.Option {
	return map[string][]idempotency.Option{
		"none":  nil,
		"empty": {WithStrictServer(StrictHTTPServerOptions{})},
	}
}
