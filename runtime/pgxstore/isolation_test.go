package pgxstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/pgxstore"
)

// What the store does for itself sees what was committed while it began, at the
// isolation level of work and of the session too: here a record that comes
// between the lock and the look.
//
// Covers STO-18.
func TestOwnTransactionsReadWhatIsCommitted(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(context.Context, *pgxstore.Store, idempotency.Request) error{
		"Release": func(ctx context.Context, s *pgxstore.Store, req idempotency.Request) error {
			return s.Release(ctx, req.Identity)
		},
		"AcquireLease": func(ctx context.Context, s *pgxstore.Store, req idempotency.Request) error {
			req.Lease = time.Minute
			res, err := s.AcquireLease(ctx, req, idempotency.LeaseToken{1})
			if err == nil && !res.Replayed {
				return errors.New("the claim was made")
			}
			return err
		},
		"LostCommit": func(ctx context.Context, s *pgxstore.Store, req idempotency.Request) error {
			_, err := s.Execute(ctx, req, func(context.Context, pgx.Tx) (idempotency.Response, error) { return created("k"), nil })
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := newDatabase(t)
			admin := newPool(t, dsn)
			req := request("k", "a")
			if _, err := newStore(t, admin).Execute(t.Context(), req, pay("k")); err != nil {
				t.Fatal(err)
			}
			exec := func(sql string) {
				if _, err := admin.Exec(t.Context(), sql); err != nil {
					t.Error(err)
				}
			}
			exec("create table aside as table idempotency_records")
			exec("delete from idempotency_records")

			p := newProxy(t, dsn)
			s := newStore(t, newPool(t, p.dsn, func(cfg *pgxpool.Config) {
				cfg.ConnConfig.RuntimeParams["default_transaction_isolation"] = "repeatable read"
			}), pgxstore.WithIsolation(pgx.RepeatableRead))
			between := func() {
				waitFor(t, admin, "select count(*) from pg_locks where locktype = 'advisory'")
				exec("insert into idempotency_records table aside")
			}
			if name == "LostCommit" {
				p.before("insert", func() { p.before("select scope", between) })
				p.on("commit", cut)
			} else {
				p.before("select scope", between)
			}
			if err := do(t.Context(), s, req); err != nil {
				t.Error(err)
			}
		})
	}
}

// A step of a lease that meets another one waits for it and goes on: it does not
// fail for its session's isolation level.
//
// Covers STO-18.
func TestStepsOfALeaseWaitForEachOther(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]func(context.Context, *pgxstore.Store, idempotency.Request, idempotency.LeaseToken) error{
		"Extend": func(ctx context.Context, s *pgxstore.Store, req idempotency.Request, token idempotency.LeaseToken) error {
			return s.ExtendLease(ctx, req, token, time.Hour)
		},
		"Complete": func(ctx context.Context, s *pgxstore.Store, req idempotency.Request, token idempotency.LeaseToken) error {
			return s.CompleteLease(ctx, req, token, created("refund"))
		},
		"Release": func(ctx context.Context, s *pgxstore.Store, req idempotency.Request, token idempotency.LeaseToken) error {
			return s.ReleaseLease(ctx, req, token)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := newDatabase(t)
			s := newStore(t, newPool(t, dsn, func(cfg *pgxpool.Config) {
				cfg.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
			}))
			req, token := refundRequest(), idempotency.LeaseToken{1}
			if _, err := s.AcquireLease(t.Context(), req, token); err != nil {
				t.Fatal(err)
			}
			admin := newPool(t, dsn)
			other, err := admin.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := other.Exec(t.Context(), "update idempotency_records set lease_until = lease_until + interval '1 s'"); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- step(t.Context(), s, req, token) }()
			waitFor(t, admin, "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'")
			if err := other.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// waitFor waits until query counts something.
func waitFor(t *testing.T, pool *pgxpool.Pool, query string) {
	t.Helper()
	for n := 0; n == 0; {
		if err := pool.QueryRow(t.Context(), query).Scan(&n); err != nil {
			t.Error(err)
			return
		}
	}
}
