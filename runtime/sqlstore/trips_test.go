package sqlstore_test

import (
	"context"
	"database/sql"
	"net"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/idemgen/idemgen/runtime/sqlstore"
)

// A first request makes a known number of round trips more than its bare
// transaction, and so does a replay before it is answered.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		open   func(t *testing.T, d *dialled) (*sql.DB, server)
		first  int // claim, two of the savepoint, record, lock; or claim, look, record
		replay int
	}{
		{"MySQL", countedMySQL, 5, 2},
		{"PostgreSQL", countedPostgreSQL, 3, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := new(dialled)
			db, srv := c.open(t, d)
			db.SetMaxOpenConns(1)
			s, err := sqlstore.New(t.Context(), db, srv.dialect)
			if err != nil {
				t.Fatal(err)
			}
			first := func(key string) func() {
				return func() {
					if _, err := s.Execute(t.Context(), request(key), srv.work(key)); err != nil {
						t.Fatal(err)
					}
				}
			}
			bare := func() {
				tx, err := db.BeginTx(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := srv.work("bare")(t.Context(), tx); err != nil {
					t.Fatal(err)
				}
				if err := tx.Commit(); err != nil {
					t.Fatal(err)
				}
			}
			bare() // statements are prepared
			first("a")()
			want := d.during(bare)
			if got := d.during(first("b")); got != want+c.first {
				t.Errorf("a first request makes %d round trips, its bare transaction %d: want %d more", got, want, c.first)
			}
			replay := func() {
				if _, err := s.Execute(t.Context(), request("b"), never(t)); err != nil {
					t.Fatal(err)
				}
				if err := db.PingContext(t.Context()); err != nil { // when the connection is back
					t.Fatal(err)
				}
			}
			ping := d.during(func() { _ = db.PingContext(t.Context()) })
			if got := d.during(replay) - ping; got != c.replay {
				t.Errorf("a replay makes %d round trips, want %d", got, c.replay)
			}
		})
	}
}

func countedMySQL(t *testing.T, d *dialled) (*sql.DB, server) {
	t.Helper()
	_, dsn := newMySQL(t)
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	cfg.InterpolateParams = true // the handler's own statements
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return &countingConn{Conn: conn, dialled: d}, err
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	return db, mysqlServer()
}

func countedPostgreSQL(t *testing.T, d *dialled) (*sql.DB, server) {
	t.Helper()
	_, dsn := newPostgreSQL(t, "pgx")
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return &countingConn{Conn: conn, dialled: d}, err
	}
	db := stdlib.OpenDB(*cfg)
	t.Cleanup(func() { _ = db.Close() })
	return db, postgresqlServer("pgx")
}
