// Webhooks is a shop that a payment provider tells of payments, as often as it
// takes: each payment counts once. README.md says how to run it.
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

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	_ "modernc.org/sqlite"

	"github.com/idemgen/idemgen/examples/webhooks/api"
	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/sqlstore"
)

//go:embed schema.sql
var schema string

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to serve on")
	file := flag.String("db", "shop.db", "SQLite file, made if missing")
	flag.Parse()
	if err := run(*addr, *file, os.Getenv("WEBHOOK_SECRET")); err != nil {
		fmt.Fprintln(os.Stderr, "webhooks:", err)
		os.Exit(1)
	}
}

func run(addr, file, secret string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if secret == "" { // which would make a key that everybody has
		return errors.New("WEBHOOK_SECRET is not set; set it to the secret that events are signed with (whsec_...)")
	}
	sender, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return err
	}
	db, err := open(ctx, file)
	if err != nil {
		return err
	}
	defer db.Close()
	store, err := sqlstore.New(ctx, db, sqlstore.SQLite)
	if err != nil {
		return err
	}
	go idempotency.RunSweeper(ctx, store, time.Hour, slog.Default())
	return serve(ctx, addr, newHandler(store, sender, slog.Default()))
}

// newHandler wires the receiver: its address, the signature that is checked
// before it, and the store that makes it idempotent. One sender makes all ids,
// so they need no scope.
func newHandler(store idempotency.Store[*sql.Tx], sender *standardwebhooks.Webhook, logger *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	hooks := api.NewIdempotentWebhookReceiver(shop{}, store, idempotency.Unscoped,
		idempotency.WithObserver(idempotency.LogTo(logger)))
	mux.Handle("POST /hooks/payment", api.PaymentSettledWebhookHandler(hooks, nil, verify(sender)))
	return mux
}

// open opens the file and makes its tables. SQLite has one writer, so the pool
// has one connection; FULL makes a commit survive a power cut.
func open(ctx context.Context, file string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return nil, err
	}
	return db, sqlstore.Migrate(ctx, db, sqlstore.SQLite)
}

func serve(ctx context.Context, addr string, handler http.Handler) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	stopped := make(chan error, 1)
	context.AfterFunc(ctx, func() {
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
