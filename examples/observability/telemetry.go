package main

import (
	"context"
	"errors"
	"io"
	"time"

	"go.opentelemetry.io/otel/exporters/stdout/stdoutmetric"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// telemetry is where the service's metrics and spans go.
type telemetry struct {
	meters   metric.MeterProvider
	spans    trace.TracerProvider
	shutdown func(context.Context) error
}

// printTo returns a telemetry that prints spans as they end, and all metrics at
// the given interval and at the end. A real service gives other exporters here,
// such as those of OTLP or Prometheus, and nothing else changes.
func printTo(w io.Writer, interval time.Duration) (telemetry, error) {
	metrics, err1 := stdoutmetric.New(stdoutmetric.WithWriter(w))
	spans, err2 := stdouttrace.New(stdouttrace.WithWriter(w))
	if err := errors.Join(err1, err2); err != nil {
		return telemetry{}, err
	}
	return newTelemetry(
		sdkmetric.NewPeriodicReader(metrics, sdkmetric.WithInterval(interval)),
		sdktrace.NewSimpleSpanProcessor(spans),
	), nil
}

func newTelemetry(reader sdkmetric.Reader, processor sdktrace.SpanProcessor) telemetry {
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	spans := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(processor))
	return telemetry{meters, spans, func(ctx context.Context) error {
		return errors.Join(spans.Shutdown(ctx), meters.Shutdown(ctx))
	}}
}
