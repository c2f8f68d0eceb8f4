// Observability is a small API on SQLite whose every request shows in metrics,
// on spans and in log lines. Run it with: go run ./examples/observability
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
	"path/filepath"
	"syscall"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"

	"github.com/idemgen/idemgen/examples/observability/api"
	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/otelobserver"
	"github.com/idemgen/idemgen/runtime/sqlstore"
	_ "modernc.org/sqlite"
)

//go:embed schema.sql
var schema string

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to serve on")
	interval := flag.Duration("interval", time.Minute, "time between two prints of the metrics")
	flag.Parse()
	if err := run(*addr, *interval); err != nil {
		fmt.Fprintln(os.Stderr, "observability:", err)
		os.Exit(1)
	}
}

func run(addr string, interval time.Duration) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	tel, err := printTo(os.Stdout, interval)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tel.shutdown(context.Background())) }()
	dir, err := os.MkdirTemp("", "observability")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	db, store, err := open(ctx, filepath.Join(dir, "tickets.db"))
	if err != nil {
		return err
	}
	defer db.Close()
	handler, err := newHandler(store, tel, slog.Default())
	if err != nil {
		return err
	}
	return serve(ctx, addr, handler)
}

// newHandler wires the API. otelhttp starts a span for each request, which the
// observer completes.
func newHandler(store idempotency.Store[*sql.Tx], tel telemetry, logger *slog.Logger) (http.Handler, error) {
	observe, err := otelobserver.Server(tel.meters)
	if err != nil {
		return nil, err
	}
	handler := api.Handler(api.NewIdempotentHandler(service{}, store, idempotency.ScopeByHeader("X-Api-Key"),
		idempotency.WithObserver(observe),
		idempotency.WithObserver(idempotency.LogTo(logger))))
	return otelhttp.NewHandler(handler, "tickets",
		otelhttp.WithMeterProvider(tel.meters),
		otelhttp.WithTracerProvider(tel.spans)), nil
}

// open makes a new file and the store on it. SQLite has one writer, so the pool
// has one connection.
func open(ctx context.Context, file string) (*sql.DB, *sqlstore.Store, error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)")
	if err != nil {
		return nil, nil, err
	}
	db.SetMaxOpenConns(1)
	store, err := prepare(ctx, db)
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return db, store, nil
}

// prepare makes the tables and returns the store.
func prepare(ctx context.Context, db *sql.DB) (*sqlstore.Store, error) {
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return nil, err
	}
	if err := sqlstore.Migrate(ctx, db, sqlstore.SQLite); err != nil {
		return nil, err
	}
	return sqlstore.New(ctx, db, sqlstore.SQLite)
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
