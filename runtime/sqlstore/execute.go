package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

const (
	// maxRuns is how often work runs in all when its transaction loses.
	maxRuns = 3
	// finishTimeout limits what follows work, which the caller cannot cancel.
	finishTimeout = 5 * time.Second
)

// Execute implements [idempotency.Store].
func (s *Store) Execute(ctx context.Context, req idempotency.Request, work idempotency.Work[*sql.Tx]) (idempotency.Result, error) {
	id := req.ID()
	for run := 1; ; run++ {
		res, err := s.attempt(ctx, id, req, work)
		var lost *lostError
		switch {
		case !errors.As(err, &lost):
			return res, err
		case run == maxRuns || !req.MayRerun():
			return idempotency.Result{}, unavailable(lost.error)
		}
	}
}

// attempt answers from what is stored, or claims req, runs work and completes.
func (s *Store) attempt(ctx context.Context, id [16]byte, req idempotency.Request, work idempotency.Work[*sql.Tx]) (idempotency.Result, error) {
	if s.claims.has(id) {
		return idempotency.Result{}, idempotency.ErrInFlight
	}
	if s.within(ctx) {
		return idempotency.Result{}, errNested
	}
	claiming, cancel := context.WithTimeout(ctx, s.claimTimeout)
	defer cancel()

	// Most retries end here, without a turn to write.
	rec, err := find(claiming, s.stmts.read, id)
	if err != nil {
		return idempotency.Result{}, unavailable(err)
	}
	if rec.live() {
		return rec.answer(req)
	}

	if !s.claims.take(id) {
		return idempotency.Result{}, idempotency.ErrInFlight
	}
	defer s.claims.drop(id)
	tx, err := s.begin(claiming, id)
	if err != nil {
		return idempotency.Result{}, unavailable(err)
	}
	defer tx.end()
	if rec, err = find(claiming, tx.StmtContext(claiming, s.stmts.find), id); err != nil {
		return idempotency.Result{}, unavailable(err)
	}
	if rec.live() {
		return rec.answer(req)
	}
	if err := s.checkAge(claiming, tx, req); err != nil {
		return idempotency.Result{}, err
	}

	resp, err := s.run(ctx, tx, work)
	if err != nil {
		return idempotency.Result{}, err
	}
	finishing, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	if err := s.insert(finishing, tx, id, req, resp); err != nil {
		return idempotency.Result{}, s.failed(err)
	}
	if err := tx.Commit(); err != nil {
		return s.settle(ctx, id, req, err)
	}
	return idempotency.Result{Response: resp}, nil
}

// checkAge judges req's key by the database's clock where its time counts.
func (s *Store) checkAge(ctx context.Context, tx *transaction, req idempotency.Request) error {
	if !req.KeyHasTime {
		return nil
	}
	var now int64
	if err := tx.StmtContext(ctx, s.stmts.clock).QueryRowContext(ctx).Scan(&now); err != nil {
		return unavailable(err)
	}
	return req.CheckAge(time.UnixMilli(now))
}

// Transact implements [idempotency.Store].
func (s *Store) Transact(ctx context.Context, work idempotency.Work[*sql.Tx]) (idempotency.Response, error) {
	if s.within(ctx) {
		return idempotency.Response{}, errNested
	}
	claiming, cancel := context.WithTimeout(ctx, s.claimTimeout)
	defer cancel()
	tx, err := s.begin(claiming, [16]byte{}) // nobody's id: only the turn to write counts
	if err != nil {
		return idempotency.Response{}, unavailable(err)
	}
	defer tx.end()
	resp, err := s.run(ctx, tx, work)
	var lost *lostError
	switch {
	case errors.As(err, &lost):
		return idempotency.Response{}, unavailable(lost.error)
	case err != nil:
		return idempotency.Response{}, err
	}
	err = tx.Commit()
	switch {
	case err == nil:
		return resp, nil
	case s.dialect.conflict(err):
		return idempotency.Response{}, unavailable(err)
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
func (s *Store) run(ctx context.Context, tx *transaction, work idempotency.Work[*sql.Tx]) (idempotency.Response, error) {
	var running atomic.Bool
	running.Store(true)
	defer running.Store(false)
	resp, err := work(context.WithValue(ctx, inside{s}, &running), tx.Tx)
	if err != nil {
		if s.dialect.conflict(err) {
			err = &lostError{err}
		}
		return idempotency.Response{}, err
	}
	ctx = context.WithoutCancel(ctx)
	if _, err := tx.StmtContext(ctx, s.stmts.unmark).ExecContext(ctx); err != nil {
		return idempotency.Response{}, &idempotency.Error{
			Code: idempotency.CodeTransactionEnded,
			Err:  fmt.Errorf("%w: %w", errEnded, err),
		}
	}
	return resp, nil
}

// settle finds out what became of a commit that failed with cause. The turn to
// write and no record prove that it did not happen.
func (s *Store) settle(ctx context.Context, id [16]byte, req idempotency.Request, cause error) (idempotency.Result, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	tx, err := s.begin(ctx, id)
	if err != nil {
		return idempotency.Result{}, outcomeUnknown(errors.Join(cause, err))
	}
	defer tx.end()
	rec, err := find(ctx, tx.StmtContext(ctx, s.stmts.find), id)
	switch {
	case err != nil:
		return idempotency.Result{}, outcomeUnknown(errors.Join(cause, err))
	case rec.live():
		return rec.answer(req)
	default:
		return idempotency.Result{}, s.failed(cause)
	}
}

// failed returns what to answer when the transaction is rolled back for err.
func (s *Store) failed(err error) error {
	if s.dialect.conflict(err) {
		return &lostError{err}
	}
	return unavailable(err)
}

// transaction is one that has its turn to write.
type transaction struct {
	*sql.Tx
	cancel context.CancelFunc
}

// begin opens a transaction, waits for its turn to write and deletes the
// record of id if it is expired. It waits no longer than ctx, but the
// transaction outlives ctx: database/sql rolls one back when the context that
// it was begun with is cancelled, and a caller's must not do that.
func (s *Store) begin(ctx context.Context, id [16]byte) (*transaction, error) {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	tx, err := s.db.BeginTx(own, nil)
	if err != nil {
		cancel()
		return nil, errors.Join(ctx.Err(), err)
	}
	t := &transaction{Tx: tx, cancel: cancel}
	if _, err = tx.StmtContext(ctx, s.stmts.claim).ExecContext(ctx, id[:]); err == nil {
		_, err = tx.StmtContext(ctx, s.stmts.mark).ExecContext(ctx)
	}
	if !stop() || err != nil {
		t.end()
		return nil, errors.Join(ctx.Err(), err)
	}
	return t, nil
}

// end rolls back what is not committed.
func (t *transaction) end() {
	// After a commit this does nothing. Where it fails the database has ended
	// the transaction itself, or does so when the driver drops the connection.
	_ = t.Rollback()
	t.cancel()
}
