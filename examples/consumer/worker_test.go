package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/idemgen/idemgen/examples/internal/e2e"
	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/nats-io/nats.go/jetstream"
)

const anOrder = `{"customer": "c0", "cents": 700}`

// lostAck is a delivery whose acknowledgement does not arrive.
type lostAck struct{ jetstream.Msg }

func (lostAck) Ack() error { return nil }

// An order whose acknowledgements are lost comes again and again. It is
// credited once, and not parked, however often.
func TestAckLost(t *testing.T) {
	t.Parallel()
	b := newBench(t, 50*time.Millisecond)
	w, _ := b.worker(t, nil)
	b.send(t, "order-0", anOrder)
	for range maxDeliveries + 1 {
		w.handle(t.Context(), lostAck{b.next(t)})
	}
	w.handle(t.Context(), b.next(t))
	if deliveries := b.awaitSettled(t); deliveries < maxDeliveries+2 {
		t.Errorf("%d deliveries", deliveries)
	}
	b.check(t, 1)
}

// gate is a store whose work waits, and that tells its results.
type gate struct {
	idempotency.Store[*sql.Tx]
	entered, open chan struct{}
	results       chan error
}

func (g gate) Execute(ctx context.Context, req idempotency.Request, work idempotency.Work[*sql.Tx]) (idempotency.Result, error) {
	result, err := g.Store.Execute(ctx, req, func(ctx context.Context, tx *sql.Tx) (idempotency.Response, error) {
		g.entered <- struct{}{}
		<-g.open
		return work(ctx, tx)
	})
	g.results <- err
	return result, err
}

// An order that takes longer than AckWait is delivered again meanwhile: that
// delivery is in flight and has no effect, and the first one's acknowledgement
// settles both.
// Covers CON-01.
func TestRedeliveredWhileRunning(t *testing.T) {
	t.Parallel()
	b := newBench(t, 100*time.Millisecond)
	g := gate{entered: make(chan struct{}, 10), open: make(chan struct{}), results: make(chan error, 1000)}
	w, _ := b.worker(t, func(s idempotency.Store[*sql.Tx]) idempotency.Store[*sql.Tx] {
		g.Store = s
		return g
	})
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 2)
	for range cap(stopped) {
		go func() { stopped <- w.consume(ctx, b.orders) }()
	}
	b.send(t, "order-0", anOrder)
	<-g.entered
	for range 2 {
		select {
		case err := <-g.results:
			if !errors.Is(err, idempotency.ErrInFlight) {
				t.Errorf("the second delivery got %v", err)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("the order is not delivered again while its first delivery runs")
		}
	}
	if credits, _, _ := b.credits(t); credits != 0 {
		t.Errorf("%d credits before the first delivery is done", credits)
	}
	if n := b.unsettled(t); n != 1 {
		t.Errorf("%d orders are not settled: one in flight would be lost in a crash", n)
	}
	close(g.open)
	b.awaitSettled(t)
	b.check(t, 1)
	stop()
	for range cap(stopped) {
		if err := <-stopped; err != nil {
			t.Errorf("consume ended with %v", err)
		}
	}
	if len(g.entered) != 0 {
		t.Error("the work ran twice")
	}
}

// Two different orders under one id: the second is parked and says so. What
// the broker's own window for duplicates lets through is caught here.
// Covers FPR-01.
func TestMismatch(t *testing.T) {
	t.Parallel()
	b := newBench(t, time.Second)
	config := b.streamConfig(t)
	config.Duplicates = 100 * time.Millisecond
	if _, err := b.js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	w, _ := b.worker(t, nil)
	b.send(t, "order-0", anOrder)
	w.handle(t.Context(), b.next(t))
	const other = `{"customer": "c1", "cents": 900}`
	e2e.Await(t, "the broker has forgotten the id", func() error {
		if b.send(t, "order-0", other) {
			return errors.New("a duplicate")
		}
		return nil
	})
	w.handle(t.Context(), b.next(t))
	b.awaitSettled(t)
	if credits, _, _ := b.credits(t); credits != 1 {
		t.Errorf("%d credits, want the first order's", credits)
	}
	b.checkParked(t, "order-0", other, "mismatch")

	// The first order again is neither a mismatch nor another credit.
	e2e.Await(t, "the broker has forgotten the id", func() error {
		if b.send(t, "order-0", anOrder) {
			return errors.New("a duplicate")
		}
		return nil
	})
	w.handle(t.Context(), b.next(t))
	b.awaitSettled(t)
	if credits, _, _ := b.credits(t); credits != 1 {
		t.Errorf("%d credits after the first order came again", credits)
	}
}

func (b *bench) streamConfig(t *testing.T) jetstream.StreamConfig {
	t.Helper()
	stream, err := b.js.Stream(t.Context(), "ORDERS")
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo().Config
}

// checkParked says whether exactly one order is parked, whole and with the reason.
func (b *bench) checkParked(t *testing.T, id, body, reason string) {
	t.Helper()
	parked := b.stream(t, "PARKED")
	if len(parked) != 1 {
		t.Fatalf("%d orders are parked, want 1", len(parked))
	}
	msg := parked[0]
	if msg.Subject != "parked.orders.acme.placed" || string(msg.Data) != body || msg.Header.Get("Order-Id") != id || !strings.Contains(msg.Header.Get("Reason"), reason) {
		t.Errorf("parked %s %v %s, want %s because of %s", msg.Subject, msg.Header, msg.Data, id, reason)
	}
}

// Orders that no later delivery can make good are parked at once.
func TestPoison(t *testing.T) {
	t.Parallel()
	for name, order := range map[string]struct{ id, body, reason string }{
		"no JSON":  {"order-0", `{"customer": `, "unexpected end"},
		"no money": {"order-0", `{"customer": "c0"}`, "positive amount"},
		"no id":    {"", anOrder, "key_invalid"},
		"long id":  {strings.Repeat("x", 256), anOrder, "key_invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, time.Second)
			w, _ := b.worker(t, nil)
			b.send(t, order.id, order.body)
			w.handle(t.Context(), b.next(t))
			if deliveries := b.awaitSettled(t); deliveries != 1 {
				t.Errorf("%d deliveries, want 1", deliveries)
			}
			b.checkParked(t, order.id, order.body, order.reason)
			if credits, _, stored := b.credits(t); credits != 0 || stored != 0 {
				t.Errorf("%d credits and %d stored answers, want none", credits, stored)
			}
		})
	}
}

// flawed is a store whose work fails at its end.
type flawed struct {
	idempotency.Store[*sql.Tx]
	fail func() error
}

func (f flawed) Execute(ctx context.Context, req idempotency.Request, work idempotency.Work[*sql.Tx]) (idempotency.Result, error) {
	return f.Store.Execute(ctx, req, func(ctx context.Context, tx *sql.Tx) (idempotency.Response, error) {
		if resp, err := work(ctx, tx); err != nil {
			return resp, err
		}
		return idempotency.Response{}, f.fail()
	})
}

// An order that fails is tried again, until it has been delivered
// maxDeliveries times. What failed has left nothing.
func TestFailing(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func() error{
		"error": func() error { return errors.New("no luck") },
		"panic": func() error { panic("no luck") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, 50*time.Millisecond)
			failing, _ := b.worker(t, func(s idempotency.Store[*sql.Tx]) idempotency.Store[*sql.Tx] { return flawed{s, fail} })
			b.send(t, "order-0", anOrder)
			failing.handle(t.Context(), b.next(t))
			if credits, _, stored := b.credits(t); credits != 0 || stored != 0 {
				t.Errorf("a failed order left %d credits and %d stored answers", credits, stored)
			}
			msg := b.next(t)
			for delivery(t, msg) < maxDeliveries {
				msg = b.next(t) // the deliveries between are lost
			}
			failing.handle(t.Context(), msg)
			b.awaitSettled(t)
			b.checkParked(t, "order-0", anOrder, "no luck")
		})
	}
}

func delivery(t *testing.T, msg jetstream.Msg) uint64 {
	t.Helper()
	meta, err := msg.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	return meta.NumDelivered
}

// impatient is a store that does not wait for a connection for long.
type impatient struct{ idempotency.Store[*sql.Tx] }

func (i impatient) Execute(ctx context.Context, req idempotency.Request, work idempotency.Work[*sql.Tx]) (idempotency.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	return i.Store.Execute(ctx, req, work)
}

// While the database is out of reach an order is put back.
// Covers CRA-16.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	b := newBench(t, time.Second)
	w, db := b.worker(t, func(s idempotency.Store[*sql.Tx]) idempotency.Store[*sql.Tx] { return impatient{s} })
	b.send(t, "order-0", anOrder)
	busy, err := db.Conn(t.Context()) // the only one
	if err != nil {
		t.Fatal(err)
	}
	w.handle(t.Context(), b.next(t))
	busy.Close()
	if n := b.unsettled(t); n != 1 {
		t.Errorf("%d orders are not settled, want the one that met no database", n)
	}
	b.check(t, 0)
	patient, _ := b.worker(t, nil)
	patient.handle(t.Context(), b.next(t))
	b.awaitSettled(t)
	b.check(t, 1)
}

// Each error of Do says whether to give up.
func TestHopeless(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err      error
		delivery uint64
		want     bool
	}{
		{idempotency.ErrMismatch, 1, true},
		{idempotency.ErrExpired, 1, true},
		{idempotency.ErrKeyInvalid, 1, true},
		{&idempotency.Error{Code: idempotency.CodeKeyMissing}, 1, true},
		{&idempotency.Error{Code: idempotency.CodeScopeMissing}, 1, true},
		{&idempotency.Error{Code: idempotency.CodeInternal}, 1, true},
		{idempotency.ErrInFlight, 1000, false},
		{idempotency.ErrUnavailable, 1000, false},
		{idempotency.ErrOutcomeUnknown, 1000, false},
		{fmt.Errorf("%w: no customer", errPoison), 1, true},
		{sql.ErrConnDone, maxDeliveries - 1, false},
		{sql.ErrConnDone, maxDeliveries, true},
	} {
		if got := hopeless(c.err, c.delivery); got != c.want {
			t.Errorf("hopeless(%v, %d) = %t", c.err, c.delivery, got)
		}
	}
	for delivery, want := range map[uint64]time.Duration{1: time.Second, 2: 2 * time.Second, 6: 32 * time.Second, 7: time.Minute, 1 << 40: time.Minute} {
		if got := backoff(delivery); got != want {
			t.Errorf("backoff(%d) = %v, want %v", delivery, got, want)
		}
	}
}
