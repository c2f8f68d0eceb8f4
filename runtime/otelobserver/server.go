package otelobserver

import (
	"context"
	"encoding/hex"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// Server returns an observer for [idempotency.WithObserver]. It counts
// requests in idempotency.server.requests and measures how long they take, in
// seconds, in the histogram idempotency.server.request.duration. Both have the
// attributes idempotency.operation and idempotency.outcome, and error.type
// where a request was refused or failed: the refusal's code, or _OTHER for an
// error or a panic of the handler.
//
// A span that records gets the same attributes and, where the key is known,
// idempotency.record: the record's id in hexadecimal, as [idempotency.LogTo]
// writes it.
//
// Errors are those of the provider's meter, and one for a provider that is
// nil.
func Server(provider metric.MeterProvider) (idempotency.Observer, error) {
	meter, err := meterOf(provider)
	if err != nil {
		return nil, err
	}
	requests, err1 := meter.Int64Counter("idempotency.server.requests",
		metric.WithDescription("Requests to marked operations."),
		metric.WithUnit("{request}"))
	duration, err2 := meter.Float64Histogram("idempotency.server.request.duration",
		metric.WithDescription("Duration of requests to marked operations, until the answer is written."),
		metric.WithUnit("s"),
		metric.WithExplicitBucketBoundaries(seconds...))
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	return func(ctx context.Context, e idempotency.Event) {
		attrs := make([]attribute.KeyValue, 0, 4)
		attrs = append(attrs, keyOperation.String(e.Operation), keyOutcome.String(string(e.Outcome)))
		if failure := eventErrorType(e); failure != "" {
			attrs = append(attrs, keyErrorType.String(failure))
		}
		// Some SDKs drop what is measured after the context has ended, and
		// callers that have gone count.
		ctx = context.WithoutCancel(ctx)
		with := metric.WithAttributeSet(attribute.NewSet(attrs...))
		requests.Add(ctx, 1, with)
		duration.Record(ctx, e.Duration.Seconds(), with)
		if span := trace.SpanFromContext(ctx); span.IsRecording() {
			span.SetAttributes(attrs...)
			if e.Key != "" {
				id := idempotency.Identity{Scope: e.Scope, Operation: e.Operation, Key: e.Key}.ID()
				span.SetAttributes(keyRecord.String(hex.EncodeToString(id[:])))
			}
		}
	}, nil
}

// seconds are the boundaries that the conventions advise for the duration of
// HTTP requests, so that both histograms can be laid over each other.
var seconds = []float64{.005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10}
