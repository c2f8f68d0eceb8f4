// Package testenv gives tests real servers: PostgreSQL of two releases, PgBouncer
// in front of it, MariaDB, a Galera cluster, Redis, Redis Cluster, and emulators of
// DynamoDB.
//
// A server is looked for in this order: the one that an environment variable names
// (used, never started or stopped), installed programs, Debian's packages when
// the tests run as root, packages of npm, Docker. Where none is to be had the test
// is skipped with the reason and the remedy, or fails if IDEM_REQUIRE=all is set,
// so that a build server cannot pass by skipping.
//
// Servers started here listen on loopback only, keep their data in a temporary
// directory, and end with the process that started them, however it ends.
package testenv

import (
	"errors"
	"os"
	"testing"
)

// EnvRequire is the environment variable that, set to "all", turns a missing
// server from a skip into a failure.
const EnvRequire = "IDEM_REQUIRE"

// errUnavailable marks errors that mean "this machine has no such server", as
// against "the server is here and broken", which always fails the test.
var errUnavailable = errors.New("not available here")

// missing skips the test when the server is not to be had on this machine and
// that is allowed, and fails it otherwise.
func missing(tb testing.TB, what, remedy string, err error) {
	tb.Helper()
	if Skippable(err) {
		tb.Skipf("needs %s: %v; to run this test, %s", what, err, remedy)
	}
	tb.Fatalf("needs %s: %v; %s", what, err, remedy)
}

// Skippable tells whether err means that this machine has no such server, and
// the tests that need it may be skipped.
func Skippable(err error) bool {
	return errors.Is(err, errUnavailable) && os.Getenv(EnvRequire) != "all"
}
