package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// attempt is one attempt at a request, from its first statement to its end.
type attempt struct {
	held   bool    // the claim: no other attempt at this request can be at work
	record *record // what was found, live or over
	now    int64   // the database's clock, in Unix milliseconds

	// tx is the transaction for work. It is nil where there is nothing to do:
	// a live record, or a claim that another attempt holds.
	tx     *sql.Tx
	cancel context.CancelFunc // ends tx
	// free gives back what is held beside tx.
	free func()
	// later says that nobody waits for the attempt's end, because a record
	// decides whatever comes meanwhile.
	later bool
	over  bool // end was called
	// patient says that a COMMIT without an answer must not be cancelled. One of
	// PostgreSQL that waits for a synchronous standby would then be visible,
	// and be replayed, though the standby does not have it.
	patient bool
	// spoiled says that work has left its session in a state that nobody knows.
	spoiled bool
}

// beginner is a pool, or one connection of it.
type beginner interface {
	BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error)
}

// begin opens the transaction and lets enter prepare it. It waits no longer
// than ctx, which not every driver heeds at BEGIN; but the transaction outlives
// ctx: database/sql rolls one back when the context that it was begun with is
// cancelled, and a caller's must not do that. Where it fails the attempt is over.
func (a *attempt) begin(ctx context.Context, db beginner, opts *sql.TxOptions, enter func(*sql.Tx) error) error {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	type begun struct {
		tx  *sql.Tx
		err error
	}
	answer := make(chan begun, 1)
	go func() {
		tx, err := db.BeginTx(own, opts)
		answer <- begun{tx, err}
	}()
	var err error
	select {
	case got := <-answer:
		if a.tx, err = got.tx, got.err; err == nil {
			err = enter(a.tx)
		}
	case <-ctx.Done():
		err = context.Cause(ctx)
		go func() {
			if late := <-answer; late.err == nil {
				_ = late.tx.Rollback() // its context has ended it already
			}
		}()
		a.later = true // the connection may never answer
	}
	a.cancel = cancel
	if !stop() || err != nil {
		err = errors.Join(ctx.Err(), err)
		a.end(endTimeout)
	}
	return err
}

// endTimeout limits how long a claim that failed waits for its own end.
const endTimeout = 5 * time.Second

// errNoAnswer says that the database did not answer COMMIT in time.
var errNoAnswer = errors.New("sqlstore: COMMIT was not answered in time")

// commit commits the transaction within a time that database/sql gives no way
// to limit. What becomes of a COMMIT that has no answer is not known.
func (a *attempt) commit(timeout time.Duration) error {
	answer := make(chan error, 1)
	cancel := a.cancel
	go func() {
		err := a.tx.Commit()
		cancel() // of no effect any more
		answer <- err
	}()
	select {
	case err := <-answer:
		return err
	case <-time.After(timeout):
		a.later = true // the connection may never answer
		if a.patient {
			a.cancel = nil
		} else {
			cancel() // some drivers end it then
		}
		return errNoAnswer
	}
}

// end rolls back what is not committed and gives the claim up. It waits for
// that no longer than timeout: a connection may have no answer any more. It may
// be called again.
func (a *attempt) end(timeout time.Duration) {
	if a.over {
		return
	}
	a.over = true
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.letGo()
	}()
	if a.later {
		return
	}
	select {
	case <-done:
	case <-time.After(timeout):
	}
}

func (a *attempt) letGo() {
	if a.tx != nil {
		// After a commit this does nothing. Where it fails the database has ended
		// the transaction itself, or does so when the driver drops the connection.
		_ = a.tx.Rollback()
	}
	if a.cancel != nil {
		a.cancel()
	}
	if a.free != nil {
		a.free()
	}
}
