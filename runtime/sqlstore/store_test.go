package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/sqlstore"
)

const wal = pragmas + "_pragma=journal_mode(wal)"

// New refuses what cannot keep the guarantee, and says what to do.
//
// Covers STO-22, EXP-10, SEC-13.
func TestNewRefuses(t *testing.T) {
	t.Parallel()
	migrate := func(t *testing.T, db *sql.DB) { prepare(t, db) }
	script := func(query string) func(*testing.T, *sql.DB) {
		return func(t *testing.T, db *sql.DB) {
			if _, err := db.Exec(query); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name, query string
		prepare     func(*testing.T, *sql.DB)
		opts        []sqlstore.Option
		conns       int
		want        string // "" means accepted
	}{
		{name: "good", query: wal, prepare: migrate},
		{name: "extra", query: "_pragma=busy_timeout(1)&_pragma=synchronous(extra)", prepare: migrate},
		{name: "a trigger that asks for a scope", query: wal, prepare: func(t *testing.T, db *sql.DB) {
			migrate(t, db)
			script(`CREATE TRIGGER scoped BEFORE INSERT ON idempotency_records WHEN new.scope = '' BEGIN SELECT RAISE(ABORT, 'no scope'); END`)(t, db)
		}},
		{name: "no table", query: wal, prepare: script(`SELECT 1`), want: "create it with sqlstore.Migrate, or by idemctl schema -store sqlite -table idempotency_records | sqlite3 FILE"},
		{name: "no table of that name", query: wal, prepare: migrate, opts: []sqlstore.Option{sqlstore.WithTable("other")}, want: "table other does not exist"},
		{name: "other columns", query: wal, prepare: script(`CREATE TABLE idempotency_records (id BLOB PRIMARY KEY, scope TEXT)`), want: "it has no operation, key, fingerprint, status, header, body, created_at, expires_at"},
		{name: "no primary key", query: wal, prepare: script(`CREATE TABLE idempotency_records (id, scope, operation, key, fingerprint, status, header, body, created_at, expires_at)`), want: `CREATE UNIQUE INDEX "idempotency_records_id" ON "idempotency_records" (id);`},
		{name: "wider primary key", query: wal, prepare: script(`CREATE TABLE idempotency_records (id, scope, operation, key, fingerprint, status, header, body, created_at, expires_at, PRIMARY KEY (id, created_at))`), want: "no unique index on id alone"},
		{name: "foreign table", query: wal, prepare: script(`CREATE TABLE idempotency_records (a)`), want: "choose another name with sqlstore.WithTable"},
		{name: "view", query: wal, prepare: script(`CREATE VIEW idempotency_records AS SELECT 1 AS id`), want: "is a view"},
		{name: "no index", query: wal, prepare: func(t *testing.T, db *sql.DB) {
			migrate(t, db)
			script(`DROP INDEX idempotency_records_expires_at`)(t, db)
		}, want: `CREATE INDEX "idempotency_records_expires_at" ON "idempotency_records" (expires_at);`},
		{name: "synchronous normal", query: "_pragma=busy_timeout(5000)&_pragma=synchronous(normal)", prepare: migrate, want: "put _pragma=synchronous(full) into the data source name"},
		{name: "synchronous on one connection", query: "_pragma=busy_timeout(5000)&_pragma=synchronous(normal)", prepare: func(t *testing.T, db *sql.DB) {
			migrate(t, db)
			script(`PRAGMA synchronous = FULL`)(t, db)
		}, want: "for each connection"},
		{name: "no busy timeout", query: "_pragma=synchronous(full)", prepare: migrate, want: "PRAGMA busy_timeout is 0"},
		{name: "busy timeout too long", query: "_pragma=busy_timeout(5001)&_pragma=synchronous(full)", prepare: migrate, want: "put _pragma=busy_timeout(5000) into"},
		{name: "journal off", query: pragmas + "_pragma=journal_mode(off)", prepare: migrate, want: "journal_mode is off"},
		{name: "journal in memory", query: pragmas + "_pragma=journal_mode(memory)", prepare: migrate, want: "journal_mode is memory"},
		{name: "all of it", query: "_pragma=journal_mode(off)&_pragma=synchronous(off)", prepare: migrate, want: "put _pragma=busy_timeout(5000)&_pragma=journal_mode(wal)&_pragma=synchronous(full) into"},
		{name: "all of it mended", query: "_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)", prepare: migrate},
		{name: "name with a quote", query: wal, prepare: migrate, opts: []sqlstore.Option{sqlstore.WithTable(`a"; DROP TABLE effects; --`)}, want: "cannot be a table's name"},
		{name: "name with a dot", query: wal, prepare: migrate, opts: []sqlstore.Option{sqlstore.WithTable("main.keys")}, want: "cannot be a table's name"},
		{name: "no time to claim", query: wal, prepare: migrate, opts: []sqlstore.Option{sqlstore.WithClaimTimeout(0)}, want: "WithClaimTimeout: 0s is not positive"},
		{name: "empty name", query: wal, prepare: migrate, opts: []sqlstore.Option{sqlstore.WithTable("")}, want: "cannot be a table's name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := openDB(t, filepath.Join(t.TempDir(), "test.db"), c.query, c.conns)
			c.prepare(t, db)
			_, err := sqlstore.New(t.Context(), db, sqlstore.SQLite, c.opts...)
			if c.want == "" && err != nil {
				t.Fatal(err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

// A database in memory is taken only where it is one.
func TestNewInMemory(t *testing.T) {
	t.Parallel()
	db := openDB(t, ":memory:", pragmas, 1)
	prepare(t, db)
	newStore(t, db)
	db.SetMaxOpenConns(2)
	if _, err := sqlstore.New(t.Context(), db, sqlstore.SQLite); err == nil || !strings.Contains(err.Error(), "use a file") {
		t.Errorf("with two connections: %v, want an error", err)
	}
}

// A reader on another database is refused.
//
// Covers STO-17.
func TestNewRefusesOtherReader(t *testing.T) {
	t.Parallel()
	db := openDB(t, filepath.Join(t.TempDir(), "test.db"), wal, 1)
	prepare(t, db)
	other := openDB(t, filepath.Join(t.TempDir(), "other.db"), wal, 1)
	refused := func(what string) {
		t.Helper()
		if _, err := sqlstore.New(t.Context(), db, sqlstore.SQLite, sqlstore.WithReader(other)); err == nil || !strings.Contains(err.Error(), "on the same database") {
			t.Errorf("%s: error %v, want a refusal", what, err)
		}
	}
	refused("no table")
	prepare(t, other) // as a copy of the database has it
	refused("a table of its own")
}

// Migrate may be run again and by many at once, under any name.
//
// Covers STO-22, SEC-13.
func TestMigrate(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "test.db")
	var wg sync.WaitGroup
	for range 8 {
		db := openDB(t, file, wal, 0)
		wg.Go(func() {
			for _, opts := range [][]sqlstore.Option{nil, {sqlstore.WithTable("Order")}} {
				if err := sqlstore.Migrate(t.Context(), db, sqlstore.SQLite, opts...); err != nil {
					t.Error(err)
				}
				if _, err := sqlstore.New(t.Context(), db, sqlstore.SQLite, opts...); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := sqlstore.Migrate(t.Context(), openDB(t, file, wal, 0), sqlstore.SQLite, sqlstore.WithTable("a b")); err == nil {
		t.Error("a name with a space: no error")
	}
}

// The sweep reads its index, not the table.
//
// Covers EXP-10.
func TestSweepUsesIndex(t *testing.T) {
	t.Parallel()
	db := openDB(t, filepath.Join(t.TempDir(), "test.db"), wal, 0)
	prepare(t, db)
	rows, err := db.Query("EXPLAIN QUERY PLAN "+newStore(t, db).SweepStatements()[0], 1000)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var plan strings.Builder
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		plan.WriteString(detail + "\n")
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(plan.String(), "idempotency_records_expires_at") || strings.Contains(plan.String(), "SCAN") || strings.Contains(plan.String(), "TEMP B-TREE") {
		t.Errorf("plan:\n%s", plan.String())
	}
}

// A sweep of several batches deletes every expired record.
func TestSweepInBatches(t *testing.T) {
	t.Parallel()
	db := openDB(t, filepath.Join(t.TempDir(), "test.db"), wal, 0)
	prepare(t, db)
	s := newStore(t, db)
	if _, err := db.Exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500)
		INSERT INTO idempotency_records SELECT CAST(i AS BLOB), 's', 'o', i, x'', 200, zeroblob(0), zeroblob(9), 0, CASE i WHEN 1 THEN 1 << 60 ELSE i END, NULL, NULL FROM n`); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Sweep(t.Context()); n != 2499 || err != nil {
		t.Errorf("Sweep: %d, %v; want 2499", n, err)
	}
}

// A sweep that begins while another one runs leaves the work to it.
func TestOneSweeper(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "test.db")
	db := openDB(t, file, wal, 0)
	prepare(t, db)
	if _, err := newStore(t, db).Execute(t.Context(), request("k"), func(context.Context, *sql.Tx) (idempotency.Response, error) { return created("first"), nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`UPDATE idempotency_records SET created_at = 0, expires_at = 1`); err != nil {
		t.Fatal(err)
	}
	var s *sqlstore.Store
	inside := false
	s = newStore(t, openFaults(t, file, func(at moment) error {
		if at == beforeExec && !inside {
			inside = true
			if n, err := s.Sweep(t.Context()); n != 0 || err != nil {
				t.Errorf("second sweep: %d, %v; want 0", n, err)
			}
		}
		return nil
	}))
	if n, err := s.Sweep(t.Context()); n != 1 || err != nil || !inside {
		t.Errorf("first sweep: %d, %v; want 1", n, err)
	}
}

// never is work that must not run.
func never(t *testing.T) idempotency.Work[*sql.Tx] {
	return func(context.Context, *sql.Tx) (idempotency.Response, error) {
		t.Error("work ran; it must not")
		return idempotency.Response{}, errors.New("work ran")
	}
}

// Two requests that share an id are not each other's answer.
//
// Covers SEC-01.
func TestCollision(t *testing.T) {
	t.Parallel()
	db := openDB(t, filepath.Join(t.TempDir(), "test.db"), wal, 0)
	prepare(t, db)
	s := newStore(t, db)
	for _, column := range []string{"scope", "operation", "key"} {
		req := request(column)
		if _, err := s.Execute(t.Context(), req, func(context.Context, *sql.Tx) (idempotency.Response, error) { return created("first"), nil }); err != nil {
			t.Fatal(err)
		}
		id := req.ID()
		if _, err := db.Exec(`UPDATE idempotency_records SET `+column+` = 'other' WHERE id = ?`, id[:]); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Execute(t.Context(), req, never(t)); !errors.Is(err, idempotency.ErrMismatch) {
			t.Errorf("other %s: %v, want %v", column, err, idempotency.ErrMismatch)
		}
		if _, err := s.Lookup(t.Context(), req.Identity); !errors.Is(err, idempotency.ErrNotFound) {
			t.Errorf("Lookup with other %s: %v, want %v", column, err, idempotency.ErrNotFound)
		}
	}
}

// Release deletes the record that was there when it was called, not one that
// another process has stored since, be it in the same millisecond.
//
// Covers CON-16.
func TestReleaseSparesNewRecord(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "test.db")
	db := openDB(t, file, wal, 0)
	prepare(t, db)
	other := newStore(t, db)
	store := func(body string) {
		t.Helper()
		if _, err := other.Execute(t.Context(), request("k"), func(context.Context, *sql.Tx) (idempotency.Response, error) { return created(body), nil }); err != nil {
			t.Fatal(err)
		}
	}
	store("first")
	var millisecond int64
	if err := db.QueryRow(`SELECT created_at FROM idempotency_records`).Scan(&millisecond); err != nil {
		t.Fatal(err)
	}
	s := newStore(t, openFaults(t, file, func(at moment) error {
		if at == beforeExec {
			if err := other.Release(t.Context(), request("k").Identity); err != nil {
				t.Error(err)
			}
			store("second")
			if _, err := db.Exec(`UPDATE idempotency_records SET created_at = ?`, millisecond); err != nil {
				t.Error(err)
			}
		}
		return nil
	}))
	if err := s.Release(t.Context(), request("k").Identity); !errors.Is(err, idempotency.ErrNotFound) {
		t.Errorf("Release: %v, want %v", err, idempotency.ErrNotFound)
	}
	if rec, err := s.Lookup(t.Context(), request("k").Identity); err != nil || string(rec.Response.Body) != "second" {
		t.Errorf("Lookup: body %q, error %v; want the new record", rec.Response.Body, err)
	}
}

// The same on servers.
//
// Covers CON-16.
func TestReleaseSparesNewRecordOnServers(t *testing.T) {
	t.Parallel()
	for _, srv := range servers() {
		t.Run(srv.name, func(t *testing.T) {
			t.Parallel()
			db, dsn := srv.pool(t)
			other, req := srv.on(t, db), request("k")
			store := func(body string) {
				t.Helper()
				if _, err := other.Execute(t.Context(), req, srv.work(body)); err != nil {
					t.Fatal(err)
				}
			}
			store("first")
			if _, err := db.ExecContext(t.Context(), fmt.Sprintf(srv.back, "idempotency_records", 1000)); err != nil {
				t.Fatal(err)
			}
			p, through := srv.proxied(t, srv.plain(dsn))
			s := srv.store(t, through, 2)
			p.before("DELETE FROM", func() {
				if err := other.Release(t.Context(), req.Identity); err != nil {
					t.Error(err)
				}
				store("second")
			})
			if err := s.Release(t.Context(), req.Identity); !errors.Is(err, idempotency.ErrNotFound) {
				t.Errorf("Release: %v, want %v", err, idempotency.ErrNotFound)
			}
			if rec, err := s.Lookup(t.Context(), req.Identity); err != nil || string(rec.Response.Body) != "second" {
				t.Errorf("Lookup: body %q, error %v; want the new record", rec.Response.Body, err)
			}
		})
	}
}

// An answer that was released and stored anew is another one, although both are of
// one millisecond, which is all that the tables of SQLite and MySQL keep of a time.
func TestAnswersOfOneMillisecondDiffer(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) (*sql.DB, *sqlstore.Store){
		"SQLite": func(t *testing.T) (*sql.DB, *sqlstore.Store) {
			db := openDB(t, filepath.Join(t.TempDir(), "test.db"), wal, 0)
			prepare(t, db)
			return db, newStore(t, db)
		},
		"MySQL": func(t *testing.T) (*sql.DB, *sqlstore.Store) {
			db, _ := newMySQL(t)
			return db, mysqlServer().on(t, db)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, s := open(t)
			list := func() (e idempotency.Entry) {
				for found, err := range s.List(t.Context(), idempotency.Filter{}) {
					if err != nil {
						t.Fatal(err)
					}
					e = found
				}
				return e
			}
			stored := func(body string) idempotency.Entry {
				if _, err := s.Execute(t.Context(), request("k"), func(context.Context, *sql.Tx) (idempotency.Response, error) { return created(body), nil }); err != nil {
					t.Fatal(err)
				}
				if _, err := db.ExecContext(t.Context(), `UPDATE idempotency_records SET created_at = 1700000000000`); err != nil {
					t.Fatal(err)
				}
				return list()
			}
			first := stored("first")
			if err := s.Release(t.Context(), request("k").Identity); err != nil {
				t.Fatal(err)
			}
			second := stored("second")
			if err := s.ReleaseEntry(t.Context(), first); !errors.Is(err, idempotency.ErrChanged) || list() != second {
				t.Errorf("ReleaseEntry: %v, want %v; %+v is left of %+v", err, idempotency.ErrChanged, list(), second)
			}

			// Answers of earlier versions have no token; their time tells them.
			if _, err := db.ExecContext(t.Context(), `UPDATE idempotency_records SET lease_token = NULL`); err != nil {
				t.Fatal(err)
			}
			if err := s.ReleaseEntry(t.Context(), second); !errors.Is(err, idempotency.ErrChanged) {
				t.Errorf("ReleaseEntry: %v, want %v", err, idempotency.ErrChanged)
			}
			if err := s.ReleaseEntry(t.Context(), list()); err != nil {
				t.Errorf("ReleaseEntry of an answer without a token: %v", err)
			}
		})
	}
}

// Work that calls its own store is told so, instead of waiting for itself.
// What it has started may call the store once work has returned.
//
// Covers CON-15.
func TestNestedIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	db := openDB(t, filepath.Join(t.TempDir(), "test.db"), wal, 1)
	prepare(t, db)
	s := newStore(t, db)
	for name, outer := range map[string]func(work idempotency.Work[*sql.Tx]) error{
		"Execute": func(work idempotency.Work[*sql.Tx]) error {
			_, err := s.Execute(t.Context(), request("outer"), work)
			return err
		},
		"Transact": func(work idempotency.Work[*sql.Tx]) error {
			_, err := s.Transact(t.Context(), work)
			return err
		},
	} {
		kept := make(chan context.Context, 1)
		err := outer(func(ctx context.Context, _ *sql.Tx) (idempotency.Response, error) {
			kept <- ctx
			if _, err := s.Execute(ctx, request("inner"), never(t)); err == nil || !strings.Contains(err.Error(), "one transaction at a time") {
				t.Errorf("Execute in %s: %v", name, err)
			}
			if _, err := s.Transact(ctx, never(t)); err == nil || !strings.Contains(err.Error(), "one transaction at a time") {
				t.Errorf("Transact in %s: %v", name, err)
			}
			return created("outer"), nil
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := s.Transact(<-kept, func(context.Context, *sql.Tx) (idempotency.Response, error) { return created("later"), nil }); err != nil {
			t.Errorf("Transact after %s: %v", name, err)
		}
	}
}

// A request that could not be stored is refused before it runs.
func TestRefusesWhatCannotBeStored(t *testing.T) {
	t.Parallel()
	db := openDB(t, filepath.Join(t.TempDir(), "test.db"), wal, 0)
	prepare(t, db)
	s := newStore(t, db)
	for want, change := range map[string]func(*idempotency.Request){
		"the retention is 0s":  func(req *idempotency.Request) { req.Retention = 0 },
		`the scope "a\x00"`:    func(req *idempotency.Request) { req.Scope = "a\x00" },
		`the operation "\xff"`: func(req *idempotency.Request) { req.Operation = "\xff" },
		`the key "ren\xe9"`:    func(req *idempotency.Request) { req.Key = "ren\xe9" },
	} {
		req := refundRequest()
		change(&req)
		_, executed := s.Execute(t.Context(), req, never(t))
		_, acquired := s.AcquireLease(t.Context(), req, idempotency.LeaseToken{1})
		for step, err := range map[string]error{"Execute": executed, "AcquireLease": acquired} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", step, err, want)
			}
		}
	}
}

// A record that cannot be read is an error: neither replayed nor executed again.
func TestDamagedRecord(t *testing.T) {
	t.Parallel()
	db := openDB(t, filepath.Join(t.TempDir(), "test.db"), wal, 0)
	prepare(t, db)
	s := newStore(t, db)
	req := request("k")
	if _, err := s.Execute(t.Context(), req, func(context.Context, *sql.Tx) (idempotency.Response, error) { return created("first"), nil }); err != nil {
		t.Fatal(err)
	}
	for _, damage := range []string{`header = x'00'`, `header = x'', status = 0`, `status = 1000`, `status = 'x'`} {
		if _, err := db.Exec(`UPDATE idempotency_records SET ` + damage); err != nil {
			t.Fatal(err)
		}
		if res, err := s.Execute(t.Context(), req, never(t)); err == nil {
			t.Errorf("%s: Execute: status %d, want an error", damage, res.Status)
		}
		if _, err := s.Lookup(t.Context(), req.Identity); err == nil {
			t.Errorf("%s: Lookup: no error", damage)
		}
	}
}

// Where the database cannot be used the handler does not run.
//
// Covers CRA-16.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	unavailable := func(t *testing.T, s *sqlstore.Store) {
		t.Helper()
		if _, err := s.Execute(t.Context(), request("k"), never(t)); !errors.Is(err, idempotency.ErrUnavailable) {
			t.Errorf("Execute: %v, want %v", err, idempotency.ErrUnavailable)
		}
		if _, err := s.Transact(t.Context(), never(t)); !errors.Is(err, idempotency.ErrUnavailable) {
			t.Errorf("Transact: %v, want %v", err, idempotency.ErrUnavailable)
		}
	}
	for _, mode := range []string{"wal", "delete"} {
		t.Run("locked, "+mode, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "test.db")
			db := openDB(t, file, "_pragma=busy_timeout(50)&_pragma=journal_mode("+mode+")", 2)
			prepare(t, db)
			s := newStore(t, db, sqlstore.WithClaimTimeout(50*time.Millisecond))
			other, err := openDB(t, file, pragmas+"_txlock=exclusive", 1).Begin()
			if err != nil {
				t.Fatal(err)
			}
			unavailable(t, s)
			if err := other.Rollback(); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Transact(t.Context(), func(ctx context.Context, tx *sql.Tx) (idempotency.Response, error) {
				return created("k"), effect(ctx, tx, "k")
			}); err != nil {
				t.Errorf("after the lock has gone: %v", err)
			}
		})
	}
	t.Run("no connection", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "test.db")
		db := openDB(t, file, "_pragma=busy_timeout(50)", 1)
		prepare(t, db)
		timeout := sqlstore.WithClaimTimeout(50 * time.Millisecond)
		alone := newStore(t, db, timeout)
		withReader := newStore(t, db, timeout, sqlstore.WithReader(openDB(t, file, "_pragma=busy_timeout(50)", 1)))
		c, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		unavailable(t, alone)
		unavailable(t, withReader)
	})
	t.Run("file gone", func(t *testing.T) {
		t.Parallel()
		dir := filepath.Join(t.TempDir(), "data")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		db := openDB(t, filepath.Join(dir, "test.db"), wal, 1)
		db.SetMaxIdleConns(-1) // each request opens the file
		prepare(t, db)
		s := newStore(t, db)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		unavailable(t, s)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		unavailable(t, s) // the driver makes an empty database
	})
	t.Run("file damaged", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "test.db")
		db := openDB(t, file, pragmas+"_pragma=journal_mode(delete)", 1)
		db.SetMaxIdleConns(-1)
		prepare(t, db)
		s := newStore(t, db)
		if err := os.WriteFile(file, []byte(strings.Repeat("damaged ", 4096)), 0o600); err != nil {
			t.Fatal(err)
		}
		unavailable(t, s)
	})
	t.Run("closed", func(t *testing.T) {
		t.Parallel()
		db := openDB(t, filepath.Join(t.TempDir(), "test.db"), wal, 1)
		prepare(t, db)
		s := newStore(t, db)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		unavailable(t, s)
	})
}

// An error of COMMIT says nothing of what became of it, so the store looks.
//
// Covers CRA-07, CRA-09, ERR-07.
func TestCommitFails(t *testing.T) {
	t.Parallel()
	failure := errors.New("disk on fire")
	work := func(runs *int) idempotency.Work[*sql.Tx] {
		return func(ctx context.Context, tx *sql.Tx) (idempotency.Response, error) {
			*runs++
			return created("first"), effect(ctx, tx, "k")
		}
	}
	for _, c := range []struct {
		name    string
		hook    func(calls int, at moment) error
		want    error // of Execute
		runs    int
		effects int // before the retry
	}{
		{"answer lost", func(calls int, at moment) error {
			if at == afterCommit {
				return failure
			}
			return nil
		}, nil, 1, 1},
		{"not committed", func(calls int, at moment) error {
			if at == beforeCommit {
				return failure
			}
			return nil
		}, idempotency.ErrUnavailable, 1, 0},
		{"not known", func(calls int, at moment) error {
			if at == afterCommit || at == beforeBegin && calls > 1 {
				return failure
			}
			return nil
		}, idempotency.ErrOutcomeUnknown, 1, 1},
		{"busy", func(calls int, at moment) error {
			if at == beforeCommit {
				return busy{5}
			}
			return nil
		}, idempotency.ErrUnavailable, 3, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "test.db")
			sound := openDB(t, file, wal, 0)
			prepare(t, sound)
			calls := 0
			s := newStore(t, openFaults(t, file, func(at moment) error {
				if at == beforeBegin {
					calls++
				}
				return c.hook(calls, at)
			}), sqlstore.WithFinishTimeout(200*time.Millisecond))
			calls = 0 // New has begun a transaction
			runs := 0
			res, err := s.Execute(t.Context(), request("k"), work(&runs))
			if !errors.Is(err, c.want) || runs != c.runs {
				t.Errorf("Execute: %v after %d runs, want %v after %d", err, runs, c.want, c.runs)
			}
			if c.want == nil && string(res.Body) != "first" {
				t.Errorf("body %q, want the answer", res.Body)
			}
			if c.want != nil && (errors.Is(err, idempotency.ErrUnavailable) == errors.Is(err, idempotency.ErrOutcomeUnknown)) {
				t.Errorf("%v is two things at once", err)
			}
			if n, err := countEffects(t.Context(), sound, "k"); n != c.effects || err != nil {
				t.Errorf("%d effects, error %v; want %d", n, err, c.effects)
			}
			if _, err := newStore(t, sound).Execute(t.Context(), request("k"), work(&runs)); err != nil {
				t.Errorf("retry: %v", err)
			}
			if n, err := countEffects(t.Context(), sound, "k"); n != 1 || err != nil {
				t.Errorf("%d effects after the retry, error %v; want 1", n, err)
			}
		})
	}
}

// Where a commit was not carried out and another attempt is first then, its
// answer is replayed.
//
// Covers CRA-09.
func TestCommitFailsAndAnotherIsFirst(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "test.db")
	sound := openDB(t, file, wal, 0)
	prepare(t, sound)
	other, begins := newStore(t, sound), 0
	s := newStore(t, openFaults(t, file, func(at moment) error {
		switch at {
		case beforeCommit:
			return errors.New("disk on fire")
		case beforeBegin:
			if begins++; begins == 2 {
				if _, err := other.Execute(t.Context(), request("k"), pay("other")); err != nil {
					t.Error(err)
				}
			}
		}
		return nil
	}))
	res, err := s.Execute(t.Context(), request("k"), pay("k"))
	if err != nil || !res.Replayed || string(res.Body) != "other" {
		t.Errorf("Execute: body %q, Replayed %v, error %v; want a replay of the other's", res.Body, res.Replayed, err)
	}
	for label, want := range map[string]int{"k": 0, "other": 1} {
		if n, err := countEffects(t.Context(), sound, label); n != want || err != nil {
			t.Errorf("%d effects %s, error %v; want %d", n, label, err, want)
		}
	}
}

// Without a key nobody can find out what became of a commit.
func TestTransactCommitFails(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "test.db")
	prepare(t, openDB(t, file, wal, 0))
	for _, c := range []struct {
		at      moment
		failure error
		want    error
	}{
		{beforeCommit, busy{5}, idempotency.ErrUnavailable},
		{beforeCommit, errors.New("disk on fire"), idempotency.ErrOutcomeUnknown},
		{afterCommit, errors.New("disk on fire"), idempotency.ErrOutcomeUnknown},
	} {
		s := newStore(t, openFaults(t, file, func(at moment) error {
			if at == c.at {
				return c.failure
			}
			return nil
		}))
		_, err := s.Transact(t.Context(), func(ctx context.Context, tx *sql.Tx) (idempotency.Response, error) {
			return created("k"), effect(ctx, tx, "k")
		})
		if !errors.Is(err, c.want) {
			t.Errorf("%s, %v: %v, want %v", c.at, c.failure, err, c.want)
		}
	}
}

// In rollback-journal mode a reader can keep COMMIT waiting until it fails.
// The transaction is then run again, and nothing is left of it.
//
// Covers ERR-07.
func TestCommitWaitsForReader(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "test.db")
	db := openDB(t, file, "_pragma=busy_timeout(20)&_pragma=synchronous(full)&_pragma=journal_mode(delete)", 0)
	prepare(t, db)
	s := newStore(t, db)
	reader, err := openDB(t, file, pragmas, 1).Begin()
	if err != nil {
		t.Fatal(err)
	}
	if err := readIn(t.Context(), reader, "k"); err != nil { // holds its lock until it ends
		t.Fatal(err)
	}
	runs := 0
	work := func(ctx context.Context, tx *sql.Tx) (idempotency.Response, error) {
		runs++
		return created("first"), effect(ctx, tx, "k")
	}
	if _, err := s.Execute(t.Context(), request("k"), work); !errors.Is(err, idempotency.ErrUnavailable) || runs != 3 {
		t.Errorf("Execute: %v after %d runs, want %v after 3", err, runs, idempotency.ErrUnavailable)
	}
	if err := reader.Rollback(); err != nil {
		t.Fatal(err)
	}
	if res, err := s.Execute(t.Context(), request("k"), work); err != nil || res.Replayed {
		t.Errorf("Execute: Replayed %v, error %v", res.Replayed, err)
	}
	if n, err := countEffects(t.Context(), db, "k"); n != 1 || err != nil {
		t.Errorf("%d effects, error %v; want 1", n, err)
	}
}

// SQLite rolls a transaction back when one of its writes is interrupted. A
// handler that takes no notice gets no record.
//
// Covers CTX-01, CRA-07.
func TestInterruptedStatement(t *testing.T) {
	t.Parallel()
	db := openDB(t, filepath.Join(t.TempDir(), "test.db"), wal, 0)
	prepare(t, db)
	s := newStore(t, db)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := s.Execute(ctx, request("k"), func(ctx context.Context, tx *sql.Tx) (idempotency.Response, error) {
		if err := effect(ctx, tx, "k"); err != nil {
			return idempotency.Response{}, err
		}
		time.AfterFunc(20*time.Millisecond, cancel)
		_, err := tx.ExecContext(ctx, `INSERT INTO effects WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n`)
		if err == nil {
			t.Error("an endless statement has ended")
		}
		return created("first"), nil
	})
	if err == nil {
		t.Error("Execute: no error")
	}
	if _, err := s.Lookup(t.Context(), request("k").Identity); !errors.Is(err, idempotency.ErrNotFound) {
		t.Errorf("Lookup: %v, want %v", err, idempotency.ErrNotFound)
	}
	if n, err := countEffects(t.Context(), db, "k"); n != 0 || err != nil {
		t.Errorf("%d effects, error %v; want 0", n, err)
	}
}

// Rows that a handler leaves open do not keep its answer from being stored,
// unless they are those of a write that is not finished.
//
// Covers CTX-13.
func TestRowsLeftOpen(t *testing.T) {
	t.Parallel()
	db := openDB(t, filepath.Join(t.TempDir(), "test.db"), wal, 1)
	prepare(t, db)
	s := newStore(t, db)
	leaveOpen := func(query string) (idempotency.Request, error) {
		req := request(query[:6])
		_, err := s.Execute(t.Context(), req, func(ctx context.Context, tx *sql.Tx) (idempotency.Response, error) {
			for range 2 {
				if err := effect(ctx, tx, req.Key); err != nil {
					return idempotency.Response{}, err
				}
			}
			rows, err := tx.QueryContext(ctx, query) //nolint:sqlclosecheck // on purpose
			if err != nil {
				return idempotency.Response{}, err
			}
			rows.Next()
			return created("first"), nil
		})
		return req, err
	}
	req, err := leaveOpen(`SELECT * FROM effects`)
	if err != nil {
		t.Errorf("open SELECT: %v", err)
	}
	if res, err := s.Execute(t.Context(), req, never(t)); err != nil || !res.Replayed {
		t.Errorf("open SELECT: Replayed %v, error %v", res.Replayed, err)
	}

	req, err = leaveOpen(`INSERT INTO effects VALUES ('returned') RETURNING label`)
	if err == nil {
		t.Error("open INSERT: no error")
	}
	if _, err := s.Lookup(t.Context(), req.Identity); !errors.Is(err, idempotency.ErrNotFound) {
		t.Errorf("open INSERT: Lookup: %v, want %v", err, idempotency.ErrNotFound)
	}
	if n, err := countEffects(t.Context(), db, req.Key); n != 0 || err != nil {
		t.Errorf("open INSERT: %d effects, error %v; want 0", n, err)
	}
}
