// Checkout is a small shop that pays for its orders with the payments service,
// once each, whatever crashes. README.md says how to run it.
package main

import (
	"context"
	"database/sql"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/idemgen/idemgen/examples/payments/api"
	"github.com/idemgen/idemgen/runtime/retry"
	"golang.org/x/sync/errgroup"
	_ "modernc.org/sqlite"
)

//go:embed schema.sql
var schema string

// config is what the flags say.
type config struct {
	addr     string
	file     string
	payments string
	senders  int
	pause    time.Duration
}

func main() {
	var c config
	flag.StringVar(&c.addr, "addr", "127.0.0.1:8081", "address to serve on")
	flag.StringVar(&c.file, "db", "shop.db", "SQLite file, made if missing")
	flag.StringVar(&c.payments, "payments", "http://127.0.0.1:8080", "address of the payments service")
	flag.IntVar(&c.senders, "senders", 4, "how many payments are sent at a time")
	flag.DurationVar(&c.pause, "pause", 15*time.Second, "how long one try to pay may take, and until the next; doubles from try to try")
	flag.Parse()
	if err := run(c); err != nil {
		fmt.Fprintln(os.Stderr, "checkout:", err)
		os.Exit(1)
	}
}

func run(c config, opts ...retry.Option) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	db, err := openShop(ctx, c.file)
	if err != nil {
		return err
	}
	defer db.Close()
	payments, err := api.NewIdempotentClient(c.payments, slices.Concat(opts, []retry.Option{
		retry.WithAttemptTimeout(5 * time.Second),
		retry.WithObserver(retry.LogTo(slog.Default())),
		api.WithClientOptions(api.WithRequestEditorFn(authenticate)),
	})...)
	if err != nil {
		return err
	}
	s := sender{
		db:       db,
		payments: payments,
		pause:    c.pause,
		placed:   make(chan struct{}, c.senders),
		log:      slog.Default(),
	}
	group, ctx := errgroup.WithContext(ctx)
	for range c.senders {
		group.Go(func() error { s.run(ctx); return nil })
	}
	group.Go(func() error { return serve(ctx, c.addr, handler(db, s.placed)) })
	return group.Wait()
}

// authenticate says who pays: the scope of the keys at the payments service.
func authenticate(_ context.Context, req *http.Request) error {
	req.Header.Set("X-Api-Key", "shop")
	return nil
}

// openShop opens the file and makes its tables. SQLite has one writer, so the pool
// has one connection; FULL makes an order, and its key, survive a power cut.
func openShop(ctx context.Context, file string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=foreign_keys(on)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	_, err = db.ExecContext(ctx, schema)
	return db, err
}

// handler takes orders and tells how far they are.
func handler(db *sql.DB, placed chan<- struct{}) http.Handler {
	mux := http.NewServeMux()
	// The customer's side names the order, so it can repeat this request as well.
	mux.HandleFunc("PUT /orders/{id}", func(w http.ResponseWriter, r *http.Request) {
		var order Order
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10)).Decode(&order); err != nil || order.Customer == "" || order.Cents <= 0 {
			http.Error(w, "an order needs a customer and a positive number of cents", http.StatusBadRequest)
			return
		}
		order.ID = r.PathValue("id")
		if err := place(r.Context(), db, order); err != nil {
			fail(w, err)
			return
		}
		select {
		case placed <- struct{}{}:
		default: // all senders are awake
		}
		stored, err := find(r.Context(), db, order.ID)
		switch {
		case err != nil:
			fail(w, err)
		case stored.Customer != order.Customer || stored.Cents != order.Cents:
			http.Error(w, "there is another order of this name", http.StatusConflict)
		default:
			write(w, stored)
		}
	})
	mux.HandleFunc("GET /orders/{id}", func(w http.ResponseWriter, r *http.Request) {
		order, err := find(r.Context(), db, r.PathValue("id"))
		switch {
		case errors.Is(err, sql.ErrNoRows):
			http.NotFound(w, r)
		case err != nil:
			fail(w, err)
		default:
			write(w, order)
		}
	})
	return mux
}

func write(w http.ResponseWriter, o Order) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(o); err != nil {
		slog.Warn("the caller has gone", "order", o.ID, "error", err)
	}
}

func fail(w http.ResponseWriter, err error) {
	slog.Error("the database fails", "error", err)
	http.Error(w, "try again later", http.StatusServiceUnavailable)
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
