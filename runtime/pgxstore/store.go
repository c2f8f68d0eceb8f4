package pgxstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// Store keeps records in a PostgreSQL table and gives work a pgx.Tx. It is
// safe for concurrent use, holds at most one connection for each request, and
// has nothing to close: what is in the background ends with the pool.
type Store struct {
	pool        *pgxpool.Pool
	cfg         *config
	sql         *statements
	space       int64 // tells this table's advisory locks from another's
	insertFirst bool  // advisory locks do not work here
	recent      recent
}

var (
	_ idempotency.LeaseStore[pgx.Tx] = (*Store)(nil)
	_ idempotency.Keeper             = (*Store)(nil)
)

// Execute implements [idempotency.Store]. A first request costs no round trip
// more than its bare transaction, a replay is answered after one. Only where
// the store recalls a record that has gone, the first request costs one more.
//
// Work must not keep tx or anything read through it beyond its return. tx
// refuses Commit and Rollback; tx.Begin gives a savepoint. If work answers
// although a statement of the transaction has failed, or has ended the
// transaction by itself, or has left rows open, nothing is stored and Execute
// returns an error that says so and is no [*idempotency.Error].
func (s *Store) Execute(ctx context.Context, req idempotency.Request, work idempotency.Work[pgx.Tx]) (idempotency.Result, error) {
	if err := check(req); err != nil {
		return idempotency.Result{}, err
	}
	return again(ctx, func(run int, lost *conflict) (idempotency.Result, error) {
		return s.try(ctx, req, work, run, lost)
	})
}

// again calls try until it returns no *conflict, which it is told the next time.
func again(ctx context.Context, try func(run int, lost *conflict) (idempotency.Result, error)) (idempotency.Result, error) {
	var lost *conflict
	// After the last run comes one more look: what the transaction has lost
	// against may have been the same request.
	for run := 1; run <= maxRuns+1; run++ {
		res, err := try(run, lost)
		if err == nil || !errors.As(err, &lost) {
			return res, err
		}
		if err := sleep(ctx, rand.N(backoff<<run)); err != nil {
			return idempotency.Result{}, unavailable("the request was cancelled before its transaction could run again", errors.Join(err, lost.err))
		}
	}
	return idempotency.Result{}, lost.final()
}

// backoff, doubled for each run, is the longest pause after it.
const backoff = 10 * time.Millisecond

// final is the error of a request whose transaction may not run again.
func (c *conflict) final() error {
	return unavailable("the transaction lost against others each time it ran, or may not run again", c.err)
}

// try executes req once. It returns a *conflict where another try may do
// better; lost is that of the try before.
func (s *Store) try(ctx context.Context, req idempotency.Request, work idempotency.Work[pgx.Tx], run int, lost *conflict) (idempotency.Result, error) {
	a, err := s.connect(ctx, req.Identity)
	if err != nil {
		return idempotency.Result{}, err
	}
	if !a.recall() {
		err = a.claim(a.sql.begin)
	}
	if a, err = a.begun(ctx, err); err != nil {
		return idempotency.Result{}, err
	}
	if a.live() {
		return a.replay(ctx, req)
	}
	switch {
	case !a.held:
		err = idempotency.ErrInFlight
	case run > 1 && (run > maxRuns || !req.MayRerun()):
		err = lost.final()
	default:
		err = a.admit(req)
	}
	if err != nil {
		a.rollback()
		return idempotency.Result{}, err
	}
	resp, err := a.run(ctx, work)
	if err != nil {
		return idempotency.Result{}, err
	}
	return a.complete(ctx, req, resp)
}

// claimed connects and claims for the store alone, both within the claim
// timeout. A caller who goes away meanwhile is noticed when the server has
// answered.
func (s *Store) claimed(ctx context.Context, id idempotency.Identity) (*attempt, error) {
	a, err := s.connect(ctx, id)
	if err != nil {
		return nil, err
	}
	return a.begun(ctx, a.claim(a.sql.beginOwn))
}

// begun returns a, or rolls it back if its first pipeline has failed or the
// caller has gone.
func (a *attempt) begun(ctx context.Context, err error) (*attempt, error) {
	if err == nil && ctx.Err() != nil {
		err = unavailable("the request was cancelled before its handler ran", context.Cause(ctx))
	}
	if err != nil {
		a.rollback()
		return nil, err
	}
	return a, nil
}

// Transact implements [idempotency.Store]. Its transaction begins with a round
// trip of its own and is not guarded against a COMMIT that work sends as text
// together with another BEGIN.
func (s *Store) Transact(ctx context.Context, work idempotency.Work[pgx.Tx]) (idempotency.Response, error) {
	a, err := s.connect(ctx, idempotency.Identity{})
	if err != nil {
		return idempotency.Response{}, err
	}
	if a, err = a.begun(ctx, a.begin()); err != nil {
		return idempotency.Response{}, err
	}
	resp, err := a.run(ctx, work)
	if err != nil {
		var lost *conflict
		if errors.As(err, &lost) {
			err = lost.final()
		}
		return idempotency.Response{}, err
	}
	return resp, a.commit()
}

// check refuses requests that could not be stored after they have run.
func check(req idempotency.Request) error {
	if req.Retention <= 0 {
		return fmt.Errorf("pgxstore: %s: the retention is %v; it must be positive", req.Operation, req.Retention)
	}
	for _, part := range []struct{ name, value string }{{"scope", req.Scope}, {"operation", req.Operation}, {"key", req.Key}} {
		if !utf8.ValidString(part.value) || strings.IndexByte(part.value, 0) >= 0 {
			return fmt.Errorf("pgxstore: %s: the %s %q is not UTF-8 text without zero bytes, as PostgreSQL needs it", req.Operation, part.name, part.value)
		}
	}
	return nil
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
