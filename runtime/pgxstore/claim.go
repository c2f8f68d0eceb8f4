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
	conn *pgxpool.Conn
	pc   *pgconn.PgConn

	held     bool    // the claim is ours
	seen     bool    // no claim was made because a live record is there
	began    [8]byte // now() in the transaction, as the server sent it
	readOnly bool
	record   *record // what was found, live or expired
}

// conflict says that a transaction lost against another one, and that a new
// one may do better.
type conflict struct{ err error }

func (c *conflict) Error() string { return c.err.Error() }
func (c *conflict) Unwrap() error { return c.err }

// connect takes a connection out of the pool, and says until when the claim
// must be answered. Every attempt ends with [attempt.rollback] or
// [attempt.done].
func (s *Store) connect(ctx context.Context) (*attempt, time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.claimTimeout)
	defer cancel()
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, time.Time{}, unavailable("no database connection could be had", err)
	}
	deadline, _ := ctx.Deadline()
	return &attempt{Store: s, conn: conn, pc: conn.Conn().PgConn()}, deadline, nil
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

// claim begins a transaction, tries to take the claim of id and reads its
// record: one round trip. It does not judge what it finds. Where advisory
// locks work, the claim is such a lock, which is not asked for if there is a
// live record; elsewhere it is a row that nobody else can see yet, for which a
// second claim waits a moment.
//
// The record is read by a statement of its own: one that took the lock and
// read in one go could miss a record committed in between.
func (a *attempt) claim(deadline time.Time, id idempotency.Identity) error {
	hash, lock := id.Hash()
	row := a.sql.row.with(hash[:]).into(a.found)
	var err error
	if a.insertFirst {
		_, _, err = pipeline(a.pc, deadline, a.sql.begin.with(), a.sql.enterInsert.with().into(a.entered),
			a.sql.hold.with(hash[:]), a.sql.reserve.with(hash[:]), a.sql.restore.with(), row)
	} else {
		_, _, err = pipeline(a.pc, deadline, a.sql.begin.with(), a.sql.enter.with(encodeInt8(lock^a.space), hash[:]).into(a.entered), row)
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
func (a *attempt) begin(deadline time.Time) error {
	_, _, err := pipeline(a.pc, deadline, a.sql.begin.with(), a.sql.enterPlain.with().into(a.entered))
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

// live reports whether the claim has found a record that is still kept.
func (a *attempt) live() bool { return a.record != nil && !a.record.expired }

// answer returns the stored answer to req.
func (r *record) answer(req idempotency.Request) (idempotency.Response, error) {
	// Another identity with the same 16 bytes is a mismatch, never its answer.
	if r.Identity != req.Identity || !req.Matches(r.Fingerprint) {
		return idempotency.Response{}, idempotency.ErrMismatch
	}
	return r.response()
}
