package pgxstore

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// attempt is one transaction of the store, from its first statement to its
// end, on the one connection that a request holds.
type attempt struct {
	*Store
	conn    *pgxpool.Conn
	pc      *pgconn.PgConn
	claimBy time.Time // when the claim must be answered
	id      [16]byte  // of the record
	lock    int64     // a hash of the identity, for the advisory lock

	held     bool    // the claim is ours
	seen     bool    // no claim was made because a live record is there
	began    [8]byte // now() in the transaction, as the server sent it
	readOnly bool
	record   *record // what was found, live or over
}

// conflict says that a transaction lost against another one, and that a new
// one may do better.
type conflict struct{ err error }

func (c *conflict) Error() string { return c.err.Error() }
func (c *conflict) Unwrap() error { return c.err }

// connect takes a connection out of the pool for an attempt at id, which is
// zero where no record is concerned. Every attempt ends with
// [attempt.rollback] or [attempt.done].
func (s *Store) connect(ctx context.Context, id idempotency.Identity) (*attempt, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.claimTimeout)
	defer cancel()
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, unavailable("no database connection could be had", err)
	}
	a := &attempt{Store: s, conn: conn, pc: conn.Conn().PgConn()}
	a.claimBy, _ = ctx.Deadline()
	a.id, a.lock = id.Hash()
	return a, nil
}

// done gives the connection back. The pool closes one that is not idle.
func (a *attempt) done() { a.conn.Release() }

// rollback ends the transaction, whatever state it is in, and gives the
// connection back. The caller's context does not matter to it.
func (a *attempt) rollback() {
	defer a.done()
	switch {
	case a.pc.IsClosed():
	case a.pc.IsBusy():
		kill(a.pc)
	case a.pc.TxStatus() != 'I':
		// If this fails, the pool finds the transaction open and closes the
		// connection, which ends the transaction as well.
		_, _, _ = pipeline(a.pc, a.finishBy(), a.sql.rollback.with())
	}
}

// finishBy is when a commit or rollback that starts now must be answered.
func (a *attempt) finishBy() time.Time { return time.Now().Add(a.cfg.finishTimeout) }

// recall reads the record, by itself, if this process has seen it lately, and
// reports whether it is live: then a replay needs no transaction. Whatever
// else is the case the claim finds out.
func (a *attempt) recall() bool {
	if !a.recent.has(a.lock) || !sessionOf(a.pc).known {
		return false
	}
	if _, _, err := pipeline(a.pc, a.claimBy, a.sql.recall.with(a.id[:]).into(a.found)); err == nil && a.live() {
		return true
	}
	a.record = nil
	a.recent.remove(a.lock)
	return false
}

// replay answers req from the live record. Where that takes no more than a
// rollback, nobody waits for it. The connection is given back before the answer
// is decoded.
func (a *attempt) replay(ctx context.Context, req idempotency.Request) (idempotency.Result, error) {
	switch err := a.record.answers(req); {
	case err != nil:
		a.rollback()
		return idempotency.Result{}, err
	case a.pc.TxStatus() == 'I':
		a.done()
	default:
		go a.rollback() // each holds a connection of the pool, so there are never many
	}
	a.recent.add(a.lock)
	resp, err := a.record.response(ctx, a.cfg.codec)
	return idempotency.Result{Response: resp, Replayed: err == nil}, err
}

// claim begins a transaction by begin, tries to take the claim and reads the
// record: one round trip. It does not judge what it finds. Where advisory
// locks work, the claim is such a lock, which is not asked for if there is a
// live record; elsewhere it is a row that nobody else can see yet, for which a
// second claim waits a moment.
//
// The record is read by a statement of its own: one that took the lock and
// read in one go could miss a record committed in between. At REPEATABLE READ
// and SERIALIZABLE it can be missed all the same: a transaction that inserts a
// record is refused then, and one that does not begins by beginOwn.
func (a *attempt) claim(begin *statement) error {
	id := a.id[:]
	row := a.sql.row.with(id).into(a.found)
	var err error
	if a.insertFirst {
		_, _, err = pipeline(a.pc, a.claimBy, begin.with(), a.sql.enterInsert.with().into(a.entered),
			a.sql.hold.with(id), a.sql.reserve.with(id), a.sql.restore.with(), row)
	} else {
		_, _, err = pipeline(a.pc, a.claimBy, begin.with(), a.sql.enter.with(encodeInt8(a.lock^a.space), id).into(a.entered), row)
	}
	switch {
	case state(err) == stateLockTimeout:
		a.held = false // another attempt is at work
		return nil
	case isConflict(err), isUnprepared(err):
		return &conflict{err}
	case err != nil:
		return unavailable("the key could not be claimed", err)
	case a.seen && !a.live():
		return &conflict{errVanished}
	case a.readOnly:
		return unavailable("the database takes no writes: it is a standby, or default_transaction_read_only is on; connect to the primary", nil)
	}
	return nil
}

// errVanished says that a record was released or swept while it was claimed.
var errVanished = errors.New("the record was deleted at this moment")

// entered takes the row of an enter statement.
func (a *attempt) entered(v [][]byte) error {
	if len(v) < 4 || len(v[0]) > 1 || len(v[1]) != 8 || len(v[2]) != 1 || len(v[3]) != 4 {
		return errProtocol
	}
	a.seen = len(v[0]) == 0 // null
	a.held = !a.seen && v[0][0] == 1
	copy(a.began[:], v[1])
	a.readOnly = v[2][0] == 1
	sessionOf(a.pc).met(a.pc, decodeUint4(v[3]))
	return nil
}

// begin begins a transaction without a claim.
func (a *attempt) begin() error {
	_, _, err := pipeline(a.pc, a.claimBy, a.sql.begin.with(), a.sql.enterPlain.with().into(a.entered))
	if err != nil {
		return unavailable("no transaction could be begun", err)
	}
	return nil
}

// found takes the row of a record.
func (a *attempt) found(v [][]byte) (err error) {
	a.record, err = decodeRecord(v)
	return err
}

// live reports whether the claim has found a record that is still kept, and if
// it is a claim of a lease, one whose lease has not passed.
func (a *attempt) live() bool {
	return a.record != nil && !a.record.expired && !a.record.passed
}

// admit judges a request that may run as far as records are concerned. One that
// takes over a claim has begun before, whatever the age of its key.
func (a *attempt) admit(req idempotency.Request) error {
	if r := a.record; r != nil && !r.expired {
		return r.of(req)
	}
	return req.CheckAge(decodeTime(a.began[:]))
}
