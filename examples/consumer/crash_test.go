package main

import (
	"math/rand"
	"testing"
	"time"

	"github.com/idemgen/idemgen/examples/internal/e2e"
	"github.com/nats-io/nats.go"
)

// The consumer is killed at each point of an order; another process credits it once.
// Covers CRA-01, CRA-02, CRA-03, CRA-04.
func TestCrash(t *testing.T) {
	t.Parallel()
	for _, point := range []e2e.Point{e2e.BeforeClaim, e2e.InHandler, e2e.BeforeCommit, e2e.AfterCommit} {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, time.Second)
			b.sendOrders(t, 0, 1)
			consumer := b.startConsumer(t, point)
			consumer.AwaitStall(t)
			consumer.Kill()
			committed := 0
			if point == e2e.AfterCommit {
				committed = 1
			}
			if credits, _, stored := b.credits(t); credits != committed || stored != committed {
				t.Errorf("the killed process left %d credits and %d stored answers, want %d", credits, stored, committed)
			}
			if n := b.unsettled(t); n != 1 {
				t.Errorf("the killed process left %d orders to settle, want 1", n)
			}
			b.startConsumer(t, "")
			if deliveries := b.awaitSettled(t); deliveries < 2 {
				t.Errorf("%d deliveries: the order did not come again", deliveries)
			}
			b.check(t, 1)
		})
	}
}

// While 200 orders come in, consumers are killed 30 times, at points of an
// execution and at any moment, and in the end one of two that share the work.
func TestKills(t *testing.T) {
	t.Parallel()
	const orders, kills = 200, 30
	b := newBench(t, time.Second)
	points := []e2e.Point{e2e.BeforeClaim, e2e.InHandler, e2e.BeforeCommit, e2e.AfterCommit, "", ""}
	killed := map[e2e.Point]int{}
	sent := 0
	send := func(upTo int) {
		b.sendOrders(t, sent, upTo)
		sent = upTo
	}
	for i := range kills {
		point := points[rand.Intn(len(points))]
		killed[point]++
		announced := b.announcements(t)
		send((i + 1) * orders / (kills + 2)) // at least 6 new ones: the point is reached
		consumer := b.startConsumer(t, point)
		if point == "" {
			announced(1 + rand.Intn(5))
		} else {
			consumer.AwaitStall(t)
		}
		consumer.Kill()
	}
	announced := b.announcements(t)
	one := b.startConsumer(t, "")
	b.startConsumer(t, "")
	send(orders)
	announced(1 + rand.Intn(5))
	one.Kill()
	deliveries := b.awaitSettled(t)
	t.Logf("%d deliveries of %d orders; killed %v", deliveries, orders, killed)
	if deliveries <= orders {
		t.Error("no order came again: the test proves nothing")
	}
	b.check(t, orders)
}

// announcements returns a function that waits until n more receipts are
// announced, counted from now.
func (b *bench) announcements(t *testing.T) (wait func(n int)) {
	t.Helper()
	heard := make(chan *nats.Msg, 1000)
	sub, err := b.conn.ChanSubscribe("points.>", heard)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.conn.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	return func(n int) {
		for range n {
			select {
			case <-heard:
			case <-time.After(time.Minute):
				t.Fatal("no receipt is announced")
			}
		}
	}
}

// The broker is killed while two consumers work and a publisher repeats what
// was not confirmed.
func TestBrokerKilled(t *testing.T) {
	t.Parallel()
	const orders, kills = 100, 3
	b := newBench(t, time.Second)
	b.startConsumer(t, "")
	b.startConsumer(t, "")
	for i := range kills {
		announced := b.announcements(t)
		b.sendOrders(t, i*orders/kills, (i+1)*orders/kills-10)
		announced(1 + rand.Intn(5))
		b.broker.Kill()
		b.startBroker(t)
		b.sendOrders(t, (i+1)*orders/kills-10, (i+1)*orders/kills)
	}
	t.Logf("%d deliveries of %d orders", b.awaitSettled(t), orders)
	b.check(t, orders)
}
