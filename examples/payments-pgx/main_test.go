package main

import (
	"context"
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemgen/idemgen/examples/internal/e2e"
	"github.com/idemgen/idemgen/runtime/idempotency"
)

// TestMain serves where a test has started this binary as a server.
func TestMain(m *testing.M) { e2e.Main(m, serveChild) }

// serveChild is run with a store that stops where the test wants it to.
func serveChild(args []string) error {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, args[0])
	if err != nil {
		return err
	}
	store, err := prepare(ctx, pool)
	if err != nil {
		return err
	}
	return serve(ctx, "127.0.0.1:0", newHandler(service{pool: pool}, e2e.Stall(idempotency.Store[pgx.Tx](store)), slog.New(slog.DiscardHandler)))
}

// openBank returns a bank on a fresh database.
func openBank(t *testing.T) e2e.Bank {
	dsn := e2e.Postgres(t)
	return e2e.Bank{
		Start: func(t *testing.T, point e2e.Point) *e2e.Process { return e2e.Start(t, point, dsn) },
		State: func(t *testing.T) (s e2e.State) {
			t.Helper()
			conn, err := pgx.Connect(t.Context(), dsn)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(context.WithoutCancel(t.Context()))
			err = conn.QueryRow(t.Context(), `SELECT
				(SELECT balance FROM accounts WHERE id = 'alice'),
				(SELECT balance FROM accounts WHERE id = 'bob'),
				(SELECT count(*) FROM payments),
				(SELECT count(*) FROM idempotency_records)`).Scan(&s.Alice, &s.Bob, &s.Payments, &s.Stored)
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
	}
}

// The server is killed at each point of a payment; the retry pays once.
// Covers CRA-01, CRA-02, CRA-03, CRA-04.
func TestCrash(t *testing.T) {
	t.Parallel()
	e2e.Crash(t, openBank)
}

// A client that has gone leaves nothing or a complete record.
// Covers CTX-01.
func TestClientGone(t *testing.T) {
	t.Parallel()
	e2e.ClientGone(t, openBank)
}

// 32 clients send 500 payments ten times each.
// Covers CON-01, CON-02, CON-09.
func TestCrowd(t *testing.T) {
	t.Parallel()
	e2e.Crowd(t, openBank(t), 32, 500, 10)
}
