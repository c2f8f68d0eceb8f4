package main

import (
	"context"
	"database/sql"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/idemgen/idemgen/examples/internal/e2e"
	"github.com/idemgen/idemgen/runtime/idempotency"
)

// TestMain serves where a test has started this binary as a server.
func TestMain(m *testing.M) { e2e.Main(m, serveChild) }

// serveChild is run with a store that stops where the test wants it to.
func serveChild(args []string) error {
	ctx := context.Background()
	writer, reader, err := open(args[0])
	if err != nil {
		return err
	}
	store, err := prepare(ctx, writer, reader)
	if err != nil {
		return err
	}
	return serve(ctx, "127.0.0.1:0", newHandler(service{reader: reader}, e2e.Stall(idempotency.Store[*sql.Tx](store)), slog.New(slog.DiscardHandler)))
}

// openBank returns a bank on a fresh file.
func openBank(t *testing.T) e2e.Bank {
	file := filepath.Join(t.TempDir(), "payments.db")
	return e2e.Bank{
		Start: func(t *testing.T, point e2e.Point) *e2e.Process { return e2e.Start(t, point, file) },
		State: func(t *testing.T) (s e2e.State) {
			t.Helper()
			writer, reader, err := open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer writer.Close()
			defer reader.Close()
			err = reader.QueryRowContext(t.Context(), `SELECT
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
