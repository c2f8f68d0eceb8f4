// Package sweepbench measures what a sweep of many expired records costs the
// requests that run beside it.
package sweepbench

import (
	"context"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

const (
	// clients each make a request every pause, one at a time: 200 in a second if
	// none takes long.
	clients = 4
	pause   = 20 * time.Millisecond
	// window is how long requests are measured before the sweep, and at least how
	// long from its start, so that a short one has its share of requests too.
	window = 5 * time.Second
)

// Records is how many expired records there are to be: 1,000,000, or what
// IDEM_SWEEP_RECORDS says.
func Records() int {
	if n, err := strconv.Atoi(os.Getenv("IDEM_SWEEP_RECORDS")); err == nil {
		return n
	}
	return 1_000_000
}

// Run measures the latency of first requests before and during one sweep, which
// must delete all expired records.
func Run(b *testing.B, first func(ctx context.Context) error, sweep func(ctx context.Context) (int64, error)) {
	b.Helper()
	measure(b, first, func() { time.Sleep(window / 5) }) // connections and caches
	before := measure(b, first, func() { time.Sleep(window) })
	var took time.Duration
	during := measure(b, first, func() {
		start := time.Now()
		n, err := sweep(b.Context())
		took = time.Since(start)
		if err != nil || n < int64(Records()) {
			b.Errorf("%d records swept, %v", n, err)
		}
		time.Sleep(window - took)
	})
	b.ReportMetric(0, "ns/op") // says nothing
	b.ReportMetric(took.Seconds(), "sweep-s")
	for name, latencies := range map[string][]time.Duration{"before": before, "during": during} {
		b.ReportMetric(float64(len(latencies)), name+"-n")
		for quantile, q := range map[string]float64{"p50": 0.5, "p99": 0.99, "max": 1} {
			at := min(int(q*float64(len(latencies))), len(latencies)-1)
			b.ReportMetric(float64(latencies[at].Microseconds())/1000, name+"-"+quantile+"-ms")
		}
	}
}

// measure returns the latencies of requests while do runs, in order.
func measure(b *testing.B, first func(ctx context.Context) error, do func()) (latencies []time.Duration) {
	b.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	done := make(chan struct{})
	for range clients {
		wg.Go(func() {
			for tick := time.NewTicker(pause); ; {
				select {
				case <-done:
					tick.Stop()
					return
				case <-tick.C:
				}
				start := time.Now()
				if err := first(b.Context()); err != nil {
					b.Error(err)
					return
				}
				mu.Lock()
				latencies = append(latencies, time.Since(start))
				mu.Unlock()
			}
		})
	}
	do()
	close(done)
	wg.Wait()
	slices.Sort(latencies)
	if len(latencies) == 0 {
		b.Fatal("no request ended")
	}
	return latencies
}
