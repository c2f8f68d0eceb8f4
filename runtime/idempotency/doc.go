// Package idempotency makes retried requests harmless.
//
// For one (scope, operation, key), the effects that a handler makes through
// the transaction it is given happen at most once, and every retry inside the
// retention window gets the answer that was committed with them, whatever
// crashes in between. Effects outside the transaction are not covered: give the
// other system a key from [Derive], or write them to an outbox in the transaction.
//
// Servers use the package through code that idemgen generates from an OpenAPI
// document. Queue consumers and other plain functions use [Do]. Both need a
// [Store]: package pgxstore for PostgreSQL, package sqlstore for SQLite,
// package memstore for tests.
//
// Two rules explain most of what happens here. An answer is stored exactly
// when the handler's transaction commits, in the same commit. And a
// fingerprint is never coarser than the handler's view: two requests that a
// handler reading its typed request can tell apart never share one.
//
// What a server's author types are [Scope], [ScopeByHeader] or [Unscoped], the
// options that begin with With, [LogTo], [RunSweeper] and [NoRerun]; a
// consumer's author types [Do], [Request], [Identity] and [FingerprintOf]; and
// both, for what they ask of other systems, [Derive] or [DeriveUUID].
// [Edge], [Call], [Answer], [Visit], [Sealed] and the functions that take them
// are for generated code, and [Store], [Keeper], [Work] and [Result] for the
// authors of stores.
//
// The words used throughout: a key is what the caller sends, a scope says who
// the caller is, an operation is what the key is for, and a fingerprint says
// what the request contains. A claim is the attempt to be the one that runs; to
// complete it is to commit its effects and its answer, to release it to roll
// back and free the key; until then the request is in flight. A replay is a
// stored answer sent again, a mismatch is another request under a used key,
// retention is how long an answer is kept, and a sweep deletes expired ones.
package idempotency

// IsAtLeastVersion0_1 is referred to by generated code. If the build fails
// because it is missing, the runtime module is older than the idemgen that
// generated the code: run go get github.com/idemgen/idemgen/runtime@latest.
const IsAtLeastVersion0_1 = true
