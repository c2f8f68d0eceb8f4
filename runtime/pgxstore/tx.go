package pgxstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

var (
	errStoreEnds = errors.New("pgxstore: the store commits and rolls back this transaction: return from work instead, with an error to roll back; tx.Begin gives a savepoint that can be undone")
	errInUse     = errors.New("pgxstore: the transaction is in use: send one statement at a time, and close rows and batch results before the next one and before work returns; nothing is kept")
	errReturned  = fmt.Errorf("pgxstore: work has returned: %w", pgx.ErrTxClosed)
	errUnseen    = errors.New("it was not sent through the transaction itself")
	errUndone    = errors.New("pgxstore: work called Rollback and returned an answer: nothing is kept; return an error to roll back, or use tx.Begin to undo a part")

	errEnded error = &idempotency.Error{
		Code: idempotency.CodeTransactionEnded,
		Err:  errors.New("pgxstore: work ended the transaction by itself, with COMMIT or ROLLBACK as text: its answer is not stored, and what it committed is not protected against a second run"),
	}
)

// guard stands between work and its connection. It lets one call at a time
// through, none after work has returned, and remembers what decides whether
// the transaction may be committed.
type guard struct {
	conn     *pgx.Conn
	returned atomic.Bool
	misused  atomic.Bool // a call came while the connection was in use

	mu         sync.Mutex // held during a call; the rest is read and written under it
	savepoints int
	undone     bool  // work has called Rollback
	failure    error // the last error that the server sent for a statement
}

// enter begins a call; leave ends it. Waiting for another call instead of
// failing would hang callbacks that use the transaction from inside a call.
func (g *guard) enter() error {
	if g.returned.Load() {
		return errReturned
	}
	if !g.mu.TryLock() {
		g.misused.Store(true)
		return errInUse
	}
	if g.returned.Load() {
		g.mu.Unlock()
		return errReturned
	}
	return nil
}

func (g *guard) leave() { g.mu.Unlock() }

// note remembers what the error of a statement means for the whole
// transaction, and returns it.
func (g *guard) note(err error) error {
	if s := state(err); s != "" && s != stateAborted {
		g.failure = err
	}
	return err
}

// finish ends work's use of the connection. It returns false while a goroutine
// that work has left behind is inside a call.
func (g *guard) finish() bool {
	g.returned.Store(true)
	if !g.mu.TryLock() {
		return false
	}
	g.mu.Unlock()
	return true
}

// abandon ends a connection that a goroutine of work does not let go of, and
// calls free when it has.
func (g *guard) abandon(free func()) {
	_ = g.conn.PgConn().Conn().Close() // ends the goroutine's call
	go func() {
		g.mu.Lock() // for good: no call is let in any more
		free()
	}()
}

// verdict says why the transaction may not be committed after work has
// returned err: err itself, a [*conflict], or what work did to the
// transaction. nil means that it may.
func (g *guard) verdict(err error) error {
	if !g.finish() {
		g.misused.Store(true)
		return cmp.Or(err, errInUse)
	}
	pc := g.conn.PgConn()
	aborted := pc.TxStatus() == 'E'
	switch {
	case isConflict(err):
		return &conflict{err}
	case aborted && isConflict(g.failure):
		return &conflict{cmp.Or(err, g.failure)}
	case err != nil:
		return err
	case pc.IsClosed():
		return unavailable("the connection was lost before COMMIT", g.failure)
	case g.misused.Load(), pc.IsBusy():
		return errInUse
	case g.undone:
		return errUndone
	case aborted:
		return fmt.Errorf("pgxstore: work returned an answer although a statement of its transaction had failed: nothing is kept; return the error, or use tx.Begin around statements that may fail: %w", cmp.Or(g.failure, errUnseen))
	case pc.TxStatus() != 'T':
		return errEnded
	}
	return nil
}

// tx is the transaction that work is given, or a savepoint of it.
type tx struct {
	*guard
	savepoint int  // 0 is the transaction itself
	done      bool // the savepoint is released or rolled back
}

var _ pgx.Tx = (*tx)(nil)

// start begins a call that sends a statement.
func (t *tx) start() error {
	if err := t.enter(); err != nil {
		return err
	}
	if t.done {
		t.leave()
		return pgx.ErrTxClosed
	}
	if t.conn.PgConn().IsBusy() {
		t.misused.Store(true)
		t.leave()
		return errInUse
	}
	return nil
}

// Begin starts a savepoint.
func (t *tx) Begin(ctx context.Context) (pgx.Tx, error) {
	if err := t.start(); err != nil {
		return nil, err
	}
	defer t.leave()
	t.savepoints++
	sp := &tx{guard: t.guard, savepoint: t.savepoints}
	if _, err := t.conn.Exec(ctx, "savepoint "+sp.name()); err != nil {
		return nil, t.note(err)
	}
	return sp, nil
}

func (t *tx) name() string { return "idemgen_" + strconv.Itoa(t.savepoint) }

// Commit releases a savepoint. On the transaction itself it is refused.
func (t *tx) Commit(ctx context.Context) error {
	return t.end(ctx, "release savepoint ")
}

// Rollback rolls back to a savepoint. On the transaction itself it is refused,
// and so is the answer of work that has called it.
func (t *tx) Rollback(ctx context.Context) error {
	if t.savepoint == 0 {
		if err := t.enter(); err != nil {
			return err
		}
		defer t.leave()
		t.undone = true
	}
	return t.end(ctx, "rollback to savepoint ")
}

func (t *tx) end(ctx context.Context, sql string) error {
	if t.savepoint == 0 {
		return errStoreEnds
	}
	if err := t.start(); err != nil {
		return err
	}
	defer t.leave()
	t.done = true
	_, err := t.conn.Exec(ctx, sql+t.name())
	return t.note(err)
}

func (t *tx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if err := t.start(); err != nil {
		return pgconn.CommandTag{}, err
	}
	defer t.leave()
	tag, err := t.conn.Exec(ctx, sql, args...)
	return tag, t.note(err)
}

func (t *tx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if err := t.start(); err != nil {
		return failedRows{err}, err
	}
	defer t.leave()
	inner, err := t.conn.Query(ctx, sql, args...)
	if err != nil {
		return failedRows{err}, t.note(err)
	}
	return &rows{Rows: inner, guard: t.guard}, nil
}

func (t *tx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if err := t.start(); err != nil {
		return failedRows{err}
	}
	defer t.leave()
	return &row{Row: t.conn.QueryRow(ctx, sql, args...), guard: t.guard}
}

func (t *tx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if err := t.start(); err != nil {
		return pgx.FailedBatchResults(b, err)
	}
	defer t.leave()
	return &batchResults{BatchResults: t.conn.SendBatch(ctx, b), guard: t.guard}
}

func (t *tx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, src pgx.CopyFromSource) (int64, error) {
	if err := t.start(); err != nil {
		return 0, err
	}
	defer t.leave()
	n, err := t.conn.CopyFrom(ctx, table, columns, src)
	return n, t.note(err)
}

func (t *tx) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	if err := t.start(); err != nil {
		return nil, err
	}
	defer t.leave()
	sd, err := t.conn.Prepare(ctx, name, sql)
	return sd, t.note(err)
}

// LargeObjects costs one more round trip: pgx makes the value only for a
// transaction of its own, so one is made around an empty query. What goes
// through it is not guarded: it must end before work returns. Where a
// statement would be refused, using the value panics.
func (t *tx) LargeObjects() pgx.LargeObjects {
	if err := t.start(); err != nil {
		return pgx.LargeObjects{}
	}
	defer t.leave()
	own, err := t.conn.BeginTx(context.Background(), pgx.TxOptions{BeginQuery: ";"})
	if err != nil {
		return pgx.LargeObjects{}
	}
	return own.LargeObjects()
}

// Conn returns the connection itself, for its type map and the like. What goes
// through it is not guarded: it must end before work returns.
func (t *tx) Conn() *pgx.Conn { return t.conn }
