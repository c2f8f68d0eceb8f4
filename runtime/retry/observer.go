package retry

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// Attempt is what an [Observer] is told of one attempt.
type Attempt struct {
	Operation string
	Key       string // the whole key: treat it as confidential; "" if there is none
	Number    int    // 1 for the first
	// Sent is how often the request was written to a connection: 2 if net/http
	// has sent it again by itself, 0 if it never got that far, or if the
	// client's doer is not one of net/http.
	Sent   int
	Status int // of the answer; 0 if none came
	// Code is the refusal of an idempotent server, "" for other answers.
	Code idempotency.Code
	// Replayed says that the answer is one that was stored before.
	Replayed bool
	Duration time.Duration
	Err      error // why this attempt gave no answer, or not the operation's; nil for the last one of a call that succeeds
	// Final says that no attempt follows. Otherwise one does after Pause, unless
	// the context ends before.
	Final bool
	Pause time.Duration
}

// Observer is told of every attempt when it has ended. It runs on the call's
// goroutine, with the call's context, and must not block. Calls at the same time
// run it at the same time.
type Observer func(ctx context.Context, a Attempt)

// LogTo returns an [Observer] that writes one log line for each attempt: the
// last one of a call that fails as an error, one that is to be repeated as a
// warning, an answer at level debug. The key is left out.
func LogTo(logger *slog.Logger) Observer {
	return func(ctx context.Context, a Attempt) {
		level := slog.LevelDebug
		switch {
		case a.Err != nil && a.Final:
			level = slog.LevelError
		case a.Err != nil:
			level = slog.LevelWarn
		}
		if !logger.Enabled(ctx, level) {
			return
		}
		attrs := []slog.Attr{
			slog.String("operation", a.Operation),
			slog.Int("attempt", a.Number),
			slog.Int("sent", a.Sent),
			slog.Int("status", a.Status),
			slog.Bool("replayed", a.Replayed),
			slog.Duration("duration", a.Duration),
		}
		if a.Code != "" {
			attrs = append(attrs, slog.String("code", string(a.Code)))
		}
		if !a.Final {
			attrs = append(attrs, slog.Duration("pause", a.Pause))
		}
		if a.Err != nil {
			attrs = append(attrs, slog.String("error", a.Err.Error()))
		}
		logger.LogAttrs(ctx, level, "idempotent call", attrs...)
	}
}

// Replayed reports whether an answer carries the mark of one that was stored
// before: Idempotent-Replayed: true. Generated results have a method of the
// same name. A server that is not idempotent, or that was given another name
// for the field, never sends the mark.
func Replayed(r *http.Response) bool {
	return r != nil && r.Header.Get("Idempotent-Replayed") == "true"
}
