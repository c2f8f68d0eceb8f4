// Package redisstore keeps idempotency records in Redis, on a single server or
// a Redis Cluster, through go-redis v9, and gives handlers a [Tx] that takes their
// own Redis writes.
//
//	client := redis.NewClusterClient(&redis.ClusterOptions{
//		Addrs:                 addrs,
//		ContextTimeoutEnabled: true, // deadlines hold
//	})
//	store, err := redisstore.New(ctx, client)
//
// # What it guarantees
//
// Atomic with business writes: yes, with those queued on the [Tx]. They are
// applied in the same script that stores the answer, all or nothing. A command
// that fails (another type, out of range, no permission) is undone with all
// before it: Redis itself would keep them, so the script saves their keys first.
// Effects elsewhere, in a database or over HTTP, are not covered.
//
// Fenced: yes. A claim carries a random token that no other attempt has, not
// even one of the same process. Completion checks it in the same step, so an
// attempt that was stalled for longer than its lease keeps nothing, whether
// another has taken over or not.
//
// Survives failover: not all of it. Redis replicates asynchronously, and a master
// that dies can take the last answers that it acknowledged with it. Answer and
// queued writes are lost together, since they are replicated as one
// transaction. So a retry executes again and the writes are there once; but a
// client has seen an answer that is not true any more, and what the first run
// did outside Redis is done twice. min-replicas-to-write on the server bounds
// how much can be lost; [WithReplicas] acknowledges and replays what replicas have
// received, at a price, and makes losses rarer. Neither prevents them.
// Where an answer must not be lost, use a store on a SQL database.
//
// The same holds for a server that restarts without its last writes: use
// appendonly yes, and appendfsync always where they matter.
//
// # How it works
//
//	claim: read the record, or set the token and the lease    one round trip
//	work, which queues writes
//	complete: check the token, apply, store the answer        one round trip
//
// Each step is a Lua script on the record's key, a hash that holds scope,
// operation and key readably and is "idempotency:{id}". A record that is found
// decides: it is replayed or refused as a mismatch. Time is the server's, also
// for keys that carry one; a replica that takes over goes on by its own clock. A
// record ends by its time to live, which counts from completion; there is nothing
// to sweep.
//
// A claim has a lease of 30 s, see [WithLease], that is extended while work
// runs. A process that dies leaves its key in flight for the rest of it. Each
// script may be sent any number of times: go-redis sends a command again when
// its answer is lost, and the token tells the attempt its own claim and its own
// completion from a rival's. A completion that is not answered is repeated for
// 10 s; if it still is not, the outcome is unknown, or the request unavailable
// where none could be sent, and the claim is left to its lease. One that is
// refused is settled by giving the claim up: then nothing was kept for certain,
// or an earlier one has stored the answer. Where an answer was lost and the
// record is gone before anybody looked, since it has expired or was released,
// the outcome is unknown too.
//
// # Business writes
//
// On a Redis Cluster all keys that one step writes must share a hash slot.
// [Tx.Key] makes keys in the record's slot. For keys that other requests write
// to as well, such as an account's balance, tell the store by [WithHashTag] which
// slot the account has; the record then lies there too. A command with a key in
// another slot is refused when it is queued. A single server takes any key.
// Slots may move between masters at any time: what is refused meanwhile is sent
// again.
//
// When more than one command is queued, the server first copies the keys of all
// but the last, whole, to undo them. While it copies it serves nobody: a stream
// of 100,000 entries took 14 ms in a trial, a hash of as many fields 110 ms. The
// copy needs memory as large as the keys until the step is over. So keep to
// small keys, and queue the write to a big one, such as a stream that serves as
// an outbox, last. What adds one element to a big set, hash or sorted set costs
// the whole of it where it is not last, and so do DEL, RENAME and SUNIONSTORE
// of a big key.
//
// Queued writes are not isolated from reads that work makes before: another
// client can change a value between a read and the completion. Use commands
// that do not depend on what was read, such as INCRBY, or keep other writers
// out by sharing the key of the request.
//
// # Lease mode
//
// The store is no [idempotency.Leaser]: a handler in lease mode, whose effects lie
// outside of the database, needs a store on a SQL database, and this one does not
// compile there.
//
// # Servers and clients
//
// [New] verifies the server's version (7.0 or later), that it does not evict
// keys, and that the user may do what is needed; see there. Tests run on Redis
// 7.0: a single server, a master under Redis Sentinel, and a cluster of three
// masters with replicas. Valkey and later versions of Redis have the same
// commands and are not tested.
//
// The store's commands are scripts, which go-redis never sends to replicas: the
// options ReadOnly, RouteByLatency and RouteRandomly do no harm.
//
// For a fast failover set DialerRetries to 1 and, on a cluster,
// ClusterStateReloadInterval to a second. With go-redis's defaults, 5 and a
// minute, requests to the slots of a master that has died can fail for several
// times as long as the servers need to elect another. docs/reliability.md has
// figures.
package redisstore
