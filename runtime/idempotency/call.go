package idempotency

import (
	"context"
	"errors"
	"sync/atomic"
)

// Call is one attempt on its way through the HTTP edge.
type Call struct {
	noRerun atomic.Bool
}

func (c *Call) fingerprint(byte) (Fingerprint, error) {
	return Fingerprint{}, errors.New("idempotency: the call has no request")
}

type callContext struct{}

// NoRerun tells the store that this attempt makes an effect outside its
// transaction, so that work must not run again after a serialization failure
// or a deadlock: such an attempt is rolled back and answered 503 unavailable.
// Call it before the effect, with the context that the handler was given.
// Outside a handler it does nothing.
func NoRerun(ctx context.Context) {
	if c, ok := ctx.Value(callContext{}).(*Call); ok {
		c.noRerun.Store(true)
	}
}
