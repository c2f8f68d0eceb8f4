package pgxstore_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemgen/idemgen/runtime/internal/testenv"
	"github.com/idemgen/idemgen/runtime/pgxstore"
	"github.com/idemgen/idemgen/runtime/storetest"
)

// Every check has a schema of its own in one database for each variant.
func TestConformance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		dsn  func(t *testing.T) string
		opts []pgxstore.Option
		open func(t *testing.T, dsn, schema string, opts []pgxstore.Option) storetest.Fixture[pgx.Tx] // newFixture if nil
	}{
		{name: "Direct", dsn: func(t *testing.T) string { return testenv.Postgres(t) }},
		{name: "PostgreSQL18", dsn: func(t *testing.T) string { return testenv.Postgres18(t) }},
		{name: "WithoutAdvisoryLocks", dsn: newDatabaseWithoutLocks},
		// Covers STO-15.
		{name: "PgBouncer", dsn: func(t *testing.T) string { return testenv.PgBouncer(t, testenv.Postgres(t)) }},
		// Covers STO-18.
		{name: "RepeatableRead", dsn: func(t *testing.T) string { return testenv.Postgres(t) }, opts: []pgxstore.Option{pgxstore.WithIsolation(pgx.RepeatableRead)}},
		{name: "Partitioned", dsn: func(t *testing.T) string { return testenv.Postgres18(t) }, opts: []pgxstore.Option{daily}},
		{
			// In partitions that are over, since the suite expects records to be swept
			// when they expire.
			name: "PartitionedByTime", dsn: func(t *testing.T) string { return testenv.PgBouncer(t, testenv.Postgres(t)) },
			opts: []pgxstore.Option{pgxstore.WithPartitions(time.Hour)},
			open: newDatedFixture,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dsn := c.dsn(t)
			var schemas atomic.Int32
			open := newFixture
			if c.open != nil {
				open = c.open
			}
			harness := storetest.Harness[pgx.Tx]{
				Open: func(t *testing.T) storetest.Fixture[pgx.Tx] {
					return open(t, dsn, fmt.Sprintf("check_%d", schemas.Add(1)), c.opts)
				},
				Faults: map[string]func(ctx context.Context, tx pgx.Tx) error{
					"Commit":            func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) },
					"CommitIgnored":     func(ctx context.Context, tx pgx.Tx) error { _ = tx.Commit(ctx); return nil },
					"RollbackIgnored":   func(ctx context.Context, tx pgx.Tx) error { _ = tx.Rollback(ctx); return nil },
					"RollbackAsText":    execIgnored("rollback"),
					"RollbackBeginText": execIgnored("rollback; begin"),
					"FailedStatement":   execIgnored("select 1/0"),
				},
				Conflict: func(ctx context.Context, tx pgx.Tx) error {
					_, err := tx.Exec(ctx, "do $$ begin raise exception 'lost' using errcode = '40001'; end $$")
					return err
				},
			}
			storetest.Run(t, harness)
			t.Run("Leases", func(t *testing.T) {
				t.Parallel()
				storetest.RunLeases(t, harness)
			})
		})
	}
}

// newFixture opens two stores that share nothing but a new schema. Their sessions
// are in different time zones, one of which changes its clocks.
//
// Covers EXP-08.
func newFixture(t *testing.T, dsn, schema string, opts []pgxstore.Option) storetest.Fixture[pgx.Tx] {
	in := func(zone string) func(*pgxpool.Config) {
		return func(cfg *pgxpool.Config) {
			cfg.MaxConns = 4 // fewer than there are requests
			cfg.ConnConfig.RuntimeParams["timezone"] = zone
		}
	}
	pool := newPool(t, dsn, in("Asia/Kathmandu"))
	_, err := pool.Exec(t.Context(), "create schema "+schema+"; create table "+schema+".effects (label text not null)")
	if err != nil {
		t.Fatal(err)
	}
	opts = append(opts, pgxstore.WithTable(schema+".records"))
	if err := pgxstore.Migrate(t.Context(), pool, opts...); err != nil {
		t.Fatal(err)
	}
	return storetest.Fixture[pgx.Tx]{
		Store:   newStore(t, pool, opts...),
		Replica: newStore(t, newPool(t, dsn, in("America/Los_Angeles")), opts...),
		Effect: func(ctx context.Context, tx pgx.Tx, label string) error {
			_, err := tx.Exec(ctx, "insert into "+schema+".effects (label) values ($1)", pgx.QueryExecModeExec, label)
			return err
		},
		Effects: func(ctx context.Context, label string) (n int, err error) {
			err = pool.QueryRow(ctx, "select count(*) from "+schema+".effects where label = $1", pgx.QueryExecModeExec, label).Scan(&n)
			return n, err
		},
		Advance: func(ctx context.Context, d time.Duration) error {
			_, err := pool.Exec(ctx, "update "+schema+".records set created_at = created_at - $1::interval, expires_at = expires_at - $1::interval, lease_until = lease_until - $1::interval", pgx.QueryExecModeExec, d)
			return err
		},
		Cut: pool.Close,
	}
}

// execIgnored sends sql and ignores its error, as a careless handler does.
func execIgnored(sql string) func(ctx context.Context, tx pgx.Tx) error {
	return func(ctx context.Context, tx pgx.Tx) error {
		_, _ = tx.Exec(ctx, sql)
		return nil
	}
}
