package idempotency

import (
	"context"
	"encoding/hex"
	"log/slog"
	"time"
)

// Outcome says what became of a request. Every request to a marked operation
// has exactly one.
type Outcome string

// The outcomes.
const (
	OutcomeExecuted       Outcome = "executed"        // ran and was stored
	OutcomeReplayed       Outcome = "replayed"        // answered from the store
	OutcomeInFlight       Outcome = "in_flight"       // another attempt is running
	OutcomeMismatch       Outcome = "mismatch"        // the key holds another request
	OutcomeExpired        Outcome = "expired"         // the key is older than its retention
	OutcomeInvalid        Outcome = "invalid"         // refused before the claim
	OutcomeReleased       Outcome = "released"        // rolled back, or failed before the claim; the key is free
	OutcomeUnprotected    Outcome = "unprotected"     // ran without a key, as the spec allows
	OutcomeUnavailable    Outcome = "unavailable"     // the store could not be reached, or the handler lost too many conflicts
	OutcomeOutcomeUnknown Outcome = "outcome_unknown" // lost in COMMIT or without its lease, or stored and not readable here
)

// outcomeOf returns the outcome of a refusal.
func outcomeOf(code Code) Outcome {
	switch code {
	case CodeInFlight:
		return OutcomeInFlight
	case CodeMismatch:
		return OutcomeMismatch
	case CodeKeyExpired:
		return OutcomeExpired
	case CodeUnavailable:
		return OutcomeUnavailable
	case CodeOutcomeUnknown:
		return OutcomeOutcomeUnknown
	case CodeResponseTooLarge, CodeInternal, CodeTransactionEnded:
		return OutcomeReleased
	default:
		return OutcomeInvalid
	}
}

// Event is what an [Observer] is told of a request.
type Event struct {
	Operation string
	Outcome   Outcome
	Scope     string // "" where the request was refused before it was known
	Key       string // as above; the whole key: treat it as confidential
	Duration  time.Duration
	// Claim is the part of Duration from asking the store to the start of the
	// handler, or to the store's answer where the handler did not run: a
	// replay, or a refusal. Of a duplicate that waits it is the last try's. 0
	// where no key was claimed.
	Claim time.Duration
	// Complete is the part from the handler's return to the end of the commit,
	// or of the rollback. 0 where the handler did not run or did not return.
	Complete time.Duration
	// Runs is how often the handler ran under the claim: more than once after
	// serialization failures and deadlocks. Claim ends with the first run and
	// Complete begins after the last; what lies between is in neither.
	Runs int
	// Err is the refusal or the handler's error, nil otherwise. What
	// oapi-codegen's code refuses by itself it tells its own error handler, and
	// Err says only that the handler was not reached.
	Err error
}

// Observer is told of every request to a marked operation whose parameters
// oapi-codegen could bind, once, after its answer is written. It runs on the
// request's goroutine and must not block.
type Observer func(ctx context.Context, e Event)

func both(a, b Observer) Observer {
	return func(ctx context.Context, e Event) {
		a(ctx, e)
		b(ctx, e)
	}
}

// LogTo returns an [Observer] that writes one log line for each request: failed
// handlers, unavailable and outcome_unknown as errors; mismatch, expired,
// invalid and answers that free the key as warnings; the rest, in_flight
// included, at level info. Durations are those of the [Event], and runs is there
// where there was more than one. Of the key only its record's id appears, the
// hexadecimal primary key of the stored row. Errors are logged whole: what a
// handler's own error says is in them.
func LogTo(logger *slog.Logger) Observer {
	return func(ctx context.Context, e Event) {
		level := slog.LevelInfo
		switch {
		case e.Outcome == OutcomeUnavailable, e.Outcome == OutcomeOutcomeUnknown, e.Outcome == OutcomeReleased && e.Err != nil:
			level = slog.LevelError
		case e.Outcome == OutcomeMismatch, e.Outcome == OutcomeExpired, e.Outcome == OutcomeInvalid, e.Outcome == OutcomeReleased:
			level = slog.LevelWarn
		}
		if !logger.Enabled(ctx, level) {
			return
		}
		attrs := []slog.Attr{
			slog.String("operation", e.Operation),
			slog.String("outcome", string(e.Outcome)),
			slog.Duration("duration", e.Duration),
		}
		if e.Claim > 0 {
			attrs = append(attrs, slog.Duration("claim", e.Claim))
		}
		if e.Complete > 0 {
			attrs = append(attrs, slog.Duration("complete", e.Complete))
		}
		if e.Runs > 1 {
			attrs = append(attrs, slog.Int("runs", e.Runs))
		}
		if e.Key != "" {
			id := Identity{Scope: e.Scope, Operation: e.Operation, Key: e.Key}.ID()
			attrs = append(attrs, slog.String("record", hex.EncodeToString(id[:])))
		}
		if e.Err != nil {
			attrs = append(attrs, slog.String("error", e.Err.Error()))
		}
		logger.LogAttrs(ctx, level, "idempotent request", attrs...)
	}
}
