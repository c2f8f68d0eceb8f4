package sqlstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/sqlstore"
	"github.com/idemgen/idemgen/runtime/storetest"
)

// server is what tests that run on all servers need to know of one.
type server struct {
	name    string
	driver  string
	dialect sqlstore.Dialect
	commit  string // a COMMIT on the wire, and nothing else
	column  string // the type of a label
	label   string // the parameter for it
	// back moves the times of the table %s back by %d milliseconds.
	back string
	// pool returns one on a new database with the store's table and one of
	// effects, and its data source name.
	pool func(t testing.TB) (db *sql.DB, dsn string)
	work func(label string) idempotency.Work[*sql.Tx]
	// through returns dsn with another address for the server's own.
	through func(t testing.TB, dsn string, addr func(server string) string) string
}

func servers() []server {
	return []server{mysqlServer(), postgresqlServer("pgx"), postgresqlServer("postgres")}
}

func mysqlServer() server {
	return server{
		name: "MySQL", driver: "mysql", dialect: sqlstore.MySQL,
		commit: "\x03COMMIT", column: "VARBINARY(2048)", label: "?",
		back: "UPDATE %s SET created_at = created_at - %[2]d, expires_at = expires_at - %[2]d, lease_until = lease_until - %[2]d LIMIT 1000000",
		pool: newMySQL, work: pay,
		through: func(t testing.TB, dsn string, addr func(string) string) string {
			t.Helper()
			cfg, err := mysql.ParseDSN(dsn)
			if err != nil {
				t.Fatal(err)
			}
			cfg.Addr = addr(cfg.Addr)
			return cfg.FormatDSN()
		},
	}
}

func postgresqlServer(driver string) server {
	return server{
		name: "PostgreSQL, " + driver, driver: driver, dialect: sqlstore.PostgreSQL,
		commit: "commit\x00", column: "TEXT", label: "$1",
		back: "UPDATE %s SET created_at = created_at - interval '%[2]d ms', expires_at = expires_at - interval '%[2]d ms', lease_until = lease_until - interval '%[2]d ms'",
		pool: func(t testing.TB) (*sql.DB, string) { t.Helper(); return newPostgreSQL(t, driver) },
		work: payPostgreSQL,
		through: func(t testing.TB, dsn string, addr func(string) string) string {
			t.Helper()
			u, err := url.Parse(dsn)
			if err != nil {
				t.Fatal(err)
			}
			u.Host = addr(u.Host)
			return u.String()
		},
	}
}

// store opens a pool and a store.
func (s server) store(t testing.TB, dsn string, conns int, opts ...sqlstore.Option) *sqlstore.Store {
	t.Helper()
	return s.on(t, s.open(t, dsn, conns), opts...)
}

// open opens a pool of at most conns connections; 0 is no limit.
func (s server) open(t testing.TB, dsn string, conns int) *sql.DB {
	t.Helper()
	db, err := sql.Open(s.driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(conns)
	return db
}

// on opens a store on a pool.
func (s server) on(t testing.TB, db *sql.DB, opts ...sqlstore.Option) *sqlstore.Store {
	t.Helper()
	store, err := sqlstore.New(t.Context(), db, s.dialect, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// fixture opens two stores that share nothing but new tables.
func (s server) fixture(t *testing.T, db, other *sql.DB, number int32) storetest.Fixture[*sql.Tx] {
	t.Helper()
	records, effects := fmt.Sprintf("records_%d", number), fmt.Sprintf("effects_%d", number)
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE "+effects+" (label "+s.column+" NOT NULL)"); err != nil {
		t.Fatal(err)
	}
	table := sqlstore.WithTable(records)
	if err := sqlstore.Migrate(t.Context(), db, s.dialect, table); err != nil {
		t.Fatal(err)
	}
	return storetest.Fixture[*sql.Tx]{
		Store:   s.on(t, db, table),
		Replica: s.on(t, other, table),
		Effect: func(ctx context.Context, tx *sql.Tx, label string) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO "+effects+" (label) VALUES ("+s.label+")", label)
			return err
		},
		Effects: func(ctx context.Context, label string) (n int, err error) {
			err = db.QueryRowContext(ctx, "SELECT count(*) FROM "+effects+" WHERE label = "+s.label, label).Scan(&n)
			return n, err
		},
		Advance: func(ctx context.Context, d time.Duration) error {
			_, err := db.ExecContext(ctx, fmt.Sprintf(s.back, records, d.Milliseconds()))
			return err
		},
		Cut: func() { _ = db.Close() },
	}
}

// count counts the committed effects with a label.
func count(t testing.TB, db *sql.DB, label string) (n int) {
	t.Helper()
	err := db.QueryRowContext(context.WithoutCancel(t.Context()), "SELECT count(*) FROM effects WHERE label = '"+label+"'").Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
