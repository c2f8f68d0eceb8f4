package otelobserver

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/idemgen/idemgen/runtime/retry"
)

// Client returns an observer for [retry.WithObserver]. It counts attempts in
// idempotency.client.attempts, with the attributes idempotency.operation,
// http.response.status_code where an answer came, error.type where it was not
// the operation's, and idempotency.attempt.final: false where another attempt
// follows. With the last attempt of a call it records how many there were in
// the histogram idempotency.client.attempts_per_call, with the attributes
// idempotency.operation and, for a call that fails, error.type.
//
// An error.type is the code of a refusal, the status of another answer (300
// and above), timeout, canceled, server_certificate_invalid, or _OTHER.
//
// A span that records gets an event idempotency.attempt for each attempt. On
// top of the counter's attributes it has, all beginning with
// idempotency.attempt: number, sent, duration (seconds), replayed and, where
// another attempt follows, pause (seconds). From the second attempt on it has
// http.request.resend_count, which is number-1: what net/http sends again
// within an attempt is in sent.
//
// Errors are those of the provider's meter, and one for a provider that is
// nil.
func Client(provider metric.MeterProvider) (retry.Observer, error) {
	meter, err := meterOf(provider)
	if err != nil {
		return nil, err
	}
	attempts, err1 := meter.Int64Counter("idempotency.client.attempts",
		metric.WithDescription("Attempts of calls to marked operations."),
		metric.WithUnit("{attempt}"))
	perCall, err2 := meter.Int64Histogram("idempotency.client.attempts_per_call",
		metric.WithDescription("Attempts that a call to a marked operation took."),
		metric.WithUnit("{attempt}"),
		metric.WithExplicitBucketBoundaries(1, 2, 3, 4, 5, 7, 10, 20))
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	return func(ctx context.Context, a retry.Attempt) {
		call := make([]attribute.KeyValue, 0, 2)
		call = append(call, keyOperation.String(a.Operation))
		if failure := attemptErrorType(ctx, a); failure != "" {
			call = append(call, keyErrorType.String(failure))
		}
		attempt := make([]attribute.KeyValue, 0, 4)
		attempt = append(attempt, call...)
		attempt = append(attempt, keyFinal.Bool(a.Final))
		if a.Status != 0 {
			attempt = append(attempt, keyStatus.Int(a.Status))
		}
		// Some SDKs drop what is measured after the context has ended, and
		// calls that were given up count.
		ctx = context.WithoutCancel(ctx)
		attempts.Add(ctx, 1, metric.WithAttributeSet(attribute.NewSet(attempt...)))
		if a.Final {
			perCall.Record(ctx, int64(a.Number), metric.WithAttributeSet(attribute.NewSet(call...)))
		}
		if span := trace.SpanFromContext(ctx); span.IsRecording() {
			span.AddEvent("idempotency.attempt", trace.WithAttributes(append(attempt, details(a)...)...))
		}
	}, nil
}

// details returns what an event says beyond the counter: values that would
// make too many time series.
func details(a retry.Attempt) []attribute.KeyValue {
	attrs := []attribute.KeyValue{
		keyNumber.Int(a.Number),
		keySent.Int(a.Sent),
		keyReplayed.Bool(a.Replayed),
		keyDuration.Float64(a.Duration.Seconds()),
	}
	if !a.Final {
		attrs = append(attrs, keyPause.Float64(a.Pause.Seconds()))
	}
	if a.Number > 1 {
		attrs = append(attrs, keyResendCount.Int(a.Number-1))
	}
	return attrs
}
