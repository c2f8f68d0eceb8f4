package main

import (
	"bytes"
	"context"
	"database/sql"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"

	"github.com/idemgen/idemgen/examples/payments/api"
	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/otelobserver"
	"github.com/idemgen/idemgen/runtime/retry"
)

// newObservedServer serves the API, and reports each request to OpenTelemetry
// and to logger.
func newObservedServer(t *testing.T, s service, store idempotency.Store[*sql.Tx], logger *slog.Logger) *httptest.Server {
	t.Helper()
	requests, err := otelobserver.Server(otel.GetMeterProvider())
	if err != nil {
		t.Fatal(err)
	}
	handler := api.NewIdempotentHandler(s, store, idempotency.ScopeByHeader("X-Api-Key"),
		idempotency.WithObserver(requests),
		idempotency.WithObserver(idempotency.LogTo(logger)))
	server := httptest.NewServer(api.Handler(handler))
	t.Cleanup(server.Close)
	return server
}

// newObservedClient returns a client that reports each attempt to both.
func newObservedClient(t *testing.T, server string, logger *slog.Logger) api.IdempotentClient {
	t.Helper()
	attempts, err := otelobserver.Client(otel.GetMeterProvider())
	if err != nil {
		t.Fatal(err)
	}
	client, err := api.NewIdempotentClient(server,
		retry.WithObserver(attempts),
		retry.WithObserver(retry.LogTo(logger)),
		api.WithClientOptions(api.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
			r.Header.Set("X-Api-Key", "demo")
			return nil
		})))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// Server and client report to several observers at once, and no line holds the key.
func TestTelemetry(t *testing.T) {
	t.Parallel()
	s, store := newTestService(t)
	var served, called bytes.Buffer
	server := newObservedServer(t, s, store, slog.New(slog.NewTextHandler(&served, &slog.HandlerOptions{Level: slog.LevelDebug})))
	client := newObservedClient(t, server.URL, slog.New(slog.NewTextHandler(&called, &slog.HandlerOptions{Level: slog.LevelDebug})))
	key := api.NewCreatePaymentIdempotencyKey()
	answer, err := client.CreatePayment(t.Context(), api.NewCreatePaymentIdempotentRequest(key, api.CreatePaymentInput{
		AccountId: "alice",
		Body:      api.NewPayment{To: "bob", Amount: 250},
	}))
	if err != nil || answer.JSON201 == nil {
		t.Fatalf("%+v, %v", answer, err)
	}
	server.Close() // waits until the request has been reported
	for _, log := range []string{served.String(), called.String()} {
		if strings.Count(log, "createPayment") != 1 || strings.Contains(log, key.String()) {
			t.Errorf("logged, with the key %s:\n%s", key, log)
		}
	}
}
