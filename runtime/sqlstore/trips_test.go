package sqlstore_test

import (
	"context"
	"database/sql"
	"net"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/idemgen/idemgen/runtime/idempotency"
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

// A lease costs three round trips beside its handler, a look, the claim and the
// completion, and its replay one.
func TestRoundTripsOfALease(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T, d *dialled) (*sql.DB, server){"MySQL": countedMySQL, "PostgreSQL": countedPostgreSQL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := new(dialled)
			db, srv := open(t, d)
			db.SetMaxOpenConns(1)
			s := srv.on(t, db)
			leases := idempotency.Leases(s, time.Minute)
			refund := func(req idempotency.Request) func() {
				return func() {
					_, err := leases.Execute(t.Context(), req, func(context.Context, *idempotency.Lease) (idempotency.Response, error) { return created("refund"), nil })
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			req := refundRequest()
			req.Key = "warm"
			refund(req)() // statements are prepared
			for _, key := range []string{"first", "second"} {
				req.Key = key
				if got := d.during(refund(req)); got != 3 {
					t.Errorf("%s request: %d round trips, want 3", key, got)
				}
				if got := d.during(refund(req)); got != 1 {
					t.Errorf("%s replay: %d round trips, want 1", key, got)
				}
			}
			req.Key = "steps"
			token := idempotency.LeaseToken{1}
			if _, err := s.AcquireLease(t.Context(), req, token); err != nil {
				t.Fatal(err)
			}
			// Each is for longer: MySQL counts no row for one that changes nothing.
			extend := func(lease time.Duration) func() {
				return func() {
					if err := s.ExtendLease(t.Context(), req, token, lease); err != nil {
						t.Fatal(err)
					}
				}
			}
			extend(time.Hour)()
			if got := d.during(extend(2 * time.Hour)); got != 1 {
				t.Errorf("an extension: %d round trips, want 1", got)
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
