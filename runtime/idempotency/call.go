package idempotency

import "context"

type runContext struct{}

// NoRerun tells the store that this attempt has made an effect outside its
// transaction, so that work must not run again after a serialization failure
// or a deadlock: such an attempt is rolled back and answered 503 unavailable.
// Call it before the effect, with the context that the handler was given.
// Outside a handler it does nothing.
func NoRerun(ctx context.Context) {
	if r, ok := ctx.Value(runContext{}).(*run); ok {
		r.noRerun = true
	}
}
