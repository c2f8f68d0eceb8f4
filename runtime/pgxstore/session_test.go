package pgxstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/pgxstore"
)

// What work does to its session changes neither where its answer is kept nor
// what a retry reads, on this connection and on others.
//
// Covers EXP-08.
func TestSessionOfWork(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"SearchPathOfTransaction": "set local search_path to tenant",
		"SearchPathOfSession":     "set search_path to tenant",
		"TemporaryTable":          "create temp table idempotency_records (like public.idempotency_records including all)",
		"TimeZone":                "set timezone to 'Asia/Kathmandu'; set datestyle to german; set intervalstyle to iso_8601",
		"Strings":                 "set standard_conforming_strings to off; set bytea_output to escape",
		"Isolation":               "set default_transaction_isolation to serializable; set default_transaction_deferrable to on",
		"Role":                    "set local role cashier",
		"Cursor":                  "declare c cursor for select generate_series(1, 10)",
		"Locks":                   "select pg_advisory_lock(1), pg_advisory_xact_lock(2), pg_advisory_unlock_all()",
		"Notifications":           "listen payments; notify payments, 'made'",
		"Notices":                 "do $$ begin raise notice 'paid'; raise warning 'paid'; end $$",
		"Timeouts":                "set local statement_timeout to 0; set local lock_timeout to '1s'; set local idle_in_transaction_session_timeout to 0",
		"Prepared":                "prepare p as select 1; deallocate p",
		"Constraints":             "set constraints all deferred",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := newDatabase(t)
			pool := newPool(t, dsn)
			_, err := pool.Exec(t.Context(), `create schema tenant;
				create table tenant.idempotency_records (like public.idempotency_records including all);
				do $$ begin create role cashier; exception when duplicate_object or unique_violation then null; end $$;
				grant usage on schema public, tenant to cashier;
				grant all on effects, idempotency_records to cashier`)
			if err != nil {
				t.Fatal(err)
			}
			s := newStore(t, newPool(t, dsn, func(cfg *pgxpool.Config) { cfg.MaxConns = 1 }))
			others := newStore(t, pool)
			work := func(key string) idempotency.Work[pgx.Tx] {
				return func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
					if _, err := tx.Exec(ctx, "insert into public.effects (key) values ($1)", key); err != nil {
						return idempotency.Response{}, err
					}
					_, err := tx.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
					return created(key), err
				}
			}
			for _, key := range []string{"1", "2", "3"} {
				if res, err := s.Execute(t.Context(), request(key, "a"), work(key)); err != nil || res.Replayed {
					if name == "TemporaryTable" && key != "1" && strings.Contains(err.Error(), "already exists") {
						continue
					}
					t.Fatalf("first request %s: %+v, %v", key, res, err)
				}
				for _, s := range []*pgxstore.Store{others, s} {
					if res, err := s.Execute(t.Context(), request(key, "a"), never(t)); err != nil || !res.Replayed || string(res.Body) != string(created(key).Body) {
						t.Errorf("retry %s: %+v, %v", key, res, err)
					}
				}
				if _, err := others.Execute(t.Context(), request(key, "b"), never(t)); !errors.Is(err, idempotency.ErrMismatch) {
					t.Errorf("other content %s: %v", key, err)
				}
				if n := effects(t, pool, key); n != 1 {
					t.Errorf("%d effects %s", n, key)
				}
			}
		})
	}
}
