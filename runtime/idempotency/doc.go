// Package idempotency makes retried requests harmless.
//
// For one (scope, operation, key), the effects that a handler makes through
// the transaction it is given happen at most once, and every retry inside the
// retention window gets the answer that was committed with them, whatever
// crashes in between. Effects outside the transaction are not covered: give the
// other system a key from [Derive], or write them to an outbox in the
// transaction.
//
// Servers use the package through code that idemgen generates from an OpenAPI
// document. Queue consumers and other plain functions use [Do]. Both need a
// [Store]: package pgxstore is for PostgreSQL, package sqlstore for PostgreSQL,
// MySQL, MariaDB and SQLite through database/sql, package redisstore for Redis,
// package dynamostore for DynamoDB, package memstore for tests.
//
// Two rules explain most of what happens here. An answer is stored exactly
// when the handler's transaction commits, in the same commit. And a
// fingerprint is never coarser than the handler's view: two requests that a
// handler reading its typed request can tell apart never share one.
//
// The words used throughout: a key is what the caller sends, a scope says who
// the caller is, an operation is what the key is for, and a fingerprint says
// what the request contains. A claim is the attempt to be the one that runs; to
// complete it is to commit its effects and its answer, to release it to roll
// back and free the key; until then the request is in flight. A replay is a
// stored answer sent again, a mismatch is another request under a used key,
// retention is how long an answer is kept, and a sweep deletes expired ones.
//
// # What a server's author types
//
// [Scope], [ScopeByHeader], [Unscoped]; every [Option], whose functions begin
// with With; [Observer], [Event], [Outcome], [LogTo]; [Problem], [Code] and
// [WriteProblem] for refusals of another form; [NoRerun], [Lease] and
// [LeaseToken] in handlers; [RunSweeper] beside them; [DurableStore] where no other
// will do.
//
// # What a consumer's author types
//
// [Do] with a [Request], its [Identity] and its [Fingerprint], which
// [FingerprintOf] makes; [Leases] for effects outside of the database; [Observed]
// to have all calls reported.
//
// # What callers type
//
// The [Key] of their operation: generated packages have functions that make one,
// which are [NewKey] and [ParseKey], and for constants there is [MustParseKey].
// [Derive] and [DeriveUUID] make keys for what a handler asks of other systems.
// Errors are an [*Error], which the variables that begin with Err match, or a
// [*CommitError], and of a generated client a [*CallError].
//
// # What the authors of stores need
//
// [Store], [Work], [Result], [Response]; [Guarantees] with [Atomicity], [Fencing]
// and [Survival]; [Keeper] and [Record]; [Lister],
// [Filter], [Entry], [State], [StateOf], [Stats], [Counts] and [ErrChanged]; [Leaser] and
// [LeaseStore]; [EncodeAnswer], [DecodeAnswer] and [StoredAnswer]. Authors of codecs
// need [Codec] and [Encoded]; who reads records meets an [*UnreadableError].
//
// # What generated code alone needs
//
// What the document says: [OpType], [Operation], [KeyRule], [KeyFormat],
// [FingerprintRule], [Parameters], [Body], [BodyKind], [StatusClass]. Requests:
// [Sealed], [Seal], [SealUnprotected], [LogRequest], [MarshalRequest],
// [UnmarshalRequest]. Servers: [Edge], [NewEdge], [Call], [KeyOf], [Visit],
// [Answer], [Clone]; [BodyDecoder], [DecodeJSON], [DecodeText], [FormDecoder],
// [DecodePointer] where there is no strict server; [Framework] and
// [WithFramework] for its own options. Clients: [ReadProblem]. And
// [IsAtLeastVersion0_1], which fails the build of what is too new.
package idempotency

// IsAtLeastVersion0_1 is referred to by generated code. If the build fails
// because it is missing, the runtime module is older than the idemgen that
// generated the code: run go get github.com/idemgen/idemgen/runtime@latest.
const IsAtLeastVersion0_1 = true
