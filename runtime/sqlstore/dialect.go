package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
)

// Dialect is the SQL of one database. [SQLite] is the only one.
type Dialect interface {
	// schema returns the statements that create the table under its default
	// name, and do nothing where it is there.
	schema() string
	statements(table string) statements
	// verify refuses a database that cannot keep the guarantee.
	verify(ctx context.Context, db *sql.DB, c config) error
	// conflict reports whether err says that the transaction lost to another
	// one and may succeed when it is run again.
	conflict(err error) bool
}

// statements are a dialect's texts for one table. Times are Unix milliseconds
// by the database's clock.
type statements struct {
	// claim (id) deletes the record if it is expired, and in any case keeps
	// other writers out until the transaction ends.
	claim string
	// find (id) returns the clock, scope, operation, key, fingerprint, status,
	// header, body, created_at and expires_at of a record, if there is one.
	find  string
	clock string // the clock alone
	// mark opens a savepoint, and unmark closes it. A transaction that was
	// ended in between, by whatever means, has no such savepoint any more.
	mark, unmark string
	// insert (id, scope, operation, key, fingerprint, status, header, body,
	// retention in milliseconds) stores a record.
	insert string
	// release (id, created_at) deletes the record that was written then.
	release string
	// sweep (limit) deletes that many expired records.
	sweep string
}

// prepared are the statements of a request, parsed once for each connection.
type prepared struct {
	claim, mark, unmark, find, clock, insert *sql.Stmt
	read                                     *sql.Stmt // find, through the reader
}

func prepare(ctx context.Context, db, reader *sql.DB, s statements) (p prepared, err error) {
	for _, x := range []struct {
		into  **sql.Stmt
		query string
	}{
		{&p.claim, s.claim},
		{&p.mark, s.mark},
		{&p.unmark, s.unmark},
		{&p.find, s.find},
		{&p.clock, s.clock},
		{&p.insert, s.insert},
	} {
		if *x.into, err = db.PrepareContext(ctx, x.query); err != nil {
			return prepared{}, fmt.Errorf("sqlstore: prepare %s: %w", x.query, err)
		}
	}
	if p.read, err = reader.PrepareContext(ctx, s.find); err != nil {
		return prepared{}, fmt.Errorf("sqlstore: the reader cannot read the store's table: open it on the same database: %w", err)
	}
	return p, nil
}
