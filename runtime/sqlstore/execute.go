package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

const (
	// maxRuns is how often work runs in all when its transaction loses.
	maxRuns = 3
	// backoff, doubled for each run, is the longest pause after it.
	backoff = 10 * time.Millisecond
	// resolvePause is the time between two looks at the fate of a COMMIT.
	resolvePause = 50 * time.Millisecond
)

// Execute implements [idempotency.Store].
func (s *Store) Execute(ctx context.Context, req idempotency.Request, work idempotency.Work[*sql.Tx]) (idempotency.Result, error) {
	if err := check(req); err != nil {
		return idempotency.Result{}, err
	}
	k := keyOf(req.Identity)
	res, err := again(ctx, func(run int, lost *lostError) (idempotency.Result, error) {
		return s.try(ctx, k, req, work, run == 1 || run <= maxRuns && req.MayRerun(), lost)
	})
	var lost *lostError
	if errors.As(err, &lost) {
		err = unavailable(lost.error)
	}
	return res, err
}

// again calls try until it returns no [*lostError], which it is told the next
// time, and returns the last one after some tries or when ctx ends.
func again(ctx context.Context, try func(run int, lost *lostError) (idempotency.Result, error)) (idempotency.Result, error) {
	var lost *lostError
	// After the last run comes one more look: what the transaction has lost
	// to may have been the same request.
	for run := 1; run <= maxRuns+1; run++ {
		res, err := try(run, lost)
		if !errors.As(err, &lost) {
			return res, err
		}
		if sleep(ctx, rand.N(backoff<<run)) != nil {
			break
		}
	}
	return idempotency.Result{}, lost
}

// try answers from what is stored, or claims req, runs work if that is allowed
// and completes. It returns a [*lostError] where another try may do better;
// lost is that of the try before.
func (s *Store) try(ctx context.Context, k key, req idempotency.Request, work idempotency.Work[*sql.Tx], allowed bool, lost *lostError) (idempotency.Result, error) {
	if s.claims.has(k.id) {
		return idempotency.Result{}, idempotency.ErrInFlight
	}
	claiming, cancel := context.WithTimeout(ctx, s.claimTimeout)
	defer cancel()
	if s.engine.oneWriter() {
		if s.within(ctx) {
			return idempotency.Result{}, errNested
		}
		// Most retries end here, without a turn to write.
		_, rec, err := s.engine.find(claiming, k.id)
		switch {
		case err != nil:
			return idempotency.Result{}, unavailable(err)
		case rec.live():
			return s.answer(ctx, rec, req)
		}
		// Its duplicates do not wait for their turn behind it.
		if !s.claims.take(k.id) {
			return idempotency.Result{}, idempotency.ErrInFlight
		}
		defer s.claims.drop(k.id)
	}
	a, err := s.engine.claim(claiming, k)
	if err != nil {
		return idempotency.Result{}, unavailable(err)
	}
	defer a.end(s.finishTimeout)
	switch {
	case a.record.live():
		a.end(s.finishTimeout) // before the answer is decoded
		return s.answer(ctx, a.record, req)
	case !a.held:
		return idempotency.Result{}, idempotency.ErrInFlight
	case !allowed:
		return idempotency.Result{}, unavailable(lost.error)
	}
	if err := a.record.admit(req, a.now); err != nil {
		return idempotency.Result{}, err
	}
	if !s.engine.oneWriter() {
		// No sooner, so that replays do not keep each other out.
		if !s.claims.take(k.id) {
			return idempotency.Result{}, idempotency.ErrInFlight
		}
		defer s.claims.drop(k.id)
	}
	resp, err := s.run(ctx, a, work)
	if err != nil {
		return idempotency.Result{}, err
	}
	return s.complete(ctx, a, k, req, resp)
}

// complete stores resp and commits.
func (s *Store) complete(ctx context.Context, a *attempt, k key, req idempotency.Request, resp idempotency.Response) (idempotency.Result, error) {
	header, body, err := idempotency.EncodeAnswer(ctx, s.codec, req, resp)
	if err != nil {
		return idempotency.Result{}, err
	}
	finishing, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.finishTimeout)
	defer cancel()
	if err := s.engine.insert(finishing, a, k, req, answer{resp.Status, header, body}); err != nil {
		return idempotency.Result{}, s.failed(err)
	}
	err = a.commit(s.finishTimeout)
	if err == nil {
		return idempotency.Result{Response: resp}, nil
	}
	switch s.engine.judge(err) {
	case conflict:
		return idempotency.Result{}, &lostError{err}
	case refused, taken: // such as by a deferred constraint of work's own tables
		return idempotency.Result{}, commitError(err)
	default:
		a.end(s.finishTimeout) // what is left of it must not stand in the way
		return s.resolve(ctx, k, req, resp, err)
	}
}

func commitError(err error) error {
	return &idempotency.CommitError{Err: fmt.Errorf("sqlstore: commit: %w", err)}
}

// failed says what to answer when work was done and cannot be completed.
func (s *Store) failed(err error) error {
	var refusal *idempotency.Error
	var aborted *abortedError
	if errors.As(err, &refusal) || errors.As(err, &aborted) {
		return err
	}
	switch s.engine.judge(err) {
	case conflict, taken:
		return &lostError{err}
	case ended:
		return transactionEnded(err)
	default:
		return unavailable(err)
	}
}

// Transact implements [idempotency.Store].
func (s *Store) Transact(ctx context.Context, work idempotency.Work[*sql.Tx]) (idempotency.Response, error) {
	if s.engine.oneWriter() && s.within(ctx) {
		return idempotency.Response{}, errNested
	}
	claiming, cancel := context.WithTimeout(ctx, s.claimTimeout)
	defer cancel()
	a, err := s.engine.plain(claiming)
	if err != nil {
		return idempotency.Response{}, unavailable(err)
	}
	defer a.end(s.finishTimeout)
	resp, err := s.run(ctx, a, work)
	var lost *lostError
	switch {
	case errors.As(err, &lost):
		return idempotency.Response{}, unavailable(lost.error)
	case err != nil:
		return idempotency.Response{}, err
	}
	err = a.commit(s.finishTimeout)
	if err == nil {
		return resp, nil
	}
	switch s.engine.judge(err) {
	case conflict:
		return idempotency.Response{}, unavailable(err)
	case refused, taken:
		return idempotency.Response{}, commitError(err)
	default:
		return idempotency.Response{}, outcomeUnknown(err)
	}
}

// inside is the key under which the context of work says whether work, which
// runs in a transaction of Store, is still running. A context can outlive it.
type inside struct{ *Store }

// within reports whether ctx is that of work which this store is running.
func (s *Store) within(ctx context.Context) bool {
	running, ok := ctx.Value(inside{s}).(*atomic.Bool)
	return ok && running.Load()
}

// run runs work and makes sure that its transaction is still the one that was
// begun. It returns the error of work as it was, or a [*lostError].
func (s *Store) run(ctx context.Context, a *attempt, work idempotency.Work[*sql.Tx]) (idempotency.Response, error) {
	if s.engine.oneWriter() {
		var running atomic.Bool
		running.Store(true)
		defer running.Store(false)
		ctx = context.WithValue(ctx, inside{s}, &running)
	}
	resp, err := work(ctx, a.tx)
	if err != nil {
		if s.engine.judge(err) == conflict {
			err = &lostError{err}
		}
		return idempotency.Response{}, err
	}
	finishing, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.finishTimeout)
	defer cancel()
	if err := s.engine.check(finishing, a); err != nil {
		return idempotency.Response{}, s.failed(err)
	}
	return resp, nil
}

// resolve finds out what became of a COMMIT that failed with cause, by claiming
// again. The transaction held the claim to its end, so the claim without a
// record proves that it was rolled back, where the claim proves anything.
func (s *Store) resolve(ctx context.Context, k key, req idempotency.Request, resp idempotency.Response, cause error) (idempotency.Result, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.finishTimeout)
	defer cancel()
	for {
		a, err := s.engine.claim(ctx, k)
		if err == nil {
			a.end(s.finishTimeout)
			switch {
			case a.record.live():
				res, err := s.answer(ctx, a.record, req)
				// Another attempt can only have answered if this one was rolled back;
				// where its answer is the same, nobody can tell them apart.
				res.Replayed = err == nil && !res.Equal(resp)
				return res, err
			case a.held && s.engine.proves():
				return idempotency.Result{}, unavailable(cause)
			}
		}
		if sleep(ctx, resolvePause) != nil {
			return idempotency.Result{}, outcomeUnknown(errors.Join(cause, err))
		}
	}
}

// sleep waits for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
