package idempotency

import (
	"context"
	"sync"
	"time"
)

// timing measures what a store does around work. A nil timing measures nothing
// and costs nothing.
type timing struct {
	mu       sync.Mutex // a middleware can leave a handler running, or run two
	asked    time.Time  // when the store was last asked
	returned time.Time  // when work last returned
	claim    time.Duration
	complete time.Duration
	runs     int
}

// timed is [Store.Execute], measured by t.
func timed[Tx any](ctx context.Context, t *timing, store Store[Tx], req Request, work Work[Tx]) (Result, error) {
	if t == nil {
		return store.Execute(ctx, req, work)
	}
	t.ask()
	result, err := store.Execute(ctx, req, func(ctx context.Context, tx Tx) (Response, error) {
		t.begin()
		response, err := work(ctx, tx)
		t.end()
		return response, err
	})
	t.answer()
	return result, err
}

func (t *timing) ask() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked = time.Now()
}

func (t *timing) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.runs == 0 {
		t.claim = time.Since(t.asked)
	}
	t.runs++
}

func (t *timing) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.returned = time.Now()
}

func (t *timing) answer() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.runs == 0 {
		t.claim = time.Since(t.asked)
		return
	}
	t.complete = time.Since(t.returned)
}

// fill puts into e what was measured.
func (t *timing) fill(e *Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e.Claim, e.Complete, e.Runs = t.claim, t.complete, t.runs
}
