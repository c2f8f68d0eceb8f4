// Package testenv gives tests real servers: PostgreSQL of two releases, PgBouncer
// in front of it, MariaDB, a Galera cluster, Redis, Redis Cluster, and emulators of
// DynamoDB.
//
// A server is looked for in this order: the one that an environment variable names
// (used, never started or stopped), installed programs, Debian's packages when
// the tests run as root, packages of npm, Docker. Where none is to be had the test is skipped
// with the reason and the remedy, or fails if IDEM_REQUIRE=all is set, so that
// a build server cannot pass by skipping.
//
// Servers started here listen on loopback only, keep their data in a temporary
// directory, and end with the process that started them, however it ends.
package testenv

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Environment variables that decide what tests use.
const (
	// EnvPostgres holds the connection string of a PostgreSQL server whose user
	// may create databases.
	EnvPostgres = "IDEM_TEST_POSTGRES"
	// EnvPostgres18 holds that of a second server, of PostgreSQL's newest release.
	EnvPostgres18 = "IDEM_TEST_POSTGRES18"
	// EnvRequire set to "all" turns a missing server from a skip into a failure.
	EnvRequire = "IDEM_REQUIRE"
)

// errUnavailable marks errors that mean "this machine has no such server", as
// against "the server is here and broken", which always fails the test.
var errUnavailable = errors.New("not available here")

// The servers that all tests of this process share. Each starts with the first
// test that needs it and ends with the process.
var (
	processPostgres   = sync.OnceValues(func() (string, error) { return usualPostgres.shared(EnvPostgres) })
	processPostgres18 = sync.OnceValues(func() (string, error) { return newestPostgres.shared(EnvPostgres18) })
)

// Postgres returns the connection string of a new, empty database that is
// dropped when the test ends, connections to it included. All tests of a
// process share one server, whose settings trade durability for speed.
func Postgres(tb testing.TB) string {
	tb.Helper()
	server, err := processPostgres()
	if err != nil {
		missing(tb, "PostgreSQL", "install PostgreSQL, start Docker, or set "+EnvPostgres+" to the connection string of a server whose user may create databases", err)
	}
	return newPostgresDatabase(tb, server)
}

// Postgres18 is [Postgres] on a server of the newest release.
func Postgres18(tb testing.TB) string {
	tb.Helper()
	server, err := processPostgres18()
	if err != nil {
		missing(tb, "PostgreSQL 18", "install node and npm, start Docker, or set "+EnvPostgres18+" to the connection string of a server whose user may create databases", err)
	}
	return newPostgresDatabase(tb, server)
}

// newPostgresDatabase makes a database that is dropped when the test ends.
func newPostgresDatabase(tb testing.TB, server string) string {
	tb.Helper()
	name := "idem_test_" + strings.ToLower(rand.Text())
	if err := execute(server, "CREATE DATABASE "+name); err != nil {
		tb.Fatalf("testenv: create a database for this test: %v", err)
	}
	tb.Cleanup(func() {
		if err := execute(server, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			tb.Errorf("testenv: drop this test's database: %v", err)
		}
	})
	dsn, err := withDatabase(server, name)
	if err != nil {
		tb.Fatalf("testenv: %v", err)
	}
	return dsn
}

// missing skips the test when the server is not to be had on this machine and
// that is allowed, and fails it otherwise.
func missing(tb testing.TB, what, remedy string, err error) {
	tb.Helper()
	if Skippable(err) {
		tb.Skipf("needs %s: %v; to run this test, %s", what, err, remedy)
	}
	tb.Fatalf("needs %s: %v; %s", what, err, remedy)
}

// execute runs one statement on a connection of its own.
func execute(dsn, statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, statement)
	return err
}

// withDatabase returns dsn, a URL or keyword/value string, with another
// database name.
func withDatabase(dsn, name string) (string, error) {
	if !strings.HasPrefix(dsn, "postgres://") && !strings.HasPrefix(dsn, "postgresql://") {
		return dsn + " dbname=" + name, nil
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return "", fmt.Errorf("%s is no connection string: %w", EnvPostgres, err)
	}
	u.Path = "/" + name
	return u.String(), nil
}

// Skippable tells whether err means that this machine has no such server, and
// the tests that need it may be skipped.
func Skippable(err error) bool {
	return errors.Is(err, errUnavailable) && os.Getenv(EnvRequire) != "all"
}
