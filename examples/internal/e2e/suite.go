package e2e

import (
	"context"
	"fmt"
	"math/rand"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// Bank is one example on one fresh database.
type Bank struct {
	// Start starts the server on the database, to be stopped at point.
	Start func(t *testing.T, point Point) *Process
	// State reads the balances and counts payments and stored answers.
	State func(t *testing.T) State
}

// State is what the database holds. Both accounts hold 10,000 together when
// the bank opens: alice all of it.
type State struct {
	Alice, Bob       int64
	Payments, Stored int
}

const opening = 10_000

// check says what is wrong with the books after n payments of amount.
func (s State) check(t *testing.T, n, amount int) {
	t.Helper()
	if s.Payments != n || s.Alice != int64(opening-n*amount) || s.Bob != int64(n*amount) {
		t.Errorf("the database holds %+v, want %d payments of %d", s, n, amount)
	}
}

// Crash kills the server at each point of an execution and lets the client
// retry. open opens a fresh bank.
func Crash(t *testing.T, open func(t *testing.T) Bank) {
	for _, point := range []Point{BeforeClaim, InHandler, BeforeCommit, AfterCommit} {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			bank := open(t)
			server := bank.Start(t, point)
			lost := make(chan error, 1)
			go func() {
				_, err := Pay(t.Context(), server.URL, "k1", 250)
				lost <- err
			}()
			server.AwaitStall(t)
			server.Kill()
			if err := <-lost; err == nil {
				t.Fatal("the first attempt was answered")
			}
			before := bank.State(t)
			committed := 0
			if point == AfterCommit {
				committed = 1
			}
			before.check(t, committed, 250)
			if before.Stored != committed {
				t.Errorf("%d stored answers, want %d: an answer is stored exactly when its effects are", before.Stored, committed)
			}

			server = bank.Start(t, "")
			first := settle(t, server.URL)
			if first.Status != http.StatusCreated || first.Replayed != (point == AfterCommit) {
				t.Errorf("the retry got %+v", first)
			}
			if id := strings.TrimPrefix(first.Location, "/payments/"); id == "" || !strings.Contains(first.Body, `"id":`+id) {
				t.Errorf("the retry's answer does not name its payment: %+v", first)
			}
			second := settle(t, server.URL)
			if !second.Replayed || second.Body != first.Body || second.Location != first.Location {
				t.Errorf("replays differ: %+v and %+v", first, second)
			}
			after := bank.State(t)
			after.check(t, 1, 250)
			if after.Stored != 1 {
				t.Errorf("%d stored answers, want 1", after.Stored)
			}
		})
	}
}

// settle pays until the payment is no longer in flight.
func settle(t *testing.T, url string) Answer {
	t.Helper()
	return Settle(t, func(ctx context.Context) (Answer, error) { return Pay(ctx, url, "k1", 250) })
}

// ClientGone lets the client disconnect while the handler runs, and after it
// has returned. Either nothing is left or a complete record.
func ClientGone(t *testing.T, open func(t *testing.T) Bank) {
	for point, complete := range map[Point]int{UntilGone: 0, DoneUntilGone: 1} {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			bank := open(t)
			server := bank.Start(t, point)
			ctx, disconnect := context.WithCancel(t.Context())
			gone := make(chan error, 1)
			go func() {
				_, err := Pay(ctx, server.URL, "k1", 250)
				gone <- err
			}()
			server.AwaitStall(t)
			disconnect()
			if err := <-gone; err == nil {
				t.Fatal("the client did not disconnect")
			}
			// The retry comes while the first attempt winds up, or after it.
			a := settle(t, server.URL)
			if a.Status != http.StatusCreated || a.Replayed != (complete == 1) {
				t.Errorf("the retry got %+v", a)
			}
			s := bank.State(t)
			s.check(t, 1, 250)
			if s.Stored != 1 {
				t.Errorf("%d stored answers, want 1", s.Stored)
			}
		})
	}
}

// Crowd sends keys payments, each copies times, from clients clients, with the
// copies of one key close together. Each payment is made once; each copy is
// told in flight or gets the stored bytes; nobody sees a 5xx.
func Crowd(t *testing.T, bank Bank, clients, keys, copies int) {
	server := bank.Start(t, "")
	jobs := make(chan string, clients)
	go func() {
		defer close(jobs)
		// Windows of a few keys, shuffled: copies meet, and are staggered.
		const window = 4
		for first := 0; first < keys; first += window {
			var batch []string
			for k := first; k < min(first+window, keys); k++ {
				for range copies {
					batch = append(batch, fmt.Sprintf("key-%d", k))
				}
			}
			rand.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
			for _, key := range batch {
				jobs <- key
			}
		}
	}()
	type answers struct {
		executed, replayed, inFlight int
		bodies                       map[string]bool
	}
	var mu sync.Mutex
	byKey := map[string]*answers{}
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for key := range jobs {
				a, err := Pay(t.Context(), server.URL, key, 1)
				mu.Lock()
				got := byKey[key]
				if got == nil {
					got = &answers{bodies: map[string]bool{}}
					byKey[key] = got
				}
				switch {
				case err != nil:
					t.Errorf("%s: %v", key, err)
				case a.Status == http.StatusCreated && a.Replayed:
					got.replayed++
					got.bodies[a.Body] = true
				case a.Status == http.StatusCreated:
					got.executed++
					got.bodies[a.Body] = true
				case a.Status == http.StatusConflict:
					got.inFlight++
				default:
					t.Errorf("%s: %+v", key, a)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	var total answers
	for key, got := range byKey {
		if got.executed != 1 || len(got.bodies) != 1 {
			t.Errorf("%s: executed %d times, with %d different answers", key, got.executed, len(got.bodies))
		}
		total.executed += got.executed
		total.replayed += got.replayed
		total.inFlight += got.inFlight
	}
	t.Logf("%d executed, %d replayed, %d in flight", total.executed, total.replayed, total.inFlight)
	if len(byKey) != keys {
		t.Errorf("%d keys were answered, want %d", len(byKey), keys)
	}
	if total.replayed == 0 || total.inFlight == 0 {
		t.Error("copies never met: the test proves nothing")
	}
	s := bank.State(t)
	s.check(t, keys, 1)
	if s.Stored != keys {
		t.Errorf("%d stored answers, want %d", s.Stored, keys)
	}
}
