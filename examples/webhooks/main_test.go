package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/idemgen/idemgen/examples/internal/e2e"
	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/sqlstore"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// event pays for the order that every shop begins with.
const event = `{"type":"payment.settled","timestamp":"2026-11-30T12:00:00Z","data":{"order_id":"order-1001","amount":1999}}`

// TestMain serves where a test has started this binary as a server.
func TestMain(m *testing.M) { e2e.Main(m, serveChild) }

// serveChild is run with a store that stops where the test wants it to.
func serveChild(args []string) error {
	ctx := context.Background()
	db, err := open(ctx, args[0])
	if err != nil {
		return err
	}
	store, err := sqlstore.New(ctx, db, sqlstore.SQLite)
	if err != nil {
		return err
	}
	sender, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return err
	}
	return serve(ctx, "127.0.0.1:0", newHandler(e2e.Stall(idempotency.Store[*sql.Tx](store)), sender, slog.New(slog.DiscardHandler)))
}

// bench is a shop on a fresh file.
type bench struct {
	file string
	db   *sql.DB
}

func newBench(t *testing.T) bench {
	t.Helper()
	file := filepath.Join(t.TempDir(), "shop.db")
	db, err := open(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return bench{file, db}
}

func (b bench) start(t *testing.T, point e2e.Point) *e2e.Process {
	t.Helper()
	return e2e.Start(t, point, b.file)
}

// execute changes the database behind the shop's back.
func (b bench) execute(t *testing.T, statement string) {
	t.Helper()
	if _, err := b.db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// check compares what is paid for the order, and how many answers are stored.
func (b bench) check(t *testing.T, paid, stored int) {
	t.Helper()
	var gotPaid, gotStored int
	err := b.db.QueryRowContext(t.Context(), `SELECT
		(SELECT paid FROM orders WHERE id = 'order-1001'),
		(SELECT count(*) FROM idempotency_records)`).Scan(&gotPaid, &gotStored)
	if err != nil || gotPaid != paid || gotStored != stored {
		t.Errorf("%d paid, %d answers stored (%v), want %d and %d", gotPaid, gotStored, err, paid, stored)
	}
}

// delivery is one delivery of an event.
type delivery struct {
	id, body string
	signed   time.Time
}

// header returns its header fields, signed with key.
func (d delivery) header(t *testing.T, key string) http.Header {
	t.Helper()
	sender, err := standardwebhooks.NewWebhook(key)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := sender.Sign(d.id, d.signed, []byte(d.body))
	if err != nil {
		t.Fatal(err)
	}
	return http.Header{
		"Content-Type":      {"application/json"},
		"Webhook-Id":        {d.id},
		"Webhook-Timestamp": {strconv.FormatInt(d.signed.Unix(), 10)},
		"Webhook-Signature": {signature},
	}
}

// post sends a body once: net/http does not repeat it.
func post(ctx context.Context, url string, header http.Header, body string) (e2e.Answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/hooks/payment", strings.NewReader(body))
	if err != nil {
		return e2e.Answer{}, err
	}
	req.GetBody, req.Header = nil, header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return e2e.Answer{}, err
	}
	defer resp.Body.Close()
	answered, err := io.ReadAll(resp.Body)
	return e2e.Answer{
		Status:   resp.StatusCode,
		Replayed: resp.Header.Get("Idempotent-Replayed") == "true",
		Body:     string(answered),
	}, err
}

// deliver delivers the event again until it is no longer in flight. Each
// delivery is signed anew.
func deliver(t *testing.T, url, id, body string) e2e.Answer {
	t.Helper()
	return e2e.Settle(t, func(ctx context.Context) (e2e.Answer, error) {
		return post(ctx, url, delivery{id, body, time.Now()}.header(t, secret), body)
	})
}

func expect(t *testing.T, got e2e.Answer, status int, replayed bool) {
	t.Helper()
	if got.Status != status || got.Replayed != replayed {
		t.Errorf("%+v, want %d, replayed %t", got, status, replayed)
	}
}

// The shop is killed at each point of an event; redeliveries pay once.
// Covers CRA-01, CRA-02, CRA-03, CRA-04.
func TestCrash(t *testing.T) {
	t.Parallel()
	for _, point := range []e2e.Point{e2e.BeforeClaim, e2e.InHandler, e2e.BeforeCommit, e2e.AfterCommit} {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			server := b.start(t, point)
			lost := make(chan error, 1)
			header := delivery{"msg_1", event, time.Now()}.header(t, secret)
			go func() {
				_, err := post(t.Context(), server.URL, header, event)
				lost <- err
			}()
			server.AwaitStall(t)
			server.Kill()
			if err := <-lost; err == nil {
				t.Fatal("the first delivery was answered")
			}
			if point == e2e.AfterCommit {
				b.check(t, 1999, 1)
			} else {
				b.check(t, 0, 0)
			}
			server = b.start(t, "")
			expect(t, deliver(t, server.URL, "msg_1", event), http.StatusNoContent, point == e2e.AfterCommit)
			expect(t, deliver(t, server.URL, "msg_1", event), http.StatusNoContent, true)
			b.check(t, 1999, 1)
		})
	}
}

// A redelivery with another time and signature is answered from the store.
// Another event counts beside it, and another body under a used id is refused.
func TestRedelivery(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	url := b.start(t, "").URL
	now := time.Now()
	for i, signed := range []time.Time{now.Add(-time.Minute), now} {
		got, err := post(t.Context(), url, delivery{"msg_1", event, signed}.header(t, secret), event)
		if err != nil {
			t.Fatal(err)
		}
		expect(t, got, http.StatusNoContent, i > 0)
	}
	b.check(t, 1999, 1)
	expect(t, deliver(t, url, "msg_1", strings.Replace(event, "1999", "1", 1)), http.StatusUnprocessableEntity, false)
	expect(t, deliver(t, url, "msg_2", event), http.StatusNoContent, false)
	b.check(t, 2*1999, 2)
}

// What fails leaves no trace, and the redelivery runs again.
func TestReleased(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before, after string
		status        int
	}{
		"no such order yet": {`DELETE FROM orders`, `INSERT INTO orders (id, price) VALUES ('order-1001', 1999)`, http.StatusNotFound},
		"a broken database": {`ALTER TABLE orders RENAME TO away`, `ALTER TABLE away RENAME TO orders`, http.StatusInternalServerError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			url := b.start(t, "").URL
			b.execute(t, test.before)
			expect(t, deliver(t, url, "msg_1", event), test.status, false)
			expect(t, deliver(t, url, "msg_1", event), test.status, false)
			b.execute(t, test.after)
			b.check(t, 0, 0)
			expect(t, deliver(t, url, "msg_1", event), http.StatusNoContent, false)
			expect(t, deliver(t, url, "msg_1", event), http.StatusNoContent, true)
			b.check(t, 1999, 1)
		})
	}
}

// An event of another type changes nothing.
func TestOtherEvent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	failed := strings.Replace(event, "settled", "failed", 1)
	expect(t, deliver(t, b.start(t, "").URL, "msg_1", failed), http.StatusBadRequest, false)
	b.check(t, 0, 0)
}

// What is not signed as it is reaches neither the shop nor the store, before the
// event and after it.
func TestSignature(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	url := b.start(t, "").URL
	right := delivery{"msg_1", event, time.Now()}
	with := func(name, value string) http.Header {
		h := right.header(t, secret)
		h.Set(name, value)
		return h
	}
	refuse := func() {
		t.Helper()
		for name, header := range map[string]http.Header{
			"none":          with("Webhook-Signature", ""),
			"another key":   right.header(t, "whsec_"+strings.Repeat("A", 32)),
			"another body":  delivery{"msg_1", event + " ", time.Now()}.header(t, secret),
			"another id":    with("Webhook-Id", "msg_2"),
			"another time":  with("Webhook-Timestamp", strconv.FormatInt(time.Now().Unix()+1, 10)),
			"six minutes":   delivery{"msg_1", event, time.Now().Add(-6 * time.Minute)}.header(t, secret),
			"in the future": delivery{"msg_1", event, time.Now().Add(6 * time.Minute)}.header(t, secret),
		} {
			got, err := post(t.Context(), url, header, event)
			if err != nil || got.Status != http.StatusUnauthorized || got.Replayed {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
		}
	}
	refuse()
	b.check(t, 0, 0)
	expect(t, deliver(t, url, "msg_1", event), http.StatusNoContent, false)
	refuse()
	b.check(t, 1999, 1)
}

// Several workers of the sender deliver each event at once; it counts once.
func TestTogether(t *testing.T) {
	t.Parallel()
	const events, copies = 20, 8
	b := newBench(t)
	url := b.start(t, "").URL
	var wg sync.WaitGroup
	for i := range events {
		id := fmt.Sprint("msg_", i)
		for range copies {
			wg.Go(func() {
				if got := deliver(t, url, id, event); got.Status != http.StatusNoContent {
					t.Errorf("%s: %+v", id, got)
				}
			})
		}
	}
	wg.Wait()
	b.check(t, events*1999, events)
}
