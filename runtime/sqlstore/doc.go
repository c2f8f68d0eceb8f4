// Package sqlstore keeps idempotency records in the database that holds the
// business data, through database/sql and any driver. It imports none.
//
// # Guarantee
//
// What work does through its *sql.Tx and its answer are committed together,
// or not at all. For one scope, operation and key that happens at most once,
// whatever crashes in between, and every retry within the retention gets the
// answer that was committed. A crash leaves no claim behind: the key is free
// as soon as the database has rolled the transaction back.
//
// Effects outside the transaction are not covered. That includes writes
// through the pool instead of the transaction, which also wait for the
// transaction that they are in, and writes to attached databases, whose commit
// is not atomic with the main one's in WAL mode.
//
// Work returns the errors of its statements. After some, such as a full disk,
// SQLite has rolled the transaction back by itself: work that goes on gets no
// answer stored, but what it writes from then on is committed on its own.
//
// # SQLite
//
// Create the table with [Migrate], or put the statements of [Schema] into a
// migration of your own: they are also in schema/sqlite.sql, which
// golang-migrate (as an up migration) and Atlas (as a schema) take as it is,
// and goose under its line "-- +goose Up". Then open the store, which verifies
// what the guarantee needs:
//
//	db, err := sql.Open("sqlite", "file:app.db?_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)")
//	…
//	db.SetMaxOpenConns(1)
//	err = sqlstore.Migrate(ctx, db, sqlstore.SQLite)
//	…
//	store, err := sqlstore.New(ctx, db, sqlstore.SQLite)
//
// That is a data source name of modernc.org/sqlite. The same for
// github.com/mattn/go-sqlite3, whose default in WAL mode is not FULL:
//
//	file:app.db?_busy_timeout=5000&_journal_mode=wal&_synchronous=full
//
// Pragmas belong to a connection, so they must be in the name; one that is set
// with db.Exec holds for whichever connection it met. synchronous must be FULL
// or EXTRA: with NORMAL in WAL mode a power failure takes the last commits,
// answers included that clients already have.
//
// SQLite has one writer. A handler holds its turn from the claim to the
// commit, so keep handlers short; other requests wait as long as
// [WithClaimTimeout] allows. A duplicate of a request that runs in the same [Store] is
// refused in flight at once, without a connection; one that comes to another
// process waits for its turn and is replayed. Work cannot call Execute or
// Transact of its own store: it is refused, except for its own request, which
// is in flight.
//
// A pool of one connection gives the writers their turns in order and has the
// best tail of latencies. Then let replays and the application's own queries
// read through a second pool on the same file, which WAL mode keeps from
// waiting for the writer:
//
//	readers, err := sql.Open("sqlite", "file:app.db?_pragma=query_only(true)&_pragma=busy_timeout(5000)")
//	…
//	store, err := sqlstore.New(ctx, db, sqlstore.SQLite, sqlstore.WithReader(readers))
//
// An expired record is deleted when its key comes again. The others stay until
// they are swept: run [idempotency.RunSweeper] beside the server.
package sqlstore
