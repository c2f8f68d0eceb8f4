// Package pgxstore keeps idempotency records in PostgreSQL, through pgx, and
// gives handlers a pgx.Tx.
//
//	pool, err := pgxpool.New(ctx, dsn)
//	…
//	store, err := pgxstore.New(ctx, pool) // the table is there: see Migrate
//
// # What it guarantees
//
// What a handler writes through the transaction it is given and the answer
// that it returns are committed together or not at all. A process that dies at
// any point leaves both or neither, and its key is free as soon as the server
// has noticed: there is no row to clean up and no lease to wait for.
//
// The unique index on the record's id is the guarantee. An advisory lock is
// only the early sign that answers a duplicate at once instead of letting it
// run in vain; it holds for the transaction, so a duplicate never waits for
// the first request and never keeps a connection from it.
//
// # How it works
//
// A first request makes the round trips of its bare transaction and no more:
//
//	BEGIN; try the lock; SELECT the record                  one round trip
//	the handler's statements
//	INSERT the finished record; COMMIT                      one round trip
//
// A record that is found decides, whoever holds the lock: it is replayed,
// refused as a mismatch, or replaced in the same transaction if it has
// expired. No live record and no lock means in flight. A replay is answered
// after the first round trip; its ROLLBACK follows in the background, on the
// connection that the replay still holds, so there are never more of them than
// the pool has connections, and closing the pool waits for them. A replay never
// takes the lock.
//
// A store remembers some thousand hashes of requests that it has lately
// completed or replayed. When one of them comes again, it first reads the
// record by itself: a live one decides without any transaction. If it has gone
// meanwhile, the request goes on as a first one, a round trip later.
//
// When the connection is lost in COMMIT, the store claims the key again on
// another one. The lost transaction holds the lock to its end, so a record
// means that it was committed, a lock without a record that it was not; if
// neither can be had for 5 s the outcome is unknown. A server that fails over
// to a standby keeps the guarantee as far as it keeps commits: use synchronous
// replication.
//
// Serialization failures and deadlocks run the handler again, at most three
// times in all.
//
// Time is the server's: now() at the start of the transaction judges expiry
// and keys, and what is stored are timestamptz, whatever the sessions' time
// zones are.
//
// # Leases
//
// For handlers whose effects lie outside of the database the store keeps claims
// as rows of the same table ([idempotency.Leases]): a claim is committed before
// the handler runs, in two round trips, and becomes the answer afterwards, in
// one. Between them no connection is held. Each change of a claim asks for its
// token, in one statement, so that an attempt that has lost its lease changes
// nothing; a claim whose lease has passed by the server's clock is taken over by
// one of those who try. A server that fails over keeps claims as far as it keeps
// commits. What the handler does elsewhere is as safe as the key that it gives
// to the other system: see [idempotency.Derive].
//
// # The pool
//
// A request holds one connection at most, so any pool size works; a pool of
// its own is not needed. Work that executes another request meanwhile, or sends
// statements through the pool, needs a second one: where work of that kind holds
// all connections, each waits until the claim timeout, or the context of the
// statement, ends it.
//
// The store sends the statements of requests below pgx's query interface: query
// tracers see the handler's statements, those of List and Stats, and those that
// keep partitions up. On a connection that leads straight to the server they stay
// prepared, under names that begin with idemgen_; DISCARD ALL between two
// requests costs only time.
//
// The handler's transaction ends with its connection, but a server notices
// late that a client has stalled or vanished. Inside its transactions the
// store therefore sets idle_in_transaction_session_timeout and
// client_connection_check_interval, unless the session has them: see
// [WithSessionLimits]. Against hosts that vanish without closing their
// connections set tcp_keepalives_idle and tcp_user_timeout on the server.
//
// # PgBouncer
//
// Transaction mode works with the pool's default settings as far as the store
// is concerned: it keeps no session state, and sees by the server's process
// number that a pooler is between, where it prepares nothing. The handler's
// own statements need default_query_exec_mode=exec in the connection string,
// or PgBouncer 1.21 with max_prepared_statements.
//
// # The table
//
// [Migrate] creates it where it is missing; run it as a step of its own, not
// at every start. With goose, golang-migrate, Atlas or psql use what [Schema]
// returns, which is also in schema.sql: plain CREATE statements, made for a
// migration of your own. On PostgreSQL 14 and later built with lz4, add
//
//	ALTER TABLE idempotency_records ALTER COLUMN body SET COMPRESSION lz4;
//
// as Migrate does. To a table of an earlier version it adds what it lacks:
//
//	ALTER TABLE idempotency_records ADD COLUMN lease_token uuid, ADD COLUMN lease_until timestamptz;
//
// [New] only checks. The user of the server needs SELECT,
// INSERT, UPDATE and DELETE on the table. A handler that switches to another
// role leaves it to that role to INSERT the record, unless it resets the role.
//
// Expired records are replaced when their key comes again, and otherwise stay
// until they are swept: run idempotency.RunSweeper beside the server.
//
// # Partitions
//
// Where keys are UUIDv7, as format: uuidv7 demands, the id of a record begins with
// the time of its key. [WithPartitions] makes [Migrate] and [Schema] create the table
// partitioned by that: a key always falls into the same partition, so that the
// unique index still holds, and a partition whose records have all expired is
// dropped, which costs next to nothing, instead of its records one by one.
//
// [Store.Sweep] keeps the partitions up, as a user who owns the table. It makes those
// of the next seven widths, in UTC. It drops one when keys of its time come no more
// and its last record has expired: retention counts from the completion, so that a
// key that was used late keeps its partition for longer, with what has expired in
// it. Where the last record has more than two widths to go, the expired ones are
// deleted as in an ordinary table. So give operations with retentions far apart
// tables of their own.
//
// Keys of any other form work too. Records whose id is a hash are kept in a partition
// that is never dropped, one of 64 in the default one, and are deleted one by one.
// The default partition also takes what no other one does: keys of times that have
// no partition any more, or none yet because nobody has swept for a week. Nothing
// but the cheap deletion is lost by that. Partitions are worth their trouble where
// nearly all keys are UUIDv7 and a sweep has millions of records to delete.
//
// A partition is dropped under a lock on the whole table, for which every request
// that runs must end, and later ones wait meanwhile. Sweep gives up after a moment
// ([WithSweepWait]) and then only empties the partition, for which no request needs
// to end but one with a key of its time; the next sweep tries again. In the same way
// a new partition waits for requests with a record in the default one.
//
// On a partitioned table the store's statements are planned anew each time, since a
// plan that is kept locks all partitions. That costs the server more for every
// request: docs/benchmarks.md says how much.
//
// # Other servers
//
// Where advisory locks do not work, as on some that speak PostgreSQL's
// protocol, [New] finds out and the claim is a row instead, inserted at the
// start of the transaction and replaced at its end: a duplicate waits for it
// for 50 ms and is then in flight. The guarantee is the same. Only PostgreSQL
// itself is tested.
package pgxstore
