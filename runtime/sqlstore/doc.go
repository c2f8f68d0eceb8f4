// Package sqlstore keeps idempotency records in the database that holds the
// business data, through database/sql and any driver. It imports none. There is
// a [Dialect] for SQLite, for MySQL and MariaDB, and for PostgreSQL.
//
// # Guarantee
//
// What work does through its *sql.Tx and its answer are committed together,
// or not at all. For one scope, operation and key that happens at most once,
// whatever crashes in between, and every retry within the retention gets the
// answer that was committed. A crash leaves no claim behind: the key is free
// as soon as the database has rolled the transaction back.
//
// The record's unique key is the guarantee. The claim, which is the turn to
// write on SQLite and a lock elsewhere, is the early sign that answers a
// duplicate at once instead of letting it run in vain; a record that is found
// decides, whoever holds the claim. A failover keeps the guarantee as far as the
// database keeps commits: use synchronous replication.
//
// Effects outside the transaction are not covered. That includes writes
// through the pool instead of the transaction, and on SQLite those to attached
// databases, whose commit is not atomic with the main one's in WAL mode; on
// MySQL those to tables of an engine without transactions, such as MyISAM.
//
// Work leaves COMMIT and ROLLBACK to the store. Where it has ended its
// transaction, by whatever means, nothing is stored, and the error is
// transaction_ended: what it has committed is not protected against a second
// run. Work returns the errors of its statements. After some, such as a full
// disk on SQLite or a deadlock on MySQL, the database has rolled the transaction
// back by itself: work that goes on gets no answer stored, but what it writes
// from then on is committed on its own.
//
// A request holds one connection of the pool. Work that executes another request
// meanwhile, or sends statements through the pool, needs a second one: where work
// of that kind holds all connections, each waits until [WithClaimTimeout], or the
// context of the statement, ends it. On SQLite such a request is refused at once.
//
// Serialization failures and deadlocks run work again, at most three times in
// all. When the connection is lost in COMMIT, the store claims the key again on
// another one for up to 5 s: a record means that it was committed, the claim
// without a record that it was not, and otherwise the outcome is unknown.
//
// # Leases
//
// For handlers whose effects lie outside of the database the store keeps claims
// as rows of the same table ([idempotency.Leases]). A claim is committed before
// the handler runs, by two statements, and becomes the answer afterwards, by
// one; so does each extension cost one. Every statement is a transaction of its
// own and one round trip, with lib/pq two, and between them no connection is
// held. Each change of a claim asks for its token, so that an attempt that has
// lost its lease changes nothing; a claim whose lease has passed by the
// database's clock is taken over by one of those who try. A step that loses a
// conflict is made again, as is one whose answer was lost. A failover keeps
// claims as far as the database keeps commits. What the handler does elsewhere is
// as safe as the key that it gives to the other system: see [idempotency.Derive].
//
// # The table
//
// Create it with [Migrate] as a step of its own, or put the statements of
// [Schema] into a migration of your own: they are also in schema/sqlite.sql,
// schema/mysql.sql and schema/postgresql.sql, which golang-migrate (as an up
// migration) and Atlas (as a schema) take as they are, and goose under its line
// "-- +goose Up". [New] changes nothing; it verifies what the guarantee needs. To a
// table of an earlier version Migrate adds the two columns of leases; the error of
// New has the statement that does the same.
//
// An expired record is replaced when its key comes again. The others stay until
// they are swept: run [idempotency.RunSweeper] beside the server.
//
// # SQLite
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
// is in flight. The steps of leases wait for their turn too: a handler that holds
// it for longer than a lease costs others theirs.
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
// # MySQL and MariaDB
//
//	db, err := sql.Open("mysql", "app:secret@tcp(db.internal:3306)/shop")
//	…
//	store, err := sqlstore.New(ctx, db, sqlstore.MySQL) // the table is there: see Migrate
//
// The claim is GET_LOCK with no wait, on the connection that the request holds
// anyway; a request never needs a second one. The lock is given back by its
// name, and where that fails its session is ended.
//
// Work runs at the session's own isolation level. One statement outside the
// transaction takes the lock and then reads the record, with a snapshot of its
// own; so a record that was just committed is seen at REPEATABLE READ too, and
// nothing is locked but a row that is there. READ UNCOMMITTED is refused, and
// so is autocommit=0. Other settings of a data source name do not matter to the
// store: clientFoundRows, parseTime, loc, interpolateParams, multiStatements,
// charset, time_zone, sql_mode. Answers that are larger than the server's
// max_allowed_packet are refused before they are sent (response_too_large).
//
// InnoDB without a binary log shows a commit to others before it is on the disk. A
// replay that comes at that moment waits for the end of the COMMIT, for a second
// at most. Answers of leases are replayed at once: set innodb_flush_log_at_trx_commit=1,
// log_bin and sync_binlog=1, with which nothing is shown too early.
//
// A statement that commits by itself, such as CREATE TABLE or LOCK TABLES, ends
// the transaction of work: transaction_ended.
//
// A first request makes five round trips more than its bare transaction: claim,
// SAVEPOINT, RELEASE SAVEPOINT (by which a transaction is known to be the same),
// the record, and giving the lock back. A replay makes two.
//
// The transaction ends with its connection, but a server notices late that a
// client has vanished. Bound that with idle_transaction_timeout=60 in the data
// source name on MariaDB, and with wait_timeout elsewhere. The driver's
// readTimeout bounds a server that has vanished.
//
// In a Galera cluster all nodes may write. The early sign holds on a node: a
// duplicate that comes to another node while the first attempt runs may run as
// well, and is rolled back when it comes to commit, then replayed. Handlers with
// effects outside the transaction should therefore send all requests of a
// client to one node. Claims and lookups wait for what the cluster has committed
// (wsrep_sync_wait), on MariaDB by themselves. The fate of a COMMIT that is lost
// with its node is unknown until the record is found. Claims of leases are
// records, so that they hold on all nodes, and their steps may be made on any. A
// transaction that runs while a claim of its key is made on another node is rolled
// back.
//
// Tested are MariaDB and its Galera cluster. Behind a proxy that shares sessions
// among clients, locks must stay with their client.
//
// # PostgreSQL
//
//	db, err := sql.Open("pgx", "postgres://app:secret@db.internal/shop")
//	…
//	store, err := sqlstore.New(ctx, db, sqlstore.PostgreSQL)
//
// This is for applications that use database/sql, with pgx/v5/stdlib or lib/pq.
// Those that use pgx itself take package pgxstore, which adds no round trip.
// Both have the same table and the same locks, so that both can serve the same
// keys at the same time. One that pgxstore has partitioned serves this package
// too, but its partitions are made and dropped by pgxstore's Sweep alone: the one
// of this package deletes records.
//
// Work runs at READ COMMITTED. The claim is a transaction's advisory lock, taken
// by one statement and followed by a second one that reads the record, since one
// that did both could miss a record committed in between. A first request makes
// three round trips more than its bare transaction (lib/pq: two for each
// statement with parameters), a replay two before its answer and one after.
//
// PgBouncer in transaction mode works where the driver is set up for it:
// default_query_exec_mode=exec, or binary_parameters=yes. Set
// idle_in_transaction_session_timeout and client_connection_check_interval for
// the role, so that a client that stalls or vanishes does not hold its key.
// Servers on which advisory locks keep nobody out are refused.
package sqlstore
