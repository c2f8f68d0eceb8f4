package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/idemgen/idemgen/examples/internal/e2e"
)

// serveTickets serves the API on a new file.
func serveTickets(t *testing.T, tel telemetry, logs *bytes.Buffer) (*httptest.Server, *sql.DB) {
	t.Helper()
	db, store, err := open(t.Context(), filepath.Join(t.TempDir(), "tickets.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	handler, err := newHandler(store, tel, slog.New(slog.NewTextHandler(logs, nil)))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server, db
}

// buy sends one request and expects a status.
func buy(t *testing.T, url, key string, tickets, status int) {
	t.Helper()
	answer, err := e2e.Post(t.Context(), url+"/tickets", key, fmt.Sprintf(`{"tickets": %d}`, tickets))
	if err != nil || answer.Status != status {
		t.Fatalf("%+v, %v; want status %d", answer, err, status)
	}
}

// What clients did over HTTP is read back from the metrics, the spans and the
// log, and no key is in any of them.
func TestTelemetry(t *testing.T) {
	t.Parallel()
	reader, spans := sdkmetric.NewManualReader(), tracetest.NewInMemoryExporter()
	tel := newTelemetry(reader, sdktrace.NewSimpleSpanProcessor(spans))
	var logs bytes.Buffer
	server, db := serveTickets(t, tel, &logs)
	url := server.URL

	buy(t, url, "key-of-anna", 2, 201)
	buy(t, url, "key-of-anna", 2, 201)
	buy(t, url, "key-of-anna", 2, 201)
	buy(t, url, "key-of-anna", 3, 422)
	buy(t, url, "key-of-bert", 100, 409) // an answer of the business
	buy(t, url, "", 2, 400)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	buy(t, url, "key-of-carl", 2, 503)
	server.Close() // waits until the last request has been reported

	var collected metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &collected); err != nil {
		t.Fatal(err)
	}
	requests := map[string]int{"executed": 2, "replayed": 2, "mismatch": 1, "invalid": 1, "unavailable": 1}
	claims := map[string]int{"executed": 2, "replayed": 2, "mismatch": 1, "unavailable": 1}
	completes := map[string]int{"executed": 2}
	for name, want := range map[string]map[string]int{
		"idempotency.server.requests":          requests,
		"idempotency.server.request.duration":  requests,
		"idempotency.server.claim.duration":    claims,
		"idempotency.server.complete.duration": completes,
	} {
		if got := byOutcome(t, collected, name); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}

	onSpans := map[string]int{}
	records := map[string]bool{}
	for _, span := range spans.GetSpans() {
		attrs := attribute.NewSet(span.Attributes...)
		if operation, _ := attrs.Value("idempotency.operation"); operation.AsString() != "buyTickets" {
			t.Errorf("a span of the operation %q", operation.AsString())
		}
		for _, name := range []attribute.Key{"http.request.method", "http.response.status_code"} {
			if !attrs.HasValue(name) {
				t.Errorf("otelhttp's span has no %s, so its names are not those of the stable conventions: %v", name, span.Attributes)
			}
		}
		outcome, _ := attrs.Value("idempotency.outcome")
		onSpans[outcome.AsString()]++
		if record, found := attrs.Value("idempotency.record"); found {
			records[record.AsString()] = true
		}
		if claim, found := attrs.Value("idempotency.claim.duration"); found == (outcome.AsString() == "invalid") || found && claim.AsFloat64() <= 0 {
			t.Errorf("%s: a claim of %v s", outcome.AsString(), claim.AsFloat64())
		}
	}
	if !maps.Equal(onSpans, requests) || len(records) != 3 {
		t.Errorf("spans: %v of %d records, want %v of 3", onSpans, len(records), requests)
	}

	for outcome, n := range requests {
		if got := strings.Count(logs.String(), "outcome="+outcome); got != n {
			t.Errorf("%d log lines of %s, want %d", got, outcome, n)
		}
	}
	all, err := json.Marshal([]any{collected, spans.GetSpans(), logs.String()})
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(all, []byte("key-of-")) {
		t.Errorf("a key appears in %s", all)
	}
}

// byOutcome returns how often an instrument measured, for each outcome.
func byOutcome(t *testing.T, collected metricdata.ResourceMetrics, name string) map[string]int {
	t.Helper()
	counts := map[string]int{}
	add := func(attrs attribute.Set, n int) {
		outcome, _ := attrs.Value("idempotency.outcome")
		counts[outcome.AsString()] += n
	}
	for _, scope := range collected.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != name {
				continue
			}
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, point := range data.DataPoints {
					add(point.Attributes, int(point.Value))
				}
			case metricdata.Histogram[float64]:
				for _, point := range data.DataPoints {
					add(point.Attributes, int(point.Count))
				}
			default:
				t.Errorf("%s: %T", name, data)
			}
		}
	}
	return counts
}

// The program prints each span as it ends, and the metrics at the latest when
// it stops.
func TestPrint(t *testing.T) {
	t.Parallel()
	var printed, logs bytes.Buffer
	tel, err := printTo(&printed, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	server, _ := serveTickets(t, tel, &logs)
	buy(t, server.URL, "key-of-anna", 2, 201)
	server.Close()
	if err := tel.shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"idempotency.record", "idempotency.server.requests", "idempotency.server.claim.duration", "idempotency.server.complete.duration"} {
		if !strings.Contains(printed.String(), want) {
			t.Errorf("no %s is printed", want)
		}
	}
	if strings.Contains(printed.String(), "key-of-") {
		t.Errorf("a key appears in %s", printed.String())
	}
}
