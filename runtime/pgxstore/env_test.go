package pgxstore_test

import (
	"context"
	"crypto/sha256"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/internal/testenv"
	"github.com/idemgen/idemgen/runtime/pgxstore"
)

// newPool returns a pool on dsn that is closed when the test ends.
func newPool(t testing.TB, dsn string, adapt ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range adapt {
		a(cfg)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// newDatabase returns the connection string of a database with the store's
// table and a table of effects.
func newDatabase(t testing.TB) string {
	t.Helper()
	dsn := testenv.Postgres(t)
	fill(t, dsn)
	return dsn
}

// fill creates the store's table and a table of effects.
func fill(t testing.TB, dsn string) {
	t.Helper()
	pool := newPool(t, dsn)
	if err := pgxstore.Migrate(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), "create table effects (key text not null)"); err != nil {
		t.Fatal(err)
	}
}

// newBouncedDatabase is newDatabase through a PgBouncer in transaction mode.
func newBouncedDatabase(t *testing.T) string { return testenv.PgBouncer(t, newDatabase(t)) }

// newDatabaseWithoutLocks is newDatabase with advisory locks that keep nobody
// out, as on servers that offer the function for compatibility alone.
func newDatabaseWithoutLocks(t *testing.T) string {
	dsn := newDatabase(t) + "&search_path=broken,public,pg_catalog"
	_, err := newPool(t, dsn).Exec(t.Context(), `create schema broken;
		create function broken.pg_try_advisory_xact_lock(bigint) returns boolean language sql as 'select true'`)
	if err != nil {
		t.Fatal(err)
	}
	return dsn
}

func newStore(t testing.TB, pool *pgxpool.Pool, opts ...pgxstore.Option) *pgxstore.Store {
	t.Helper()
	s, err := pgxstore.New(t.Context(), pool, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// request returns a request under key whose content is body.
func request(key, body string) idempotency.Request {
	r := idempotency.Request{
		Identity:  idempotency.Identity{Scope: "tenant", Operation: "createPayment", Key: key},
		Retention: time.Hour,
	}
	sum := sha256.Sum256([]byte(body))
	r.Fingerprint[0] = 1
	copy(r.Fingerprint[1:], sum[:])
	return r
}

// pay is work that makes one effect for key, in a way that PgBouncer allows.
func pay(key string) idempotency.Work[pgx.Tx] {
	return func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
		if _, err := tx.Exec(ctx, "insert into effects (key) values ($1)", pgx.QueryExecModeExec, key); err != nil {
			return idempotency.Response{}, err
		}
		return created(key), nil
	}
}

func created(key string) idempotency.Response {
	return idempotency.Response{Status: 201, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(`{"id":"` + key + `"}`)}
}

// effects counts the effects made for key.
func effects(t testing.TB, pool *pgxpool.Pool, key string) int {
	t.Helper()
	var n int
	if err := pool.QueryRow(context.WithoutCancel(t.Context()), "select count(*) from effects where key = $1", pgx.QueryExecModeExec, key).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
