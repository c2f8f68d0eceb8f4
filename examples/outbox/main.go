// Outbox is an API whose handlers send e-mail, by way of a job that is enqueued
// in the transaction of the answer. Run it with:
// DATABASE_URL=postgres://... go run ./examples/outbox
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/idemgen/idemgen/examples/outbox/api"
	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/pgxstore"
)

//go:embed schema.sql
var schema string

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to serve on")
	mails := flag.String("mails", "mails.jsonl", "file that e-mails are sent to")
	workers := flag.Int("workers", 10, "how many e-mails to send at a time; 0 leaves them to other processes")
	flag.Parse()
	if err := run(*addr, os.Getenv("DATABASE_URL"), *mails, *workers); err != nil {
		fmt.Fprintln(os.Stderr, "outbox:", err)
		os.Exit(1)
	}
}

func run(addr, dsn, mails string, workers int) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if dsn == "" {
		return errors.New("DATABASE_URL is not set; set it to postgres://user@host:port/database")
	}
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return err
	}
	defer pool.Close()
	store, err := prepare(ctx, pool)
	if err != nil {
		return err
	}
	jobs, err := newJobs(pool, sendTo(mails), workers, slog.Default())
	if err != nil {
		return err
	}
	go idempotency.RunSweeper(ctx, store, time.Hour, slog.Default())
	if workers > 0 {
		if err := jobs.Start(ctx); err != nil {
			return err
		}
		// Stopping leaves the e-mails that are being sent 10 s; the others stay
		// in the database.
		defer func() { <-jobs.Stopped() }()
		defer stop()
	}
	return serve(ctx, addr, newHandler(service{jobs: jobs}, store, slog.Default()))
}

// newHandler wires the API: the service, the store that makes it idempotent,
// and who the caller is.
func newHandler(s api.IdempotentServer[pgx.Tx], store idempotency.Store[pgx.Tx], logger *slog.Logger) http.Handler {
	return api.Handler(api.NewIdempotentHandler(
		s,
		store,
		idempotency.ScopeByHeader("X-Api-Key"),
		idempotency.WithObserver(idempotency.LogTo(logger)),
	))
}

// prepare makes the tables, River's among them, and returns the store. A real
// service does all but the last step when it is deployed, not at every start.
func prepare(ctx context.Context, pool *pgxpool.Pool) (*pgxstore.Store, error) {
	if _, err := pool.Exec(ctx, schema); err != nil {
		return nil, err
	}
	river, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		return nil, err
	}
	if _, err := river.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, err
	}
	if err := pgxstore.Migrate(ctx, pool); err != nil {
		return nil, err
	}
	return pgxstore.New(ctx, pool)
}

func serve(ctx context.Context, addr string, handler http.Handler) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	stopped := make(chan error, 1)
	context.AfterFunc(ctx, func() {
		// What is running may finish: its answer is worth more than a fast stop.
		finish, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		stopped <- server.Shutdown(finish)
	})
	slog.Info("serving", "address", "http://"+listener.Addr().String())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}
