package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idemgen/idemgen/examples/internal/e2e"
	"github.com/idemgen/idemgen/examples/payments/api"
	"github.com/idemgen/idemgen/runtime/idempotency"
)

// Each end of a call, and what it means for the order.
// Covers CLI-05, CLI-06, CLI-16.
func TestOutcome(t *testing.T) {
	t.Parallel()
	refusal := func(status int, code idempotency.Code) error {
		return &idempotency.CallError{
			Problem: &idempotency.Problem{Status: status, Code: code, Retryable: code.Retryable()},
			Err:     errors.New(string(code)),
		}
	}
	for name, c := range map[string]struct {
		answer *api.CreatePaymentResponse
		err    error
		want   string // "" is open
	}{
		"paid":               {answer: answer(201, &api.CreatePaymentResponse{JSON201: &api.Payment{}}), want: paid},
		"amount refused":     {answer: answer(400, &api.CreatePaymentResponse{ApplicationproblemJSON400: &api.Problem{Status: 400}}), want: declined},
		"no money":           {answer: answer(402, &api.CreatePaymentResponse{ApplicationproblemJSON402: &api.Problem{Status: 402}}), want: declined},
		"no account":         {answer: answer(404, &api.CreatePaymentResponse{ApplicationproblemJSON404: &api.NotFound{Status: 404}}), want: declined},
		"a gateway's 404":    {answer: answer(404, &api.CreatePaymentResponse{})},
		"a gateway's JSON":   {answer: answer(404, &api.CreatePaymentResponse{ApplicationproblemJSON404: &api.NotFound{}})},
		"password refused":   {answer: answer(401, &api.CreatePaymentResponse{})},
		"a 201 of no type":   {answer: answer(201, &api.CreatePaymentResponse{})},
		"mismatch":           {err: refusal(422, idempotency.CodeMismatch), want: parked},
		"key expired":        {err: refusal(412, idempotency.CodeKeyExpired), want: parked},
		"key refused":        {err: refusal(400, idempotency.CodeKeyInvalid), want: parked},
		"body refused":       {err: refusal(400, idempotency.CodeBodyInvalid), want: parked},
		"body too large":     {err: refusal(413, idempotency.CodeBodyTooLarge), want: parked},
		"caller unknown":     {err: refusal(401, idempotency.CodeScopeMissing)},
		"in flight":          {err: refusal(409, idempotency.CodeInFlight)},
		"unavailable":        {err: refusal(503, idempotency.CodeUnavailable)},
		"server fails":       {err: refusal(500, idempotency.CodeInternal)},
		"answer too large":   {err: refusal(500, idempotency.CodeResponseTooLarge)},
		"outcome unknown":    {err: &idempotency.CallError{OutcomeUnknown: true, Err: context.DeadlineExceeded}},
		"nothing was sent":   {err: &idempotency.CallError{Err: errors.New("connection refused")}},
		"mismatch at last":   {err: fmt.Errorf("wrapped: %w", refusal(422, idempotency.CodeMismatch)), want: parked},
		"not of this client": {err: errors.New("out of memory")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state, result, err := outcome(c.answer, c.err)
			if state != c.want || (err == nil) != (c.want != "") {
				t.Errorf("got %q (%v), want %q", state, err, c.want)
			}
			switch {
			case c.answer != nil && c.want != "" && string(result) != string(c.answer.Body):
				t.Errorf("the result is %s, want the answer", result)
			case c.want == parked && !strings.Contains(string(result), c.err.Error()):
				t.Errorf("the result is %s, want the reason", result)
			}
		})
	}
}

// answer completes an answer.
func answer(status int, a *api.CreatePaymentResponse) *api.CreatePaymentResponse {
	a.HTTPResponse = &http.Response{StatusCode: status, Status: http.StatusText(status)}
	a.Body = []byte(`{"some": "answer"}`)
	return a
}

// Orders that the real service refuses get what it says, and the others go on.
func TestRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, buildService(t))
	for _, o := range []Order{
		{ID: "fine", Customer: "alice", Cents: 250},
		{ID: "dear", Customer: "alice", Cents: 1_000_000},
		{ID: "nobody", Customer: "carol", Cents: 250},
		{ID: "1001", Customer: "alice", Cents: 250},
	} {
		if err := place(t.Context(), b.db, o); err != nil {
			t.Fatal(err)
		}
	}
	// What a bug in a shop could do: another request under a key that was used.
	change(t, b.db, `UPDATE payments SET due = due + 1000000, request =
		(SELECT replace(request, '250', '260') FROM payments WHERE order_id = 'fine') WHERE order_id = '1001'`)
	b.startShop(t, "")
	for _, want := range []struct{ id, state, result string }{
		{"fine", paid, `"amount":250`},
		{"dear", declined, `Insufficient funds`},
		{"nobody", declined, `There is no account`},
		{"1001", parked, `mismatch`},
	} {
		if want.id == "1001" {
			change(t, b.db, `UPDATE payments SET due = 0 WHERE order_id = '1001'`)
		}
		o := awaitResult(t, b.db, want.id)
		if o.Payment != want.state || !strings.Contains(string(o.Result), want.result) {
			t.Errorf("%s is %s: %s, want %+v", o.ID, o.Payment, o.Result, want)
		}
	}
	// A person sends the parked one again, from a program without the test's stops.
	change(t, b.db, `DROP TRIGGER stop_recording`)
	statements, err := os.ReadFile("parked.sql")
	if err != nil {
		t.Fatal(err)
	}
	before, _ := b.front.seen()
	change(t, b.db, string(statements))
	if o := awaitResult(t, b.db, "1001"); o.Payment != parked {
		t.Errorf("sent again, the parked order is %s: %s", o.Payment, o.Result)
	}
	if after, _ := b.front.seen(); after.total == before.total {
		t.Error("the parked order was not sent again")
	}
}

// change changes the shop's database behind its back.
func change(t *testing.T, db *sql.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatal(err)
	}
}

// awaitResult waits until an order has a result, and returns the order.
func awaitResult(t *testing.T, db *sql.DB, id string) (o Order) {
	t.Helper()
	e2e.Await(t, id+" has a result", func() (err error) {
		if o, err = find(t.Context(), db, id); err == nil && o.Payment == "open" {
			err = errors.New("it is open")
		}
		return err
	})
	return o
}

// standIn answers in place of the payments service.
type standIn struct {
	api.IdempotentClient
	pay func(req api.CreatePaymentIdempotentRequest) error
}

func (s standIn) CreatePayment(_ context.Context, req api.CreatePaymentIdempotentRequest, _ ...api.RequestEditorFn) (*api.CreatePaymentResponse, error) {
	if err := s.pay(req); err != nil {
		return nil, err
	}
	return &api.CreatePaymentResponse{Body: []byte(`{}`), JSON201: &api.Payment{}}, nil
}

// emptyShop returns the database of a shop without orders.
func emptyShop(t *testing.T) *sql.DB {
	t.Helper()
	db, err := openShop(t.Context(), filepath.Join(t.TempDir(), "shop.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// startSenders runs n senders until the test ends.
func startSenders(t *testing.T, db *sql.DB, n int, pay func(req api.CreatePaymentIdempotentRequest) error) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	s := sender{db: db, payments: standIn{pay: pay}, pause: 10 * time.Millisecond, log: slog.New(slog.DiscardHandler)}
	for range n {
		running.Go(func() { s.run(ctx) })
	}
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
}

// One sender gets past orders that fail each time, always under the same key,
// and parks them in the end, while the service still has the key.
// Covers CLI-01, EXP-01.
func TestPoison(t *testing.T) {
	t.Parallel()
	db := emptyShop(t)
	for _, o := range []Order{
		{ID: "fails", Customer: "alice", Cents: 666},
		{ID: "foreign", Customer: "alice", Cents: 250},
		{ID: "fine", Customer: "alice", Cents: 250},
	} {
		if err := place(t.Context(), db, o); err != nil {
			t.Fatal(err)
		}
	}
	change(t, db, `UPDATE payments SET request = replace(request, 'createPayment', 'createRefund') WHERE order_id = 'foreign'`)
	var mu sync.Mutex
	sent := map[int64][]api.CreatePaymentIdempotentRequest{} // by amount
	startSenders(t, db, 1, func(req api.CreatePaymentIdempotentRequest) error {
		mu.Lock()
		defer mu.Unlock()
		amount := req.Input().Body.Amount
		sent[amount] = append(sent[amount], req)
		if amount == 666 {
			return &idempotency.CallError{OutcomeUnknown: true, Err: errors.New("the service fails")}
		}
		return nil
	})
	if o := awaitResult(t, db, "fine"); o.Payment != paid {
		t.Errorf("the order behind the poisonous ones is %s", o.Payment)
	}
	tries := func(id string) (n int) {
		if err := db.QueryRowContext(t.Context(), `SELECT tries FROM payments WHERE order_id = ?`, id).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, id := range []string{"fails", "foreign"} {
		e2e.Await(t, id+" is tried again", func() error {
			if n := tries(id); n < 3 {
				return fmt.Errorf("%d tries", n)
			}
			return nil
		})
	}
	long := (horizon() + time.Second).Milliseconds()
	change(t, db, `UPDATE payments SET placed = placed - ?, due = 0 WHERE state = 'open'`, long)
	for _, id := range []string{"fails", "foreign"} {
		if o := awaitResult(t, db, id); o.Payment != parked || !strings.Contains(string(o.Result), "still open") {
			t.Errorf("%s is %s: %s", id, o.Payment, o.Result)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(sent[250]) != 1 {
		t.Errorf("%d requests of 250 cents, want the one that can be read", len(sent[250]))
	}
	// The last turn parks it, and the one before can be either.
	if n := tries("fails"); len(sent[666]) != n-1 {
		t.Errorf("%d requests in %d turns", len(sent[666]), n)
	}
	for _, req := range sent[666] {
		if !req.Equal(sent[666][0]) {
			t.Errorf("%v was sent, and %v", sent[666][0], req)
		}
	}
}

// Each turn of an order that fails comes later than the one before, up to an
// hour, and other senders leave it alone until then.
func TestTake(t *testing.T) {
	t.Parallel()
	db := emptyShop(t)
	if err := place(t.Context(), db, Order{ID: "order-0", Customer: "alice", Cents: 250}); err != nil {
		t.Fatal(err)
	}
	s := sender{db: db, pause: 15 * time.Second}
	for tries, want := range []time.Duration{15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute} {
		before := time.Now().Truncate(time.Millisecond)
		p, err := s.take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if p.due.Before(before.Add(want)) || p.due.After(time.Now().Add(want)) {
			t.Errorf("turn %d: the next one is in %v, want %v", tries+1, p.due.Sub(before), want)
		}
		if _, err := s.take(t.Context()); !errors.Is(err, sql.ErrNoRows) {
			t.Errorf("turn %d: another sender takes the order too (%v)", tries+1, err)
		}
		change(t, db, `UPDATE payments SET due = 0`)
	}
	change(t, db, `UPDATE payments SET tries = 1000000`)
	p, err := s.take(t.Context())
	if wait := time.Until(p.due); err != nil || wait > time.Hour || wait < 59*time.Minute {
		t.Errorf("after a million turns the next one is in %v (%v)", wait, err)
	}
}

// While the service hangs, orders wait in the table, and no more requests are
// on their way than there are senders.
func TestBackpressure(t *testing.T) {
	t.Parallel()
	const senders, orders = 4, 30
	db := emptyShop(t)
	entered, answer := make(chan struct{}, 10*orders), make(chan struct{}) // an order can be sent twice
	startSenders(t, db, senders, func(api.CreatePaymentIdempotentRequest) error {
		entered <- struct{}{}
		<-answer
		return nil
	})
	for i := range orders {
		if err := place(t.Context(), db, Order{ID: orderID(i), Customer: "alice", Cents: 250}); err != nil {
			t.Fatal(err)
		}
	}
	for range senders {
		<-entered
	}
	if n := len(entered); n != 0 {
		t.Errorf("%d requests too many", n)
	}
	close(answer)
	for i := range orders {
		if o := awaitResult(t, db, orderID(i)); o.Payment != paid {
			t.Errorf("%s is %s", o.ID, o.Payment)
		}
	}
}

// An order that is placed twice keeps its key, and another one does not take
// its name.
func TestPlaceTwice(t *testing.T) {
	t.Parallel()
	db := emptyShop(t)
	server := httptest.NewServer(handler(db, make(chan struct{}, 1)))
	t.Cleanup(server.Close)
	put := func(body string) (status int) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, server.URL+"/orders/1001", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	var requests [2]string
	for i := range requests {
		if status := put(`{"customer": "alice", "cents": 250}`); status != http.StatusOK {
			t.Errorf("answered %d", status)
		}
		if err := db.QueryRowContext(t.Context(), `SELECT request FROM payments`).Scan(&requests[i]); err != nil {
			t.Fatal(err)
		}
	}
	if requests[0] != requests[1] || requests[0] == "" {
		t.Errorf("the request was %s, and is %s", requests[0], requests[1])
	}
	for body, want := range map[string]int{
		`{"customer": "alice", "cents": 260}`: http.StatusConflict,
		`{"customer": "carol", "cents": 250}`: http.StatusConflict,
		`{"customer": "alice", "cents": 0}`:   http.StatusBadRequest,
		`{"cents": 250}`:                      http.StatusBadRequest,
		`{"customer": "alice", "cents": `:     http.StatusBadRequest,
	} {
		if status := put(body); status != want {
			t.Errorf("%s was answered %d, want %d", body, status, want)
		}
	}
	var orders, payments int
	if err := db.QueryRowContext(t.Context(), `SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM payments)`).Scan(&orders, &payments); err != nil || orders != 1 || payments != 1 {
		t.Errorf("%d orders and %d payments (%v)", orders, payments, err)
	}
}
