package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// Outage is a database that goes away, or loses a part, while clients send
// requests. See [RunOutage].
type Outage[Tx any] struct {
	// Stores are open on the same data and share nothing else, as processes
	// have them.
	Stores []Store[Tx]
	// Effect makes one business effect through tx. Nothing may keep a second one
	// with the same label out: a unique index would hide what is looked for.
	Effect func(ctx context.Context, tx Tx, label string) error
	// Effects counts the committed effects with each of these labels.
	Effects func(ctx context.Context, labels []string) (map[string]int, error)
	// Strike harms the database and brings it back, in the way that is examined.
	Strike func(t *testing.T)
	// Requests is how many different requests are sent at least, half of them
	// before the strike: by default 200.
	Requests int
	// Clients is how many send requests at the same time: by default 8.
	Clients int
	// Copies is how often each request is sent, to another store each time and
	// all about at once: by default 3.
	Copies int
}

// Figures are what clients have seen of an outage.
type Figures struct {
	// Requests is how many different requests were answered, and Answers how
	// many answers they got: each request is sent several times.
	Requests, Answers int
	// Runs is how often work has begun.
	Runs int
	// Refusals counts attempts that were refused, and sent again, by their code.
	Refusals map[idempotency.Code]int
	// Silence is the longest time without an answer to anybody.
	Silence time.Duration
	// Changed are the requests for which clients got an answer that is not the
	// one that is replayed at last: acknowledged, and lost.
	Changed int
}

// String says what tests print.
func (f Figures) String() string {
	var refusals []string
	for _, code := range slices.Sorted(maps.Keys(f.Refusals)) {
		refusals = append(refusals, fmt.Sprintf("%s %d", code, f.Refusals[code]))
	}
	return fmt.Sprintf("%d requests, %d answers, %d runs of work; refused: %s; %v without any answer; %d acknowledged answers lost",
		f.Requests, f.Answers, f.Runs, strings.Join(refusals, ", "), f.Silence.Round(time.Millisecond), f.Changed)
}

// RunOutage sends requests, several times each, to all stores, strikes, and goes
// on until as many were answered after the strike as before. Whatever is refused
// is sent again until it is answered. Then every request is sent once more.
//
// The test fails for a request that has not exactly one effect in the end, and
// for an error that says anything else than that the request is in flight, that
// the store is unavailable or that the outcome is unknown. Whether answers may
// be lost is for the caller to judge by the figures.
func RunOutage[Tx any](t *testing.T, o Outage[Tx]) Figures {
	t.Helper()
	c := &clients[Tx]{
		Outage: o, t: t, run: strconv.FormatInt(time.Now().UnixNano(), 36), stop: make(chan struct{}),
		answers: map[string][]idempotency.Response{}, refusals: map[idempotency.Code]int{}, last: time.Now(),
	}
	c.Requests, c.Clients, c.Copies = orElse(o.Requests, 200), orElse(o.Clients, 8), orElse(o.Copies, 3)
	var cancel context.CancelFunc
	c.ctx, cancel = context.WithTimeout(t.Context(), patience+time.Duration(c.Requests)*100*time.Millisecond)
	defer cancel()

	var wg sync.WaitGroup
	for range c.Clients {
		wg.Go(c.send)
	}
	c.await(c.Requests / 2 * c.Copies)
	o.Strike(t)
	c.await(int(c.answered.Load()) + c.Requests/2*c.Copies)
	close(c.stop)
	wg.Wait()
	return c.judge()
}

func orElse(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}

// clients are those of one outage.
type clients[Tx any] struct {
	Outage[Tx]
	t        *testing.T
	ctx      context.Context // ends clients that wait in vain
	run      string          // tells this outage's labels from others'
	stop     chan struct{}
	sent     atomic.Int64
	answered atomic.Int64
	runs     atomic.Int64

	mu       sync.Mutex
	answers  map[string][]idempotency.Response // those that differ, by label
	refusals map[idempotency.Code]int
	last     time.Time // of an answer
	silence  time.Duration
}

// send sends requests until it is told to stop, each until it is answered.
func (c *clients[Tx]) send() {
	for {
		select {
		case <-c.stop:
			return
		case <-c.ctx.Done():
			return
		default:
		}
		n := int(c.sent.Add(1) - 1)
		c.request(fmt.Sprint("outage-", c.run, "-", n/c.Copies), n)
	}
}

// request sends one request, first to the n-th store, until it is answered.
func (c *clients[Tx]) request(label string, n int) {
	for ; c.ctx.Err() == nil; n++ {
		res, err := c.Stores[n%len(c.Stores)].Execute(c.ctx, request(label), func(ctx context.Context, tx Tx) (idempotency.Response, error) {
			// Each run answers something else, so that an answer tells its run.
			resp := answer(fmt.Sprint(label, " in run ", c.runs.Add(1), " \x00\xff"))
			return resp, c.Effect(ctx, tx, label)
		})
		if err == nil {
			c.note(label, res.Response)
			return
		}
		c.refused(label, err)
		time.Sleep(5 * time.Millisecond) // as a client would
	}
}

// note remembers an answer.
func (c *clients[Tx]) note(label string, resp idempotency.Response) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.ContainsFunc(c.answers[label], resp.Equal) {
		c.answers[label] = append(c.answers[label], resp)
	}
	now := time.Now()
	c.silence = max(c.silence, now.Sub(c.last))
	c.last = now
	c.answered.Add(1)
}

// codeOfWork stands for an error of work's own statements, which fail when their
// connection does.
const codeOfWork idempotency.Code = "error of work"

// refused counts an attempt that got no answer.
func (c *clients[Tx]) refused(label string, err error) {
	var refusal *idempotency.Error
	if !errors.As(err, &refusal) {
		refusal = &idempotency.Error{Code: codeOfWork}
	}
	switch refusal.Code {
	case idempotency.CodeInFlight, idempotency.CodeUnavailable, idempotency.CodeOutcomeUnknown, codeOfWork:
	default:
		c.t.Errorf("%s: %v", label, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refusals[refusal.Code]++
}

// await waits for n answers in all.
func (c *clients[Tx]) await(n int) {
	c.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for int(c.answered.Load()) < n {
		select {
		case <-tick.C:
		case <-c.ctx.Done():
			c.t.Fatalf("waited in vain for %d answers; there are %d", n, c.answered.Load())
		}
	}
}

// judge sends every request once more and counts effects.
func (c *clients[Tx]) judge() Figures {
	c.t.Helper()
	f := Figures{
		Requests: len(c.answers), Answers: int(c.answered.Load()), Runs: int(c.runs.Load()),
		Refusals: maps.Clone(c.refusals), Silence: c.silence,
	}
	labels := slices.Collect(maps.Keys(c.answers))
	for n, label := range labels {
		c.request(label, n)
		if len(c.answers[label]) != 1 {
			f.Changed++
		}
	}
	if err := c.ctx.Err(); err != nil {
		c.t.Fatalf("not all requests were answered: %v", err)
	}
	counts, err := c.Effects(c.ctx, labels)
	if err != nil {
		c.t.Fatalf("count effects: %v", err)
	}
	for _, label := range labels {
		if counts[label] != 1 {
			c.t.Errorf("%s: %d effects, %d answers", label, counts[label], len(c.answers[label]))
		}
	}
	return f
}
