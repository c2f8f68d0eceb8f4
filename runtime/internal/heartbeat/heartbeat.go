// Package heartbeat holds a claim while work runs: it extends the claim's lease
// until work has ended, the claim is lost, or work has run for as long as its
// ceiling.
package heartbeat

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// The causes with which the context of work is cancelled. Both match
// [idempotency.ErrLeaseLost].
var (
	// ErrLost says that the claim is another attempt's, or may be.
	ErrLost = fmt.Errorf("%w: another attempt may be running, and nothing that was queued is kept", idempotency.ErrLeaseLost)
	// ErrCeiling says that work has run for too long.
	ErrCeiling = fmt.Errorf("%w: work has run for longer than WithLease lets a claim be held, and nothing that was queued is kept", idempotency.ErrLeaseLost)
)

// Claim is what is held.
type Claim struct {
	// Since is when the claim was sent: its first lease counts from then, if
	// not from later, and so does the ceiling.
	Since time.Time
	// Lease is for how long a claim holds that nothing extends.
	Lease time.Duration
	// Ceiling is for how long the claim is held at most.
	Ceiling time.Duration
	// Extend makes the claim last for another Lease from now, and reports
	// whether it was held. It is called by one goroutine at a time. Its context
	// ends when the lease does.
	Extend func(context.Context) (held bool, err error)
}

// Heartbeat extends a claim each time that a third of its lease has passed.
// Before that, nothing runs for it.
type Heartbeat struct {
	claim  Claim
	lose   context.CancelCauseFunc // cancels the context of work
	ctx    context.Context         // of the extensions
	cancel context.CancelFunc

	mu    sync.Mutex
	timer *time.Timer
	until time.Time // the claim is held for as long as this, if not longer
}

// retries is how often an extension that fails is tried in a third of a lease.
const retries = 4

// Start begins the heartbeat of a claim. The context that it returns is that of
// work, a child of ctx. It is cancelled with [ErrLost] as soon as the claim is
// found to be another's or its lease has passed without an extension, and with
// [ErrCeiling] when the ceiling is reached. The caller must call Stop.
func Start(ctx context.Context, c Claim) (work context.Context, h *Heartbeat) {
	work, lose := context.WithCancelCause(ctx)
	beats, cancel := context.WithCancel(context.WithoutCancel(ctx))
	h = &Heartbeat{claim: c, lose: lose, ctx: beats, cancel: cancel, until: c.Since.Add(c.Lease)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timer = time.AfterFunc(h.wait(c.Lease/3), h.beat)
	return work, h
}

func (h *Heartbeat) ceiling() time.Time { return h.claim.Since.Add(h.claim.Ceiling) }

// wait is d, or less where the ceiling comes before.
func (h *Heartbeat) wait(d time.Duration) time.Duration {
	return max(min(d, time.Until(h.ceiling())), 0)
}

// beat extends the claim, or cancels work.
func (h *Heartbeat) beat() {
	if h.Err() != nil {
		h.lose(ErrCeiling)
		return
	}
	h.mu.Lock()
	until := h.until
	h.mu.Unlock()
	sent := time.Now()
	ctx, cancel := context.WithDeadline(h.ctx, until)
	held, err := h.claim.Extend(ctx)
	cancel()

	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.ctx.Err() != nil: // stopped meanwhile
	case err == nil && held:
		h.until = sent.Add(h.claim.Lease)
		h.timer.Reset(h.wait(h.claim.Lease / 3))
	case err == nil, !time.Now().Before(until):
		h.lose(ErrLost)
	default:
		h.timer.Reset(h.wait(h.claim.Lease / 3 / retries))
	}
}

// Err returns [ErrCeiling] once the ceiling is reached: then no answer of work
// may be stored. A lost claim is no error here: whether it may be completed all
// the same, the server decides.
func (h *Heartbeat) Err() error {
	if time.Now().Before(h.ceiling()) {
		return nil
	}
	return ErrCeiling
}

// Stop ends the heartbeat and the context of work. An extension that is under
// way is cancelled and not waited for. Stop may be called again.
func (h *Heartbeat) Stop() {
	h.cancel()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timer.Stop()
	h.lose(nil)
}
