package main

import (
	"database/sql"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rs/cors"

	"github.com/idemgen/idemgen/examples/internal/e2e"
	"github.com/idemgen/idemgen/examples/payments/api"
	"github.com/idemgen/idemgen/runtime/idempotency"
)

// newTestService returns the service and its store on a fresh file.
func newTestService(t *testing.T) (service, idempotency.Store[*sql.Tx]) {
	t.Helper()
	writer, reader, err := open(filepath.Join(t.TempDir(), "payments.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(reader.Close(), writer.Close()); err != nil {
			t.Error(err)
		}
	})
	store, err := prepare(t.Context(), writer, reader)
	if err != nil {
		t.Fatal(err)
	}
	return service{reader: reader}, store
}

// newTestHandler returns the API on a fresh file.
func newTestHandler(t *testing.T) http.Handler {
	t.Helper()
	s, store := newTestService(t)
	return newHandler(s, store, slog.New(slog.DiscardHandler))
}

// withCORS lets pages of other origins use the API. The generated lists say
// which headers of keys and replays they need.
func withCORS(handler http.Handler) http.Handler {
	return cors.New(cors.Options{
		AllowedOrigins: []string{"https://shop.example"},
		AllowedMethods: []string{http.MethodGet, http.MethodPost},
		AllowedHeaders: append(api.IdempotencyRequestHeaders(), "Content-Type", "X-Api-Key"),
		ExposedHeaders: append(api.IdempotencyResponseHeaders(), "Location"),
	}).Handler(handler)
}

// A page of another origin may send the key, and may read that an answer is a
// replay.
// Covers PRO-12.
func TestCORS(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(withCORS(newTestHandler(t)))
	t.Cleanup(server.Close)
	send := func(method string, header map[string]string, body string) *http.Response {
		req, err := http.NewRequest(method, server.URL+"/accounts/alice/payments", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Origin", "https://shop.example")
		for name, value := range header {
			req.Header.Set(name, value)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp
	}
	preflight := send(http.MethodOptions, map[string]string{
		"Access-Control-Request-Method":  "POST",
		"Access-Control-Request-Headers": "content-type,idempotency-key,x-api-key",
	}, "")
	if got := strings.ToLower(preflight.Header.Get("Access-Control-Allow-Headers")); !strings.Contains(got, "idempotency-key") {
		t.Errorf("the preflight allows %q", got)
	}
	pay := map[string]string{"Content-Type": "application/json", "X-Api-Key": "demo", "Idempotency-Key": "k1"}
	for _, replayed := range []string{"", "true"} {
		resp := send(http.MethodPost, pay, `{"to":"bob","amount":1}`)
		if resp.StatusCode != http.StatusCreated || resp.Header.Get("Idempotent-Replayed") != replayed {
			t.Errorf("got %d, %v", resp.StatusCode, resp.Header)
		}
		if got := resp.Header.Get("Access-Control-Expose-Headers"); !strings.Contains(got, "Idempotent-Replayed") {
			t.Errorf("the answer exposes %q", got)
		}
	}
}

// A caller who has lost the permission gets no stored answer: authentication
// runs before the wrapper, on replays too.
// Covers SEC-04, ERR-04.
func TestRevokedCallerGetsNoReplay(t *testing.T) {
	t.Parallel()
	var revoked atomic.Bool
	api := newTestHandler(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if revoked.Load() {
			http.Error(w, "forbidden", http.StatusForbidden)
			return
		}
		api.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	pay := func() e2e.Answer {
		t.Helper()
		a, err := e2e.Pay(t.Context(), server.URL, "k1", 250)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	if a := pay(); a.Status != http.StatusCreated {
		t.Fatalf("%+v", a)
	}
	revoked.Store(true)
	if a := pay(); a.Status != http.StatusForbidden || strings.Contains(a.Body, "alice") {
		t.Errorf("a revoked caller got %+v", a)
	}
	revoked.Store(false)
	if a := pay(); a.Status != http.StatusCreated || !a.Replayed {
		t.Errorf("the refusal was kept: %+v", a)
	}
}

// The header means nothing to an operation that is not marked.
// Covers PRO-11.
func TestUnmarkedOperationIgnoresKeys(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(newTestHandler(t))
	t.Cleanup(server.Close)
	for range 2 {
		req, err := http.NewRequest(http.MethodGet, server.URL+"/accounts/alice", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Idempotency-Key", "")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK || resp.Header.Get("Idempotent-Replayed") != "" {
			t.Errorf("got %d, %v", resp.StatusCode, resp.Header)
		}
	}
}
