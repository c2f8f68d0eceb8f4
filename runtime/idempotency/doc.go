// Package idempotency makes retried requests harmless.
//
// For one (scope, operation, key), the effects that a handler makes through
// the transaction it is given happen at most once, and every retry inside the
// retention window gets the answer that was committed with them, whatever
// crashes in between. Effects outside the transaction are not covered.
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
// The words used throughout: a key is what the caller sends, a scope says who
// the caller is, a claim is the attempt to be the one that runs, a replay is a
// stored answer sent again, a mismatch is another request under a used key,
// and retention is how long an answer is kept.
package idempotency

// IsAtLeastVersion0_1 is referred to by generated code. If the build fails
// because it is missing, the runtime module is older than the idemgen that
// generated the code: run go get github.com/idemgen/idemgen/runtime@latest.
const IsAtLeastVersion0_1 = true
