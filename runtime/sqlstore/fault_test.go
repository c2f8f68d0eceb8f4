package sqlstore_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strings"
	"testing"

	"modernc.org/sqlite"
)

// faults is the driver with a hook at the ends of a transaction, where a test
// can fail the call, lose its answer, kill the process or be another one.
type faults struct {
	dsn  string
	hook func(moment) error
}

// moment is a point in a transaction's life.
type moment string

const (
	beforeBegin  moment = "before BEGIN"
	inWork       moment = "in work" // not the driver's: work itself
	beforeCommit moment = "before COMMIT"
	afterCommit  moment = "after COMMIT"
	beforeExec   moment = "before a statement that is not prepared"

	beforeTakeOver   moment = "before a claim is taken over"
	beforeClaim      moment = "before the claim of a lease"
	afterClaim       moment = "after the claim of a lease"
	afterEffect      moment = "after the effect of a lease"
	beforeCompletion moment = "before the completion of a lease"
	afterCompletion  moment = "after the completion of a lease"
)

// moments are when a statement is carried out that contains the text.
var moments = []struct {
	text          string
	before, after moment
}{
	{"INSERT INTO main", beforeClaim, afterClaim},
	{"SET lease_token", beforeTakeOver, ""},
	{"INSERT INTO effects", "", afterEffect},
	{"SET lease_until = NULL", beforeCompletion, afterCompletion},
}

func openFaults(t testing.TB, file string, hook func(moment) error) *sql.DB {
	t.Helper()
	db := sql.OpenDB(&faults{dsn: "file:" + file + "?" + pragmas + "_pragma=journal_mode(wal)", hook: hook})
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func (f *faults) Driver() driver.Driver { return &sqlite.Driver{} }

func (f *faults) Connect(context.Context) (driver.Conn, error) {
	c, err := f.Driver().Open(f.dsn)
	if err != nil {
		return nil, err
	}
	return faultyConn{c.(conn), f.hook}, nil
}

type conn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

type faultyConn struct {
	conn
	hook func(moment) error
}

func (c faultyConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if err := c.hook(beforeBegin); err != nil {
		return nil, err
	}
	tx, err := c.conn.BeginTx(ctx, opts)
	return faultyTx{tx, c.hook}, err
}

func (c faultyConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if err := c.hook(beforeExec); err != nil {
		return nil, err
	}
	for _, m := range moments {
		if !strings.Contains(query, m.text) {
			continue
		}
		if err := c.hook(m.before); err != nil {
			return nil, err
		}
		res, err := c.conn.ExecContext(ctx, query, args)
		if err == nil {
			err = c.hook(m.after)
		}
		return res, err
	}
	return c.conn.ExecContext(ctx, query, args)
}

type faultyTx struct {
	driver.Tx
	hook func(moment) error
}

func (t faultyTx) Commit() error {
	if err := t.hook(beforeCommit); err != nil {
		_ = t.Rollback()
		return err
	}
	if err := t.Tx.Commit(); err != nil {
		return err
	}
	return t.hook(afterCommit)
}
