package pgxstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
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

// A pool may be set up as its users need it.
func TestPoolsOfAllKinds(t *testing.T) {
	t.Parallel()
	discard := func(conn *pgx.Conn) bool {
		_, err := conn.Exec(context.Background(), "discard all")
		return err == nil
	}
	for name, adapt := range map[string]func(cfg *pgxpool.Config){
		"SimpleProtocol": func(cfg *pgxpool.Config) { cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol },
		"Exec":           func(cfg *pgxpool.Config) { cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec },
		"DescribeExec":   func(cfg *pgxpool.Config) { cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeDescribeExec },
		"CacheDescribe":  func(cfg *pgxpool.Config) { cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe },
		"SmallCaches":    func(cfg *pgxpool.Config) { cfg.ConnConfig.StatementCacheCapacity = 1 },
		"DiscardOnRelease": func(cfg *pgxpool.Config) {
			cfg.AfterRelease = discard
			cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec // pgx's own caches do not stand it
		},
		"ClosedOnRelease": func(cfg *pgxpool.Config) { cfg.AfterRelease = func(*pgx.Conn) bool { return false } },
		"ClosedOnError": func(cfg *pgxpool.Config) {
			cfg.ConnConfig.OnPgError = func(*pgconn.PgConn, *pgconn.PgError) bool { return false }
		},
		"SessionForEachRequest": func(cfg *pgxpool.Config) {
			cfg.PrepareConn = func(ctx context.Context, conn *pgx.Conn) (bool, error) {
				_, err := conn.Exec(ctx, "set search_path to pg_catalog; set timezone to 'Pacific/Apia'")
				return err == nil, err
			}
			cfg.ConnConfig.RuntimeParams["search_path"] = "public"
		},
		"Serializable": func(cfg *pgxpool.Config) {
			cfg.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
		},
		"QuotedIdentifiers": func(cfg *pgxpool.Config) {
			cfg.ConnConfig.RuntimeParams["quote_all_identifiers"] = "on"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := newDatabase(t) + "&search_path=public"
			others := newPool(t, dsn)
			other := newStore(t, others, pgxstore.WithTable("public.idempotency_records"))
			pool := newPool(t, dsn, adapt, func(cfg *pgxpool.Config) { cfg.MaxConns = 1 })
			s := newStore(t, pool, pgxstore.WithTable("public.idempotency_records"))
			pay := func(key string) idempotency.Work[pgx.Tx] {
				return func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
					_, err := tx.Exec(ctx, "insert into public.effects (key) values ($1)", key)
					return created(key), err
				}
			}
			for _, key := range []string{"1", "2", "3", "4"} {
				_, err := s.Execute(t.Context(), request(key, "a"), func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
					_, err := pay(key)(ctx, tx)
					return idempotency.Response{}, errors.Join(err, pgx.ErrNoRows)
				})
				if !errors.Is(err, pgx.ErrNoRows) {
					t.Errorf("failed work: %v", err)
				}
				_, err = s.Execute(t.Context(), request(key, "a"), func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
					_, _ = pay(key)(ctx, tx)
					_, _ = tx.Exec(ctx, "select 1/0")
					return created(key), nil
				})
				if err == nil {
					t.Error("an answer after a failed statement was stored")
				}
				settled(t, s, request(key, "a"), func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
					if _, err := other.Execute(ctx, request(key, "a"), never(t)); !errors.Is(err, idempotency.ErrInFlight) {
						t.Errorf("duplicate: %v", err)
					}
					return pay(key)(ctx, tx)
				})
				for _, s := range []*pgxstore.Store{s, other, s} {
					if res, err := s.Execute(t.Context(), request(key, "a"), never(t)); err != nil || !res.Replayed {
						t.Errorf("retry: %+v, %v", res, err)
					}
					if _, err := s.Execute(t.Context(), request(key, "b"), never(t)); !errors.Is(err, idempotency.ErrMismatch) {
						t.Errorf("other content: %v", err)
					}
				}
				if _, err := s.Transact(t.Context(), pay(key)); err != nil {
					t.Errorf("plain transaction: %v", err)
				}
				if _, err := s.Lookup(t.Context(), request(key, "a").Identity); err != nil {
					t.Errorf("lookup: %v", err)
				}
				var n int
				if err := others.QueryRow(t.Context(), "select count(*) from effects where key = $1", key).Scan(&n); err != nil || n != 2 {
					t.Errorf("%d effects, want that of the request and that of the plain transaction: %v", n, err)
				}
			}
			waitIdle(t, pool)
		})
	}
}
