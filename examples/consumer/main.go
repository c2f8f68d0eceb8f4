// Consumer credits bonus points for orders that NATS JetStream delivers at
// least once: each order once, whatever crashes. README.md says how to run it.
package main

import (
	"context"
	"database/sql"
	_ "embed"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/sqlstore"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
	_ "modernc.org/sqlite"
)

//go:embed schema.sql
var schema string

func main() {
	url := flag.String("nats", nats.DefaultURL, "the broker")
	file := flag.String("db", "points.db", "SQLite file, made if missing")
	ackWait := flag.Duration("ack-wait", 30*time.Second, "how long the broker waits for an acknowledgement before it delivers again")
	flag.Parse()
	if err := run(*url, *file, *ackWait); err != nil {
		fmt.Fprintln(os.Stderr, "consumer:", err)
		os.Exit(1)
	}
}

func run(url, file string, ackWait time.Duration) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	db, err := open(ctx, file)
	if err != nil {
		return err
	}
	defer db.Close()
	store, err := sqlstore.New(ctx, db, sqlstore.SQLite)
	if err != nil {
		return err
	}
	conn, err := nats.Connect(url, nats.MaxReconnects(-1))
	if err != nil {
		return err
	}
	defer conn.Close()
	go idempotency.RunSweeper(ctx, store, time.Hour, slog.Default())
	return work(ctx, conn, worker{store: store, ackWait: ackWait, log: slog.Default()})
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

// work lets four copies of w consume until ctx ends.
func work(ctx context.Context, conn *nats.Conn, w worker) (err error) {
	if w.js, err = jetstream.New(conn); err != nil {
		return err
	}
	orders, err := subscribe(ctx, w.js, w.ackWait)
	if err != nil {
		return err
	}
	w.log.Info("consuming", "address", conn.ConnectedUrl())
	group, ctx := errgroup.WithContext(ctx)
	for range 4 {
		group.Go(func() error { return w.consume(ctx, orders) })
	}
	return group.Wait()
}

// subscribe makes the streams and the consumer that all processes share.
func subscribe(ctx context.Context, js jetstream.JetStream, ackWait time.Duration) (jetstream.Consumer, error) {
	for _, stream := range []jetstream.StreamConfig{
		{Name: "ORDERS", Subjects: []string{"orders.*.placed"}, MaxAge: maxAge},
		{Name: "POINTS", Subjects: []string{"points.*.credited"}, MaxAge: maxAge},
		{Name: "PARKED", Subjects: []string{"parked.>"}},
	} {
		if _, err := js.CreateOrUpdateStream(ctx, stream); err != nil {
			return nil, err
		}
	}
	return js.CreateOrUpdateConsumer(ctx, "ORDERS", jetstream.ConsumerConfig{
		Durable:    "points",
		AckPolicy:  jetstream.AckExplicitPolicy,
		AckWait:    ackWait,
		MaxDeliver: -1, // the worker parks an order; the broker would only forget it
	})
}
