// Package dynamostore keeps idempotency records in Amazon DynamoDB, through
// aws-sdk-go-v2, and gives handlers a [Tx] that takes their own DynamoDB writes.
//
//	client := dynamodb.NewFromConfig(cfg)
//	store, err := dynamostore.New(ctx, client, "idempotency")
//
// # What it guarantees
//
// Atomic with business writes: yes, with those queued on the [Tx]. They are
// written in the same TransactWriteItems that stores the answer, all or nothing.
// Effects elsewhere, also those of other calls to DynamoDB, are not covered.
//
// Fenced: yes. A claim carries a random token that no other attempt has, not
// even one of the same process. Completion checks it in the same step, so an
// attempt that was stalled while another took over keeps nothing.
//
// Survives failover: yes, within a region. DynamoDB acknowledges a write when it
// is durable in several availability zones, and the store reads consistently.
// Replicas of a global table in other regions are written to later: two regions
// that serve the same keys both execute them. Serve a key in one region.
//
// # How it works
//
//	claim: PutItem, if no record and no live claim is there    one round trip
//	work, which queues writes
//	complete: PutItem, if the token is still there             one round trip
//	   or TransactWriteItems, where writes are queued
//
// A record that is found decides: it is replayed or refused as a mismatch. It
// comes with the refusal of the PutItem; a server that does not send it is asked
// by a consistent GetItem. DynamoDB charges the refusal by the size of
// the item that is there, a write unit for each KB: a replay costs as much as
// its answer is large.
//
// A claim has a lease of 30 s, see [WithLease], that is extended while work
// runs. A process that dies leaves its key in flight for the rest of it, and
// then another attempt takes the claim over. Each step may be sent any number of
// times: the SDK sends a request again when its answer is lost, and the token
// tells the attempt its own claim and its own completion from a rival's. A
// completion is sent again by the store alone, not by the SDK, so that it knows
// whether an answer is missing: for up to 10 s; then the outcome is unknown and
// the claim is left to its lease. One that is refused after an answer was lost
// is settled by giving the claim up: then nothing was kept for certain, or the
// earlier one has stored the answer. Where the record is gone before anybody
// looked, since it was released, the outcome is unknown too.
//
// # Clocks
//
// DynamoDB has no clock that conditions could use: time is that of the process,
// also for keys that carry one. A lease counts as passed, and a record as
// expired, 2 s late, see [WithClockSkew]. Where clocks differ by more, claims are
// taken over from attempts at work, one of which then keeps nothing, and records
// are forgotten before their retention is over. Since the token decides, wrong
// clocks never let two attempts complete one claim.
//
// # Business writes
//
// The limits of TransactWriteItems hold: 100 items, of which the answer is one,
// 4 MB in all, and no item twice. What is over them is refused before anything
// is written. So is an answer of more than 350 KB, headers included, since an
// item has at most 400 KB. Scope, operation and key may have 48 KB together, in
// valid UTF-8; a request with others is refused before it runs.
//
// Queued writes may have conditions. One that does not hold is a
// [*RefusedError]: nothing is kept and the key is free. Conditions are what makes
// a write depend on what work has read before: what is read is not isolated.
// A conflict with another transaction is tried again, for the same time.
//
// # Lease mode
//
// The store is no [idempotency.Leaser]: a handler in lease mode, whose effects lie
// outside of the database, needs a store on a SQL database, and this one does not
// compile there.
//
// # Tables
//
// [CreateTable] makes the table: partition key "id", a string, no sort key, time
// to live in the attribute "ttl". [New] verifies it. Expired records are
// deleted by DynamoDB within days, at no cost, and are not replayed meanwhile;
// there is nothing to sweep. An item holds scope, operation and key readably.
// No queued write may touch the table. Give it to nothing else: DynamoDB deletes by
// "ttl" whatever has such an attribute.
//
// The client needs the permissions dynamodb:DescribeTable,
// DescribeTimeToLive, GetItem, PutItem, UpdateItem and DeleteItem on the table,
// and what the queued writes need on theirs; for [Store.List] and [Store.Stats]
// dynamodb:Scan as well. [CreateTable] needs CreateTable, DescribeTable,
// DescribeTimeToLive and UpdateTimeToLive, and Scan where the table is there
// without a time to live.
//
// Tests run on two emulators, dynalite 4.0 and kumo 0.33, and on the service
// where an environment variable names it. Dynalite has no time to live, see
// [WithoutTTL], and no transactions: requests that queue writes fail there. With
// DynamoDB itself a retry of a transaction is recognised by its
// ClientRequestToken; the store does not rely on it, except in [Store.Transact].
package dynamostore
