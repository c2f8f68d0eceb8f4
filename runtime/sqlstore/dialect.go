package sqlstore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// Dialect is the SQL of one database: [SQLite], [MySQL] or [PostgreSQL].
type Dialect interface {
	// own is a query that only this database answers.
	own() string
	// checkTable refuses a table's name that could be more than a name.
	checkTable(name string) error
	// schema returns the statements that create the table.
	schema(table string) string
	// migrate creates the table where it is missing.
	migrate(ctx context.Context, db *sql.DB, table string) error
	// open refuses a database that cannot keep the guarantee.
	open(ctx context.Context, db *sql.DB, c config) (engine, error)
}

// recognize refuses a database of another kind, and one that does not answer.
func recognize(ctx context.Context, db *sql.DB, d Dialect) error {
	answer := make(chan error, 1)
	go func() { answer <- ask(ctx, db, d) }()
	select {
	case err := <-answer:
		if ctx.Err() == nil {
			return err
		}
	case <-ctx.Done(): // not every driver heeds it while it connects
	}
	return fmt.Errorf("connect: %w; is the address in the data source name that of such a server?", context.Cause(ctx))
}

func ask(ctx context.Context, db *sql.DB, d Dialect) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close()
	var answer any
	if err := conn.QueryRowContext(ctx, d.own()).Scan(&answer); err != nil {
		return fmt.Errorf("%s: %w; was sqlstore given the right dialect?", d.own(), err)
	}
	return nil
}

// engine makes the steps of an attempt in one database.
type engine interface {
	keeper
	leaser
	prober
	// oneWriter says that a transaction keeps all others out. Then the record
	// is looked for before the turn to write is waited for, and work that would
	// wait for its own turn is refused.
	oneWriter() bool
	// claim tries to take the claim of k and reads its record. Where the claim
	// is held and there is no live record, it has begun the transaction. An
	// attempt that is returned must be ended.
	claim(ctx context.Context, k key) (*attempt, error)
	// plain begins a transaction without a claim.
	plain(ctx context.Context) (*attempt, error)
	// check returns an error unless the transaction of a is still the one that
	// was begun, and can be committed. [engine.insert] may do it instead where
	// a has a claim.
	check(ctx context.Context, a *attempt) error
	// insert stores the record of a claimed request, in place of one that is over.
	insert(ctx context.Context, a *attempt, k key, req idempotency.Request, kept answer) error
	// judge says what err means for the transaction in which it came.
	judge(err error) verdict
	// proves says that an attempt that has the claim and finds no record shows
	// that no other one can still be committed.
	proves() bool
}

// prober is what an engine does for [Store.probe] besides.
type prober interface {
	// reread reads the record of k in the transaction of a.
	reread(ctx context.Context, a *attempt, k key) (*record, error)
	// remedy says what to do about its error, or nothing.
	remedy(err error) string
}

// keeper is what an engine does for operators, outside of attempts.
type keeper interface {
	// find reads the clock and the record of id, outside a transaction. The record
	// is nil where there is none.
	find(ctx context.Context, id [16]byte) (now int64, r *record, err error)
	// sweep deletes at most limit expired records, or none while another
	// sweeper is at work, and says how many.
	sweep(ctx context.Context, limit int) (int64, error)
	// listing is how records are listed and counted.
	listing() listing
}

// verdict is what an error says about the transaction in which it came.
type verdict int

const (
	unclear  verdict = iota // nothing: the connection may be lost
	conflict                // it lost to another one, and may succeed when it is run again
	taken                   // the record is there: another attempt has completed the request
	ended                   // it is not the one that was begun
	refused                 // the database refuses it, and has rolled it back or will
)

// key names a record, and its claim where that is a number.
type key struct {
	id   [16]byte
	lock int64
}

func keyOf(id idempotency.Identity) (k key) {
	k.id, k.lock = id.Hash()
	return k
}

// matches walks the tree of err until is agrees with one of its errors.
func matches(err error, is func(error) bool) bool {
	for err != nil {
		if is(err) {
			return true
		}
		switch e := err.(type) { //nolint:errorlint // this is the walk
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			for _, inner := range e.Unwrap() {
				if matches(inner, is) {
					return true
				}
			}
			return false
		default:
			return false
		}
	}
	return false
}

// once executes a statement on one connection. Through a pool it is sent again
// where a driver says that it may, and some do so when its answer is lost.
func once(ctx context.Context, db *sql.DB, query string, args ...any) (int64, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	return affected(conn.ExecContext(ctx, query, args...))
}

// patiently executes a statement, a transaction of its own, on one connection. It
// waits for the answer no longer than ctx allows, but does not cancel what has
// no answer yet: see [attempt].
func patiently(ctx context.Context, db *sql.DB, query string, args ...any) (int64, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return 0, err
	}
	type outcome struct {
		n   int64
		err error
	}
	answer := make(chan outcome, 1)
	go func() {
		defer conn.Close()
		n, err := affected(conn.ExecContext(context.WithoutCancel(ctx), query, args...))
		answer <- outcome{n, err}
	}()
	select {
	case got := <-answer:
		return got.n, got.err
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// stored makes sure that an INSERT has stored its record.
func stored(result sql.Result, err error) error {
	n, err := affected(result, err)
	if err == nil && n != 1 {
		err = errDropped
	}
	return err
}

// affected is how many rows a statement has changed.
func affected(result sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}
