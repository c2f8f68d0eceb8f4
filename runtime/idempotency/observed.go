package idempotency

import (
	"context"
	"time"
)

// Observed returns a store on store that tells observe of each Execute when it
// returns. It is for [Do], with the outcomes of a server:
//
//	store := idempotency.Observed(records, idempotency.LogTo(logger))
//
// A request that Do refuses by itself is reported as invalid, without scope and
// key. Transact is not reported. A generated server is given the bare store and
// [WithObserver], which also knows what does not reach the store.
func Observed[Tx any](store Store[Tx], observe Observer) Store[Tx] {
	return &observed[Tx]{store, observe}
}

type observed[Tx any] struct {
	Store[Tx]
	observe Observer
}

// Execute implements [Store].
func (s *observed[Tx]) Execute(ctx context.Context, req Request, work Work[Tx]) (result Result, err error) {
	e := Event{Operation: req.Operation, Scope: req.Scope, Key: req.Key, Outcome: OutcomeReleased, Err: errPanicked}
	var t timing
	started := time.Now()
	// Deferred, so that work that panics is reported as released.
	defer func() {
		e.Duration = time.Since(started)
		t.fill(&e)
		s.observe(ctx, e)
	}()
	result, err = timed(ctx, &t, s.Store, req, func(ctx context.Context, tx Tx) (Response, error) {
		response, err := work(ctx, tx)
		if err != nil {
			err = &handlerError{err}
		}
		return response, err
	})
	e.Err = nil
	switch own := handlersOwn(err); {
	case own != nil:
		err = own.err
		e.Err = err
	case err != nil:
		e.Outcome, e.Err = outcomeOf(asRefusal(err).Code), err
	case result.Replayed:
		e.Outcome = OutcomeReplayed
	default:
		e.Outcome = OutcomeExecuted
	}
	return result, err
}
