package main

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/idemgen/idemgen/examples/internal/e2e"
	"github.com/idemgen/idemgen/examples/payments/api"
	"github.com/idemgen/idemgen/runtime/retry"
	"modernc.org/sqlite"
)

// Points at which a shop process is stopped, in the order of one payment.
const (
	beforeSending e2e.Point = "before-sending" // the order is written
	answered      e2e.Point = "answered"       // the answer has been read
	recording     e2e.Point = "recording"      // the result is written, and not committed
)

// TestMain is a shop where a test has started this binary as one.
func TestMain(m *testing.M) { e2e.Main(m, shopChild) }

// shopChild runs a shop that stops where the test wants it to.
func shopChild(args []string) error {
	file, payments := args[0], args[1]
	stop := e2e.NewStopper()
	sqlite.MustRegisterScalarFunction("stop_recording", 0, func(*sqlite.FunctionContext, []driver.Value) (driver.Value, error) {
		stop.At(context.Background(), recording)
		return nil, nil
	})
	return run(
		config{addr: "127.0.0.1:0", file: file, payments: payments, senders: 4, pause: 200 * time.Millisecond},
		api.WithClientOptions(api.WithRequestEditorFn(func(ctx context.Context, _ *http.Request) error {
			stop.At(ctx, beforeSending)
			return nil
		})),
		retry.WithBackoff(retry.FullJitter(10*time.Millisecond, 100*time.Millisecond)),
		retry.WithObserver(func(ctx context.Context, a retry.Attempt) {
			if a.Err == nil {
				stop.At(ctx, answered)
			}
		}),
	)
}

// bench is a shop and the payments service, each a process with a database of
// its own, and what stands between them.
type bench struct {
	front     *front
	program   string // the payments service
	bank      string // its database
	file      string // the shop's database
	service   *e2e.Process
	shop      *e2e.Process
	db, money *sql.DB // both databases
}

// buildService builds the payments service.
func buildService(t *testing.T) (program string) {
	t.Helper()
	return e2e.Build(t, "github.com/idemgen/idemgen/examples/payments")
}

func newBench(t *testing.T, program string) *bench {
	t.Helper()
	b := &bench{
		front:   newFront(t),
		program: program,
		bank:    filepath.Join(t.TempDir(), "payments.db"),
		file:    filepath.Join(t.TempDir(), "shop.db"),
	}
	b.startService(t)
	var err error
	if b.db, err = openShop(t.Context(), b.file); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.db.Close() })
	if b.money, err = sql.Open("sqlite", "file:"+b.bank+"?_pragma=busy_timeout(5000)&_pragma=query_only(on)"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.money.Close() })
	// Stops a shop in the middle of the transaction that records a result.
	if _, err := b.db.ExecContext(t.Context(), `CREATE TRIGGER stop_recording AFTER UPDATE OF state ON payments BEGIN SELECT stop_recording(); END`); err != nil {
		t.Fatal(err)
	}
	return b
}

// startService starts the payments service, which takes some time over each
// payment, so that there is something to hit.
func (b *bench) startService(t *testing.T) {
	t.Helper()
	b.service = e2e.StartProgram(t, b.program, "-addr", "127.0.0.1:0", "-db", b.bank, "-work", "10ms")
	b.front.passTo(b.service.URL)
}

// startShop starts the shop, to be stopped at point.
func (b *bench) startShop(t *testing.T, point e2e.Point) {
	t.Helper()
	b.front.newShop()
	b.shop = e2e.Start(t, point, b.file, b.front.url)
}

// order places an order with the shop.
func (b *bench) order(ctx context.Context, id string, cents int64) error {
	body, err := json.Marshal(Order{Customer: "alice", Cents: cents})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, b.shop.URL+"/orders/"+id, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the shop answered %s", resp.Status)
	}
	return nil
}

// openKeys returns the key of each order that has no result yet.
func (b *bench) openKeys(t *testing.T) (keys []string) {
	t.Helper()
	rows, err := b.db.QueryContext(t.Context(), `SELECT request FROM payments WHERE state = 'open'`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var request []byte
		var req api.CreatePaymentIdempotentRequest
		if err := rows.Scan(&request); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(request, &req); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, req.IdempotencyKey.String())
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return keys
}

// awaitSettled waits until n orders are placed and each has a result.
func (b *bench) awaitSettled(t *testing.T, n int) {
	t.Helper()
	e2e.Await(t, "all orders have a result", func() error {
		var settled, open int
		err := b.db.QueryRowContext(t.Context(), `SELECT count(result), count(*) - count(result) FROM payments`).Scan(&settled, &open)
		if err == nil && (settled != n || open != 0) {
			err = fmt.Errorf("%d have one, %d are open", settled, open)
		}
		return err
	})
}

// row is a payment at the service, with the answer that was stored with it.
type row struct {
	payment api.Payment
	answer  string
}

// stored returns what the service has stored under each key.
func (b *bench) stored(t *testing.T) map[string]row {
	t.Helper()
	rows, err := b.money.QueryContext(t.Context(), `SELECT key, body, p.id, p.sender, p.payee, p.amount
		FROM idempotency_records LEFT JOIN payments p ON p.id = json_extract(CAST(body AS TEXT), '$.id')`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	found := map[string]row{}
	for rows.Next() {
		var key string
		var r row
		var body []byte
		if err := rows.Scan(&key, &body, &r.payment.Id, &r.payment.From, &r.payment.To, &r.payment.Amount); err != nil {
			t.Fatal(err)
		}
		r.answer = string(body)
		found[key] = r
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return found
}

// checkPaid says what is wrong after n orders: the service has made one payment
// for each, of the order's amount, and the shop knows each by the answer that
// the service has stored.
func (b *bench) checkPaid(t *testing.T, n int) {
	t.Helper()
	stored := b.stored(t)
	rows, err := b.db.QueryContext(t.Context(), `SELECT id, customer, cents, request, state, coalesce(result, '') FROM orders LEFT JOIN payments ON order_id = id`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var orders int
	var sum int64
	byID := map[int64]string{}
	for rows.Next() {
		var o Order
		var request, result string
		if err := rows.Scan(&o.ID, &o.Customer, &o.Cents, &request, &o.Payment, &result); err != nil {
			t.Fatal(err)
		}
		orders++
		sum += o.Cents
		var req api.CreatePaymentIdempotentRequest
		if err := json.Unmarshal([]byte(request), &req); err != nil {
			t.Fatal(err)
		}
		at, ok := stored[req.IdempotencyKey.String()]
		want := api.Payment{Id: at.payment.Id, From: o.Customer, To: ourAccount, Amount: o.Cents}
		if !ok {
			t.Errorf("order %s is %s, and the service has stored nothing under its key", o.ID, o.Payment)
			continue
		}
		if at.payment != want {
			t.Errorf("order %s (%d cents): the service has made %+v", o.ID, o.Cents, at.payment)
		}
		if o.Payment != paid || result != at.answer {
			t.Errorf("order %s is %s with %s, the service has stored %s", o.ID, o.Payment, result, at.answer)
		}
		if other, twice := byID[at.payment.Id]; twice {
			t.Errorf("orders %s and %s have the same payment", o.ID, other)
		}
		byID[at.payment.Id] = o.ID
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	var alice, bob int64
	var payments int
	err = b.money.QueryRowContext(t.Context(), `SELECT
		(SELECT balance FROM accounts WHERE id = 'alice'), (SELECT balance FROM accounts WHERE id = 'bob'),
		(SELECT count(*) FROM payments)`).Scan(&alice, &bob, &payments)
	if err != nil {
		t.Fatal(err)
	}
	if orders != n || payments != n || len(stored) != n || alice != 10_000-sum || bob != sum {
		t.Errorf("%d orders of %d cents together: %d payments, %d stored answers, alice has %d and bob %d",
			orders, sum, payments, len(stored), alice, bob)
	}
}
