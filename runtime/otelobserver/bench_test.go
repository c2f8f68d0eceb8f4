package otelobserver_test

import (
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/otelobserver"
	"github.com/idemgen/idemgen/runtime/retry"
)

// What an event costs before an SDK does anything with it.
func BenchmarkServer(b *testing.B) {
	observe, err := otelobserver.Server(noop.NewMeterProvider())
	if err != nil {
		b.Fatal(err)
	}
	event := idempotency.Event{Operation: "pay", Outcome: idempotency.OutcomeExecuted, Scope: "s", Key: "k", Duration: time.Millisecond}
	b.ReportAllocs()
	for b.Loop() {
		observe(b.Context(), event)
	}
}

// As [BenchmarkServer], for the one attempt of a call that succeeds.
func BenchmarkClient(b *testing.B) {
	observe, err := otelobserver.Client(noop.NewMeterProvider())
	if err != nil {
		b.Fatal(err)
	}
	attempt := retry.Attempt{Operation: "pay", Key: "k", Number: 1, Sent: 1, Status: 201, Duration: time.Millisecond, Final: true}
	b.ReportAllocs()
	for b.Loop() {
		observe(b.Context(), attempt)
	}
}
