package retry

import (
	"context"
	"time"
)

// Option sets up a client.
type Option func(*Sender)

// Sender sends requests as its options say. Generated clients hold one, for
// all their calls.
type Sender struct {
	attempts       int
	attemptTimeout time.Duration
	backoff        func(retry int) time.Duration
	maxRetryAfter  time.Duration
	inFlightWait   time.Duration
	observers      []Observer
	now            func() time.Time
	sleep          func(ctx context.Context, d time.Duration)
	framework      []any
}

// New returns a Sender. It is for generated code.
func New(opts ...Option) *Sender {
	s := &Sender{
		attempts:       4,
		attemptTimeout: 30 * time.Second,
		backoff:        FullJitter(200*time.Millisecond, 10*time.Second),
		maxRetryAfter:  time.Minute,
		inFlightWait:   45 * time.Second,
		now:            time.Now,
		sleep:          sleep,
	}
	for _, opt := range opts {
		opt(s)
	}
	return s
}

// WithAttempts sets how often a request is sent at most. Defaults to 4; less
// than 1 is 1. Answers that say that the request is in flight do not count:
// see [WithInFlightWait].
func WithAttempts(n int) Option { return func(s *Sender) { s.attempts = max(n, 1) } }

// WithAttemptTimeout sets how long one attempt may take, its answer's body
// included. Defaults to 30 s; 0 sets no limit. The Timeout of an [net/http.Client]
// limits each attempt too; the caller's context limits the whole call.
func WithAttemptTimeout(d time.Duration) Option { return func(s *Sender) { s.attemptTimeout = d } }

// WithBackoff sets the pause before a retry, the first of which is number 1.
// Defaults to [FullJitter] from 200 ms up to 10 s. What Retry-After asks for
// comes on top, so that clients that were told the same do not come back
// together. Less than 0 is 0. Calls at the same time run pause at the same time.
func WithBackoff(pause func(retry int) time.Duration) Option {
	return func(s *Sender) { s.backoff = pause }
}

// WithMaxRetryAfter sets the longest Retry-After that is waited for. Defaults
// to 60 s. A longer one ends the call; the answer with it is in the error.
func WithMaxRetryAfter(d time.Duration) Option { return func(s *Sender) { s.maxRetryAfter = d } }

// WithInFlightWait sets how long a call goes on asking, all pauses together,
// while the server answers that the same request is in flight: an earlier
// attempt is still running there and is about to give the answer, or its server
// has died and the claim that it has left behind ends by itself. Defaults to
// 45 s, which outlasts such a claim by the stores' defaults (30 s, on DynamoDB
// 32 s), so that a call survives the crash; 0 makes the first such answer the
// last.
func WithInFlightWait(d time.Duration) Option { return func(s *Sender) { s.inFlightWait = d } }

// WithObserver adds an observer of attempts; [LogTo] makes one.
func WithObserver(observe Observer) Option {
	return func(s *Sender) { s.observers = append(s.observers, observe) }
}

// WithClock replaces the clock, for tests: now reads it, and sleep returns
// after a duration, or sooner if the context ends. Contexts and the timeout of
// an attempt keep to the real one.
func WithClock(now func() time.Time, sleep func(ctx context.Context, d time.Duration)) Option {
	return func(s *Sender) { s.now, s.sleep = now, sleep }
}

// WithFramework carries a generated package's own options to its constructor.
// It is for generated code; users call the generated WithClientOptions.
func WithFramework(value any) Option {
	return func(s *Sender) { s.framework = append(s.framework, value) }
}

// Framework returns the values of type T given by [WithFramework], in their
// order. It is for generated code.
func Framework[T any](s *Sender) []T {
	var values []T
	for _, v := range s.framework {
		if t, ok := v.(T); ok {
			values = append(values, t)
		}
	}
	return values
}

// sleep returns after d, or sooner if the context ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
