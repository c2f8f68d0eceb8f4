package sqlstore

import (
	"context"
	"database/sql"
)

// Dialect is the SQL of one database. [SQLite] is one.
type Dialect interface {
	// schema returns the statements that create the table under its default
	// name, and do nothing where it is there.
	schema() string
	statements(table string) statements
	// verify refuses a database that cannot keep the guarantee.
	verify(ctx context.Context, db *sql.DB, c config) error
	// verifyReader refuses one that does not hold the table.
	verifyReader(ctx context.Context, db *sql.DB, c config) error
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
	// find (id) returns one row: the clock, then scope, operation, key,
	// fingerprint, status, header, body, created_at and expires_at, which are
	// NULL where there is no record.
	find string
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
