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

// Server returns an observer for [idempotency.WithObserver], and for
// [idempotency.Observed]. It counts requests in idempotency.server.requests and
// measures how long they take, in seconds, in histograms:
// idempotency.server.request.duration, and of the time that the store took
// idempotency.server.claim.duration and idempotency.server.complete.duration,
// which are Claim and Complete of the [idempotency.Event] where there are such.
// All have the attributes idempotency.operation and idempotency.outcome, and
// error.type where a request was refused or failed: the refusal's code, or
// _OTHER for an error or a panic of the handler, and for a request that
// oapi-codegen's decoder has refused.
//
// A span that records gets the same attributes and, where there are such,
// idempotency.claim.duration and idempotency.complete.duration (seconds),
// idempotency.runs, and idempotency.record: the record's id in hexadecimal, as
// [idempotency.LogTo] writes it.
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
	claim, err3 := meter.Float64Histogram("idempotency.server.claim.duration",
		metric.WithDescription("Duration of claims, or of the answer from the store that came instead."),
		metric.WithUnit("s"),
		metric.WithExplicitBucketBoundaries(storeSeconds...))
	complete, err4 := meter.Float64Histogram("idempotency.server.complete.duration",
		metric.WithDescription("Duration of the commit or rollback after the handler's return."),
		metric.WithUnit("s"),
		metric.WithExplicitBucketBoundaries(storeSeconds...))
	if err := errors.Join(err1, err2, err3, err4); err != nil {
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
		if e.Claim > 0 {
			claim.Record(ctx, e.Claim.Seconds(), with)
		}
		if e.Complete > 0 {
			complete.Record(ctx, e.Complete.Seconds(), with)
		}
		if span := trace.SpanFromContext(ctx); span.IsRecording() {
			span.SetAttributes(append(attrs, requestDetails(e)...)...)
		}
	}, nil
}

// requestDetails returns what a span says beyond the metrics' attributes.
func requestDetails(e idempotency.Event) []attribute.KeyValue {
	var attrs []attribute.KeyValue
	if e.Claim > 0 {
		attrs = append(attrs, keyClaim.Float64(e.Claim.Seconds()))
	}
	if e.Complete > 0 {
		attrs = append(attrs, keyComplete.Float64(e.Complete.Seconds()))
	}
	if e.Runs > 0 {
		attrs = append(attrs, keyRuns.Int(e.Runs))
	}
	if e.Key != "" {
		id := idempotency.Identity{Scope: e.Scope, Operation: e.Operation, Key: e.Key}.ID()
		attrs = append(attrs, keyRecord.String(hex.EncodeToString(id[:])))
	}
	return attrs
}

// The boundaries that the conventions advise for the durations of HTTP requests
// and of database operations, so that histograms can be laid over each other.
var (
	seconds      = []float64{.005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10}
	storeSeconds = []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10}
)
