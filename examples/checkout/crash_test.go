package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/idemgen/idemgen/examples/internal/e2e"
)

// The shop is killed at each point of a payment. Its next process pays once.
// Covers CLI-01.
func TestCrash(t *testing.T) {
	t.Parallel()
	program := buildService(t)
	for point, executed := range map[e2e.Point]int{beforeSending: 0, answered: 1, recording: 1} {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, program)
			b.startShop(t, point)
			if err := b.order(t.Context(), "order-0", 250); err != nil {
				t.Fatal(err)
			}
			b.shop.AwaitStall(t)
			b.shop.Kill()
			if keys := b.openKeys(t); len(keys) != 1 {
				t.Errorf("%d orders are open after the crash, want 1", len(keys))
			}
			if stored := b.stored(t); len(stored) != executed {
				t.Errorf("the service has executed %d requests before the crash, want %d", len(stored), executed)
			}
			b.startShop(t, "")
			b.awaitSettled(t, 1)
			b.checkPaid(t, 1)
			seen, keys := b.front.seen()
			// A slow machine may need a try more.
			if seen.replays < executed || len(keys) != 1 || seen.changed != 0 {
				t.Errorf("%+v under %d keys, want one request, and at least %d replays of it", seen, len(keys), executed)
			}
		})
	}
}

var seedFlag = flag.Uint64("seed", 0, "what TestKills decides by; 0 takes another each time")

// moment is when to kill whom.
type moment struct {
	name          string
	point         e2e.Point // where the shop has come; "" is anywhere
	spot          spot      // where a request has come; 0 is anywhere
	shop, service bool
}

var moments = []moment{
	{name: "shop, before it sends", point: beforeSending, shop: true},
	{name: "shop, while the service works", spot: atService, shop: true},
	{name: "shop, before an answer", spot: atDelivery, shop: true},
	{name: "shop, after an answer", point: answered, shop: true},
	{name: "shop, while it records", point: recording, shop: true},
	{name: "shop, at any time", shop: true},
	{name: "service, at work", spot: atService, service: true},
	{name: "service, its answer lost", spot: atDelivery, service: true},
	{name: "service, at any time", service: true},
	{name: "both, at work", spot: atService, shop: true, service: true},
	{name: "both, an answer on its way", spot: atDelivery, shop: true, service: true},
	{name: "both, at any time", shop: true, service: true},
}

// While 200 orders are placed and paid, the shop and the payments service are
// killed at each moment, four times, in a random order. In the end each order
// is paid once, and the shop knows it.
// Covers CLI-01, CRA-01, CRA-02, CRA-03, CRA-04.
func TestKills(t *testing.T) {
	t.Parallel()
	const orders, times = 200, 4
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("repeat with -seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var rounds []moment
	for range times {
		for _, i := range random.Perm(len(moments)) {
			rounds = append(rounds, moments[i])
		}
	}
	b := newBench(t, buildService(t))
	b.startShop(t, "")
	placed := 0
	kills := map[status]int{} // of a shop with an order in this state
	shops, services := 0, 0
	for i, m := range rounds {
		if m.point != "" {
			b.shop.Kill()
			b.startShop(t, m.point)
		}
		var caught *trap
		if m.spot != 0 {
			caught = b.front.set(m.spot)
		}
		before, _ := b.front.seen()
		var placing sync.WaitGroup
		placing.Go(func() {
			for placed < (i+1)*orders/len(rounds) && b.order(t.Context(), orderID(placed), cents(placed)) == nil {
				placed++
			}
		})
		switch more := 1 + random.IntN(4); {
		case m.point != "":
			b.shop.AwaitStall(t)
		case m.spot != 0:
			caught.await(t)
		default:
			e2e.Await(t, "requests come", func() error {
				if now, _ := b.front.seen(); now.total < before.total+more {
					return fmt.Errorf("%d of %d have come", now.total-before.total, more)
				}
				return nil
			})
		}
		var killing sync.WaitGroup
		if m.shop {
			killing.Go(b.shop.Kill)
		}
		if m.service {
			killing.Go(b.service.Kill)
		}
		killing.Wait()
		if caught != nil {
			close(caught.open)
		}
		placing.Wait()
		if m.service {
			services++
			b.startService(t)
		}
		if m.shop {
			shops++
			_, known := b.front.seen()
			left := map[status]bool{}
			for _, key := range b.openKeys(t) {
				left[known[key]] = true
			}
			for s := range left {
				kills[s]++
			}
			b.startShop(t, "")
		}
	}
	for ; placed < orders; placed++ {
		if err := b.order(t.Context(), orderID(placed), cents(placed)); err != nil {
			t.Fatal(err)
		}
	}
	b.awaitSettled(t, orders)
	b.checkPaid(t, orders)

	seen, keys := b.front.seen()
	t.Logf("%d requests, %d of them answered by replays; of %d kills of a shop %d left orders written and not sent, %d sent and not answered, %d answered and not recorded; %d kills of the service cut %d requests off",
		seen.total, seen.replays, shops, kills[unsent], kills[sent], kills[delivered], services, seen.cut)
	if len(keys) != orders || seen.changed != 0 {
		t.Errorf("%d keys for %d orders, %d requests that differ from the first one under their key", len(keys), orders, seen.changed)
	}
	if seen.replays == 0 || kills[unsent] == 0 || kills[sent] == 0 || kills[delivered] == 0 || seen.cut == 0 {
		t.Error("some kind of kill has not happened: the test proves nothing")
	}
}

func orderID(i int) string { return fmt.Sprintf("order-%d", i) }

// cents is what an order costs. All 200 together are less than alice has.
func cents(i int) int64 { return int64(1 + i%90) }
