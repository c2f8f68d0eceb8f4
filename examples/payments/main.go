// Payments is a small API on a SQLite file whose payments survive retries and
// crashes. Run it with: go run ./examples/payments
package main

import (
	"context"
	"database/sql"
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

	"github.com/idemgen/idemgen/examples/payments/api"
	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/sqlstore"
	_ "modernc.org/sqlite"
)

//go:embed schema.sql
var schema string

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to serve on")
	file := flag.String("db", "payments.db", "SQLite file, made if missing")
	work := flag.Duration("work", 0, "how long a payment takes, to see what happens meanwhile")
	flag.Parse()
	if err := run(*addr, *file, *work); err != nil {
		fmt.Fprintln(os.Stderr, "payments:", err)
		os.Exit(1)
	}
}

func run(addr, file string, work time.Duration) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	writer, reader, err := open(file)
	if err != nil {
		return err
	}
	defer writer.Close()
	defer reader.Close()
	store, err := prepare(ctx, writer, reader)
	if err != nil {
		return err
	}
	go idempotency.RunSweeper(ctx, store, time.Hour, slog.Default())
	return serve(ctx, addr, newHandler(service{reader: reader, work: work}, store, slog.Default()))
}

// newHandler wires the API: the service, the store that makes it idempotent,
// and who the caller is.
func newHandler(s service, store idempotency.Store[*sql.Tx], logger *slog.Logger) http.Handler {
	return api.Handler(api.NewIdempotentHandler(
		s,
		store,
		idempotency.ScopeByHeader("X-Api-Key"),
		idempotency.WithObserver(idempotency.LogTo(logger)),
	))
}

// open opens the file twice. SQLite has one writer, so the pool that writes has
// one connection, and waiting for it is fair; FULL makes a committed answer
// survive a power cut. The other pool reads meanwhile.
func open(file string) (writer, reader *sql.DB, err error) {
	const pragmas = "?_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=foreign_keys(on)"
	writer, err = sql.Open("sqlite", "file:"+file+pragmas)
	if err != nil {
		return nil, nil, err
	}
	writer.SetMaxOpenConns(1)
	reader, err = sql.Open("sqlite", "file:"+file+pragmas+"&_pragma=query_only(on)")
	return writer, reader, err
}

// prepare makes the tables and returns the store.
func prepare(ctx context.Context, writer, reader *sql.DB) (*sqlstore.Store, error) {
	if _, err := writer.ExecContext(ctx, schema); err != nil {
		return nil, err
	}
	if err := sqlstore.Migrate(ctx, writer, sqlstore.SQLite); err != nil {
		return nil, err
	}
	return sqlstore.New(ctx, writer, sqlstore.SQLite, sqlstore.WithReader(reader))
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
