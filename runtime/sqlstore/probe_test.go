package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/sqlstore"
)

// sqliteServer is SQLite as the tests that run on all databases need it.
func sqliteServer() server {
	return server{name: "SQLite", driver: "sqlite", dialect: sqlstore.SQLite, work: pay, pool: func(t testing.TB) (*sql.DB, string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "test.db")
		db := openDB(t, file, wal, 0)
		prepare(t, db)
		return db, "file:" + file + "?" + wal
	}}
}

const (
	postgresqlDrops = "CREATE FUNCTION hinder() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; " +
		"CREATE TRIGGER hinder BEFORE INSERT ON idempotency_records FOR EACH ROW EXECUTE FUNCTION hinder()"
	sqliteDrops = "CREATE TRIGGER hinder BEFORE INSERT ON idempotency_records BEGIN SELECT RAISE(IGNORE); END"
)

// New refuses a table that drops, hides or changes records, or refuses them,
// whatever does so, and says what to do.
//
// Covers STO-22.
func TestNewRefusesTableThatKeepsNoRecord(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		server server
		sql    string // what is wrong
		params string // of the store's own pool
		want   string
	}{
		{"a trigger that drops", sqliteServer(), sqliteDrops, "", "a trigger or a rule of the table drops it"},
		{"a trigger that deletes", sqliteServer(), "CREATE TRIGGER hinder AFTER INSERT ON idempotency_records BEGIN DELETE FROM idempotency_records WHERE id = new.id; END", "", "cannot be read"},
		{"a trigger that changes", sqliteServer(), "CREATE TRIGGER hinder AFTER INSERT ON idempotency_records BEGIN UPDATE idempotency_records SET scope = 'all'; END", "", "a trigger of the table changes it"},
		{"a reader, by its pragma", sqliteServer(), "SELECT 1", "&_pragma=query_only(true)", "was the reader of WithReader passed in its place"},
		{"a reader, by its mode", sqliteServer(), "SELECT 1", "&mode=ro", "was the reader of WithReader passed in its place"},
		{"a trigger that changes the id", mysqlServer(), "CREATE TRIGGER hinder BEFORE INSERT ON idempotency_records FOR EACH ROW SET NEW.id = REPEAT('x', 16)", "", "cannot be read"},
		{"a trigger that changes", mysqlServer(), "CREATE TRIGGER hinder BEFORE INSERT ON idempotency_records FOR EACH ROW SET NEW.status = 500", "", "a trigger of the table changes it"},
		{"a trigger that refuses", mysqlServer(), "CREATE TRIGGER hinder BEFORE INSERT ON idempotency_records FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not here'", "", "cannot be kept in the table idempotency_records: Error 1644 (45000): not here"},
		{"a trigger that drops", postgresqlServer("pgx"), postgresqlDrops, "", "a trigger or a rule of the table drops it"},
		{"a rule that drops", postgresqlServer("postgres"), "CREATE RULE hinder AS ON INSERT TO idempotency_records DO INSTEAD NOTHING", "", "a trigger or a rule of the table drops it"},
		{"a check", postgresqlServer("pgx"), "ALTER TABLE idempotency_records ADD CHECK (status > 200)", "", "violates check constraint"},
		{
			"a policy that refuses", postgresqlServer("pgx"), "GRANT SELECT, INSERT, UPDATE, DELETE ON idempotency_records TO pg_monitor; ALTER TABLE idempotency_records ENABLE ROW LEVEL SECURITY",
			"&role=pg_monitor", `ALTER TABLE "public"."idempotency_records" DISABLE ROW LEVEL SECURITY;`,
		},
		{
			"a policy that hides", postgresqlServer("postgres"), "GRANT SELECT, INSERT, UPDATE, DELETE ON idempotency_records TO pg_monitor; ALTER TABLE idempotency_records ENABLE ROW LEVEL SECURITY;" +
				"CREATE POLICY hides ON idempotency_records USING (false) WITH CHECK (true)",
			"&role=pg_monitor", `ALTER TABLE "public"."idempotency_records" DISABLE ROW LEVEL SECURITY;`,
		},
	} {
		t.Run(c.server.name+"/"+c.name, func(t *testing.T) {
			t.Parallel()
			db, dsn := c.server.pool(t)
			if _, err := db.ExecContext(t.Context(), c.sql); err != nil {
				t.Fatal(err)
			}
			_, err := sqlstore.New(t.Context(), c.server.open(t, dsn+c.params, 0), c.server.dialect)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

// A trigger that comes later and drops records is an error of each request, whose
// effects are rolled back; no claim of a lease is had.
func TestDroppedRecordIsNoAnswer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		server
		sql string
	}{{sqliteServer(), sqliteDrops}, {postgresqlServer("pgx"), postgresqlDrops}, {postgresqlServer("postgres"), postgresqlDrops}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db, dsn := c.pool(t)
			s := c.store(t, dsn, 2)
			if _, err := db.ExecContext(t.Context(), c.sql); err != nil {
				t.Fatal(err)
			}
			_, err := s.Execute(t.Context(), request("k"), c.work("k"))
			if code, _ := codeOf(err); code != idempotency.CodeUnavailable || !strings.Contains(err.Error(), "a trigger or a rule of the table drops it") {
				t.Errorf("Execute: %v", err)
			}
			if n := count(t, db, "k"); n != 0 {
				t.Errorf("%d effects", n)
			}
			if _, err := s.AcquireLease(t.Context(), refundRequest(), idempotency.LeaseToken{1}); err == nil {
				t.Error("AcquireLease: no error")
			}
		})
	}
}

// New waits for its turn to write as a request does. Somebody who holds it for
// longer keeps no server, and nobody who only reads, from its start; where ctx ends
// before, New says what it waited for.
func TestNewWaitsForWriter(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "test.db")
	db := openDB(t, file, wal, 1)
	prepare(t, db)
	writer, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := effect(t.Context(), writer, "k"); err != nil {
		t.Fatal(err)
	}
	other := openDB(t, file, "_pragma=busy_timeout(1)&_pragma=synchronous(full)", 1)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := sqlstore.New(ctx, other, sqlstore.SQLite); err == nil || ctx.Err() == nil || !strings.Contains(err.Error(), "others held the turn to write") {
		t.Errorf("New beside a writer: %v, and its time is over: %v", err, errors.Is(ctx.Err(), context.DeadlineExceeded))
	}
	s, err := sqlstore.New(t.Context(), other, sqlstore.SQLite, sqlstore.WithClaimTimeout(50*time.Millisecond))
	if err != nil {
		t.Fatalf("New that waits no longer than a claim: %v", err)
	}
	if _, err := s.Stats(t.Context()); err != nil {
		t.Errorf("Stats beside a writer: %v", err)
	}
	done := make(chan error)
	go func() {
		_, err := sqlstore.New(t.Context(), other, sqlstore.SQLite)
		done <- err
	}()
	if err := writer.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("New after the writer: %v", err)
	}
}

// Whoever names the wrong dialect is told so.
func TestWrongDialectIsSaid(t *testing.T) {
	t.Parallel()
	for _, srv := range []server{sqliteServer(), mysqlServer(), postgresqlServer("pgx"), postgresqlServer("postgres")} {
		t.Run(srv.name, func(t *testing.T) {
			t.Parallel()
			db, _ := srv.pool(t)
			for _, d := range []sqlstore.Dialect{sqlstore.SQLite, sqlstore.MySQL, sqlstore.PostgreSQL} {
				if d == srv.dialect {
					continue
				}
				if _, err := sqlstore.New(t.Context(), db, d); err == nil || !strings.Contains(err.Error(), "was sqlstore given the right dialect?") {
					t.Errorf("New with %T: %v", d, err)
				}
				if err := sqlstore.Migrate(t.Context(), db, d); err == nil || !strings.Contains(err.Error(), "was sqlstore given the right dialect?") {
					t.Errorf("Migrate with %T: %v", d, err)
				}
			}
		})
	}
}

// A server that says nothing, as one of another kind may, is not waited for
// without end.
func TestNewDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	for driver, dsn := range map[string]string{
		"mysql":    "root@tcp(" + silent.Addr().String() + ")/shop",
		"pgx":      "postgres://" + silent.Addr().String() + "/shop",
		"postgres": "postgres://" + silent.Addr().String() + "/shop?sslmode=disable",
	} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			srv := postgresqlServer(driver)
			if driver == "mysql" {
				srv = mysqlServer()
			}
			_, err := sqlstore.New(t.Context(), srv.open(t, dsn, 0), srv.dialect, sqlstore.WithStartTimeout(50*time.Millisecond))
			if err == nil || !strings.Contains(err.Error(), "is the address in the data source name that of such a server?") {
				t.Errorf("New: %v", err)
			}
		})
	}
}
