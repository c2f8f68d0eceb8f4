package sqlstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/idemgen/idemgen/runtime/internal/testenv"
	"github.com/idemgen/idemgen/runtime/sqlstore"
	"github.com/idemgen/idemgen/runtime/storetest"
)

const pragmas = "_pragma=busy_timeout(5000)&_pragma=synchronous(full)&"

// openDB opens a pool of at most conns connections; 0 is no limit.
func openDB(t testing.TB, file, query string, conns int) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file+"?"+query)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(conns)
	return db
}

// prepare creates the store's table and one for business effects.
func prepare(t testing.TB, db *sql.DB) {
	t.Helper()
	if err := sqlstore.Migrate(t.Context(), db, sqlstore.SQLite); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), `CREATE TABLE effects (label TEXT NOT NULL)`); err != nil {
		t.Fatal(err)
	}
}

func newStore(t testing.TB, db *sql.DB, opts ...sqlstore.Option) *sqlstore.Store {
	t.Helper()
	s, err := sqlstore.New(t.Context(), db, sqlstore.SQLite, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func effect(ctx context.Context, tx *sql.Tx, label string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO effects (label) VALUES (?)`, label)
	return err
}

func countEffects(ctx context.Context, db *sql.DB, label string) (n int, err error) {
	err = db.QueryRowContext(ctx, `SELECT count(*) FROM effects WHERE label = ?`, label).Scan(&n)
	return n, err
}

func execute(query string) func(context.Context, *sql.Tx) error {
	return func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, query)
		return err
	}
}

// busy is the error of a driver that tells SQLite's code by a method.
type busy struct{ code int }

func (e busy) Error() string { return fmt.Sprintf("database is locked (%d)", e.code) }
func (e busy) Code() int     { return e.code }

// TestConformance runs the suite on real files, in the ways a pool can be set
// up. The replica has pools of its own on the same file.
//
// Covers STO-20.
func TestConformance(t *testing.T) {
	t.Parallel()
	var version string
	if err := openDB(t, ":memory:", "", 1).QueryRow("SELECT sqlite_version()").Scan(&version); err != nil {
		t.Fatal(err)
	}
	testenv.Say("SQLite", version)
	for _, c := range []struct {
		name, query string
		conns       int
		reader      bool
		leases      bool
	}{
		{name: "OneConnection", query: pragmas + "_pragma=journal_mode(wal)", conns: 1},
		{name: "OneWriterAndReaders", query: pragmas + "_pragma=journal_mode(wal)", conns: 1, reader: true, leases: true},
		{name: "ManyConnections", query: pragmas + "_pragma=journal_mode(wal)", conns: 8},
		{name: "Immediate", query: pragmas + "_pragma=journal_mode(wal)&_txlock=immediate", conns: 2},
		{name: "RollbackJournal", query: pragmas + "_pragma=journal_mode(delete)", conns: 4, leases: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			open := func(t *testing.T) storetest.Fixture[*sql.Tx] {
				file := filepath.Join(t.TempDir(), "test.db")
				pool := func() (*sqlstore.Store, *sql.DB, func()) {
					db := openDB(t, file, c.query, c.conns)
					if _, err := db.Exec(`CREATE TABLE IF NOT EXISTS effects (label TEXT NOT NULL)`); err != nil {
						t.Fatal(err)
					}
					if err := sqlstore.Migrate(t.Context(), db, sqlstore.SQLite); err != nil {
						t.Fatal(err)
					}
					if c.reader {
						reader := openDB(t, file, c.query, 4)
						return newStore(t, db, sqlstore.WithReader(reader)), db, func() { db.Close(); reader.Close() }
					}
					return newStore(t, db), db, func() { db.Close() }
				}
				first, db, cut := pool()
				second, _, _ := pool()
				return storetest.Fixture[*sql.Tx]{
					Store:   first,
					Replica: second,
					Effect:  effect,
					Effects: func(ctx context.Context, label string) (int, error) { return countEffects(ctx, db, label) },
					Advance: func(ctx context.Context, d time.Duration) error {
						_, err := db.ExecContext(ctx, `UPDATE idempotency_records SET created_at = created_at - ?1, expires_at = expires_at - ?1, lease_until = lease_until - ?1`, d.Milliseconds())
						return err
					},
					Cut: cut,
				}
			}
			harness := storetest.Harness[*sql.Tx]{
				Open:      open,
				OneWriter: true,
				Faults: map[string]func(context.Context, *sql.Tx) error{
					"Commit":              func(_ context.Context, tx *sql.Tx) error { return tx.Commit() },
					"Rollback":            func(_ context.Context, tx *sql.Tx) error { return tx.Rollback() },
					"COMMIT as text":      execute(`COMMIT`),
					"ROLLBACK as text":    execute(`ROLLBACK`),
					"COMMIT and BEGIN":    execute(`COMMIT; BEGIN`),
					"ROLLBACK and BEGIN":  execute(`ROLLBACK; BEGIN IMMEDIATE`),
					"END as text":         execute(`END`),
					"statement fails":     execute(`INSERT INTO effects (label) VALUES (NULL)`),
					"statement ends all":  execute(`INSERT OR ROLLBACK INTO effects (label) VALUES (NULL)`),
					"savepoint left open": execute(`SAVEPOINT mine`),
					"no such table":       execute(`INSERT INTO nowhere VALUES (1)`),
				},
				Conflict: func(context.Context, *sql.Tx) error { return fmt.Errorf("debit: %w", busy{5 | 2<<8}) },
			}
			storetest.Run(t, harness)
			if !c.leases {
				return
			}
			t.Run("Leases", func(t *testing.T) {
				t.Parallel()
				storetest.RunLeases(t, harness)
			})
		})
	}
}
