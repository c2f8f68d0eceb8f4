package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/idemgen/idemgen/examples/internal/e2e"
	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/sqlstore"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// TestMain is a broker or a consumer where a test has started this binary as one.
func TestMain(m *testing.M) {
	e2e.Main(m, func(args []string) error {
		if args[0] == "broker" {
			return brokerChild(args[1:])
		}
		return consumerChild(args[1:])
	})
}

// brokerChild serves JetStream from a directory, on a port or on any (-1).
func brokerChild(args []string) error {
	port, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	broker, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: args[0], NoSigs: true, NoLog: true})
	if err != nil {
		return err
	}
	broker.Start()
	if !broker.ReadyForConnections(10 * time.Second) {
		return fmt.Errorf("the broker does not serve on port %d", port)
	}
	fmt.Println("address=" + broker.ClientURL())
	broker.WaitForShutdown()
	return nil
}

// consumerChild is run with a store that stops where the test wants it to.
func consumerChild(args []string) error {
	ctx := context.Background()
	db, err := open(ctx, args[1])
	if err != nil {
		return err
	}
	store, err := sqlstore.New(ctx, db, sqlstore.SQLite)
	if err != nil {
		return err
	}
	ackWait, err := time.ParseDuration(args[2])
	if err != nil {
		return err
	}
	conn, err := nats.Connect(args[0], nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
	if err != nil {
		return err
	}
	return work(ctx, conn, worker{
		store:   e2e.Stall(idempotency.Store[*sql.Tx](store)),
		ackWait: ackWait,
		log:     slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
}

// bench is a broker in a process of its own, with the streams made, and a
// database file.
type bench struct {
	broker    *e2e.Process
	url       string
	dir, file string
	ackWait   time.Duration
	conn      *nats.Conn
	js        jetstream.JetStream
	orders    jetstream.Consumer
}

func newBench(t *testing.T, ackWait time.Duration) *bench {
	t.Helper()
	b := &bench{dir: t.TempDir(), file: filepath.Join(t.TempDir(), "points.db"), ackWait: ackWait}
	b.startBroker(t)
	var err error
	if b.conn, err = nats.Connect(b.url, nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.conn.Close)
	if b.js, err = jetstream.New(b.conn); err != nil {
		t.Fatal(err)
	}
	if b.orders, err = subscribe(t.Context(), b.js, ackWait); err != nil {
		t.Fatal(err)
	}
	return b
}

// startBroker starts the broker on the port that it had before, if it had one.
func (b *bench) startBroker(t *testing.T) {
	t.Helper()
	port := "-1"
	if b.url != "" {
		at, err := url.Parse(b.url)
		if err != nil {
			t.Fatal(err)
		}
		port = at.Port()
	}
	b.broker = e2e.Start(t, "", "broker", b.dir, port)
	b.url = b.broker.URL
}

// startConsumer starts a consumer process, to be stopped at point.
func (b *bench) startConsumer(t *testing.T, point e2e.Point) *e2e.Process {
	t.Helper()
	return e2e.Start(t, point, "consumer", b.url, b.file, b.ackWait.String())
}

// worker returns a worker of this process. wrap may replace its store.
func (b *bench) worker(t *testing.T, wrap func(idempotency.Store[*sql.Tx]) idempotency.Store[*sql.Tx]) (worker, *sql.DB) {
	t.Helper()
	db, err := open(t.Context(), b.file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	own, err := sqlstore.New(t.Context(), db, sqlstore.SQLite)
	if err != nil {
		t.Fatal(err)
	}
	store := idempotency.Store[*sql.Tx](own)
	if wrap != nil {
		store = wrap(store)
	}
	return worker{store: store, js: b.js, ackWait: b.ackWait, log: slog.New(slog.DiscardHandler)}, db
}

// send publishes an order until the broker confirms it, and reports whether
// the broker had it already.
func (b *bench) send(t *testing.T, id, body string) (duplicate bool) {
	t.Helper()
	var ack *jetstream.PubAck
	e2e.Await(t, "the broker takes the order", func() (err error) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ack, err = b.js.Publish(ctx, "orders.acme.placed", []byte(body), jetstream.WithMsgID(id))
		return err
	})
	return ack.Duplicate
}

// sendOrders sends the orders from first to last, each by a customer of its own.
func (b *bench) sendOrders(t *testing.T, first, last int) {
	t.Helper()
	for i := first; i < last; i++ {
		b.send(t, fmt.Sprintf("order-%d", i), fmt.Sprintf(`{"customer": "c%d", "cents": 700}`, i))
	}
}

// next returns the next delivery.
func (b *bench) next(t *testing.T) (msg jetstream.Msg) {
	t.Helper()
	msg, err := b.orders.Next(jetstream.FetchMaxWait(20 * time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return msg
}

// awaitSettled waits until each order is acknowledged or terminated, and
// returns how many deliveries that took.
func (b *bench) awaitSettled(t *testing.T) (deliveries uint64) {
	t.Helper()
	e2e.Await(t, "all orders are settled", func() error {
		info, err := b.orders.Info(t.Context())
		if err != nil {
			return err
		}
		deliveries = info.Delivered.Consumer
		if info.NumPending+uint64(info.NumAckPending) > 0 {
			return fmt.Errorf("%d wait and %d are not acknowledged", info.NumPending, info.NumAckPending)
		}
		return nil
	})
	return deliveries
}

// unsettled returns how many delivered orders wait for an acknowledgement.
func (b *bench) unsettled(t *testing.T) int {
	t.Helper()
	info, err := b.orders.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return info.NumAckPending
}

// credits counts the credits in the file, and the answers stored with them.
func (b *bench) credits(t *testing.T) (credits, customers, stored int) {
	t.Helper()
	db, err := open(t.Context(), b.file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.QueryRowContext(t.Context(), `SELECT
		(SELECT count(*) FROM credits), (SELECT count(DISTINCT customer) FROM credits),
		(SELECT count(*) FROM idempotency_records)`).Scan(&credits, &customers, &stored)
	if err != nil {
		t.Fatal(err)
	}
	return credits, customers, stored
}

// check says what is wrong after n orders by n customers: each has one credit,
// and one receipt is announced for it, again and again at worst.
func (b *bench) check(t *testing.T, n int) {
	t.Helper()
	if credits, customers, stored := b.credits(t); credits != n || customers != n || stored != n {
		t.Errorf("%d credits for %d customers and %d stored answers, want %d of each", credits, customers, stored, n)
	}
	receipts := map[string]string{}
	for _, msg := range b.stream(t, "POINTS") {
		var r Receipt
		if err := json.Unmarshal(msg.Data, &r); err != nil || r.Points != 7 || r.Balance != 7 {
			t.Errorf("announced %s: %v", msg.Data, err)
		}
		if other, twice := receipts[r.Customer]; twice && other != string(msg.Data) {
			t.Errorf("announced both %s and %s", other, msg.Data)
		}
		receipts[r.Customer] = string(msg.Data)
	}
	if len(receipts) != n {
		t.Errorf("%d receipts, want %d", len(receipts), n)
	}
	for _, msg := range b.stream(t, "PARKED") {
		t.Errorf("parked: %s: %s", msg.Header.Get("Order-Id"), msg.Header.Get("Reason"))
	}
}

// stream returns all messages of a stream.
func (b *bench) stream(t *testing.T, name string) (all []*jetstream.RawStreamMsg) {
	t.Helper()
	stream, err := b.js.Stream(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	for i := range stream.CachedInfo().State.LastSeq {
		msg, err := stream.GetMsg(t.Context(), i+1)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, msg)
	}
	return all
}
