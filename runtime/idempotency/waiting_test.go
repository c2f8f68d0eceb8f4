package idempotency_test

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
)

// counting is a store that counts what it is asked for a key.
type counting struct {
	*memstore.Store
	mu    sync.Mutex
	calls map[string]int
	more  chan struct{} // is sent to, if somebody receives, after each
}

func count(store *memstore.Store) *counting {
	return &counting{Store: store, calls: make(map[string]int), more: make(chan struct{}, 1)}
}

func (s *counting) Execute(ctx context.Context, req idempotency.Request, work idempotency.Work[struct{}]) (idempotency.Result, error) {
	result, err := s.Store.Execute(ctx, req, work)
	s.mu.Lock()
	s.calls[req.Key]++
	s.mu.Unlock()
	select {
	case s.more <- struct{}{}:
	default:
	}
	return result, err
}

func (s *counting) count(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[key]
}

// until waits until the store has been asked n times for key.
func (s *counting) until(key string, n int) {
	for s.count(key) < n {
		<-s.more
	}
}

// waitingOperation lets its duplicates wait for a minute.
var waitingOperation = func() idempotency.Operation {
	op := payOperation
	op.WaitUpTo = time.Minute
	return op
}()

// elsewhere begins a request for each key in another process, which ends with
// status when the function that is returned is called.
func elsewhere(t *testing.T, store *memstore.Store, status int, keys ...string) (finish func()) {
	t.Helper()
	running, finished := make(chan struct{}), make(chan struct{})
	s := serveOn(t, store, waitingOperation, func(ctx context.Context, call *idempotency.Call) (idempotency.Visit, error) {
		running <- struct{}{}
		<-finished
		return answers(status, "elsewhere")(ctx, call)
	})
	var replies sync.WaitGroup
	for _, key := range keys {
		replies.Go(func() { s.send(t, `{}`, "Idempotency-Key", key) })
		<-running
	}
	return func() {
		close(finished)
		replies.Wait()
	}
}

// polls is how often one duplicate asks the store at most in a time.
func polls(within time.Duration) int {
	n := 1
	for pause := 10 * time.Millisecond; within > 0; pause = min(2*pause, 250*time.Millisecond) {
		within -= pause
		n++
	}
	return n
}

// Duplicates that wait for an attempt in another process ask the store together
// no more often than one of them does, and each once more when it has ended.
//
// Covers CON-06.
func TestWaitersShareOnePoll(t *testing.T) {
	t.Parallel()
	const crowd = 50
	mem := memstore.New()
	store := count(mem)
	finish := elsewhere(t, mem, 201, "crowd", "single")
	s := serveOn(t, store, waitingOperation, answers(201, "here"))
	began := time.Now()
	var waiting sync.WaitGroup
	wait := func(key string) {
		waiting.Go(func() {
			if r := s.send(t, `{}`, "Idempotency-Key", key); r.status != 201 || r.body != "elsewhere" || r.header.Get("Idempotent-Replayed") != "true" {
				t.Errorf("%s: %+v", key, r)
			}
		})
	}
	for range crowd {
		wait("crowd")
	}
	store.until("crowd", crowd)
	wait("single")
	store.until("single", 6)
	finish()
	waiting.Wait()
	if n, most := store.count("crowd"), crowd+polls(time.Since(began))+crowd; n > most {
		t.Errorf("%d duplicates have asked the store %d times, want %d at most", crowd, n, most)
	}
}

// One whose client goes leaves its turn to those who stay.
func TestWaitingGoesOnWhenClientsLeave(t *testing.T) {
	t.Parallel()
	const clients = 10
	mem := memstore.New()
	store := count(mem)
	finish := elsewhere(t, mem, 201, "k1")
	s := serveOn(t, store, waitingOperation, answers(201, "here"))
	stayed := make(chan reply)
	go func() { stayed <- s.send(t, `{}`) }()
	ctx, leave := context.WithCancel(t.Context())
	var left sync.WaitGroup
	for range clients - 1 {
		left.Go(func() {
			req, err := http.NewRequestWithContext(ctx, "POST", s.URL+"/pay", strings.NewReader(`{}`))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header = http.Header{"Content-Type": {"application/json"}, "X-Api-Key": {"alice"}, "Idempotency-Key": {"k1"}}
			if resp, err := s.Client().Do(req); err == nil {
				resp.Body.Close()
				t.Errorf("answered %d", resp.StatusCode)
			}
		})
	}
	store.until("k1", clients+1)
	leave()
	left.Wait()
	for range clients - 1 {
		// Unavailable, where it was just asking.
		if e := <-s.events; e.Outcome != idempotency.OutcomeInFlight && e.Outcome != idempotency.OutcomeUnavailable {
			t.Errorf("one that has left: %+v", e)
		}
	}
	finish()
	if r := <-stayed; r.status != 201 || r.body != "elsewhere" {
		t.Errorf("one that has stayed: %+v", r)
	}
}

// When the first attempt frees the key, one of those who wait is the next and
// runs, and the others wait for that one; if it frees the key too, another runs.
//
// Covers CON-06, ERR-02.
func TestWaitersRunOneAfterAnother(t *testing.T) {
	t.Parallel()
	for _, failures := range []int64{0, 2} {
		t.Run(strconv.FormatInt(failures, 10), func(t *testing.T) {
			t.Parallel()
			const crowd = 20
			mem := memstore.New()
			store := count(mem)
			finish := elsewhere(t, mem, 503, "k1")
			var runs, running atomic.Int64
			s := serveOn(t, store, waitingOperation, func(ctx context.Context, call *idempotency.Call) (idempotency.Visit, error) {
				if running.Add(1) != 1 {
					t.Error("two run at the same time")
				}
				defer running.Add(-1)
				if runs.Add(1) <= failures {
					return answers(503, "failed")(ctx, call)
				}
				return answers(201, "here")(ctx, call)
			})
			var failed, executed, replayed atomic.Int64
			var waiting sync.WaitGroup
			for range crowd {
				waiting.Go(func() {
					switch r := s.send(t, `{}`); {
					case r.status == 503 && r.body == "failed":
						failed.Add(1)
					case r.status == 201 && r.header.Get("Idempotent-Replayed") == "true":
						replayed.Add(1)
					case r.status == 201:
						executed.Add(1)
					default:
						t.Errorf("%+v", r)
					}
				})
			}
			store.until("k1", crowd)
			finish()
			waiting.Wait()
			if failed.Load() != failures || executed.Load() != 1 || replayed.Load() != crowd-1-failures || runs.Load() != failures+1 {
				t.Errorf("%d failed, %d executed, %d replayed, %d runs; want %d, 1, the others, and %d",
					failed.Load(), executed.Load(), replayed.Load(), runs.Load(), failures, failures+1)
			}
		})
	}
}

// A duplicate with other content waits like the others, since nothing of the
// first attempt is visible yet, and is then told of the mismatch.
//
// Covers CON-06, FPR-01.
func TestMismatchWaits(t *testing.T) {
	t.Parallel()
	const crowd = 10
	for name, status := range map[string]int{"Stored": 201, "Freed": 503} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mem := memstore.New()
			store := count(mem)
			finish := elsewhere(t, mem, status, "k1")
			s := serveOn(t, store, waitingOperation, answers(201, "here"))
			replies := make(chan reply)
			for i := range 2 * crowd {
				go func() { replies <- s.send(t, `{"amount":`+strconv.Itoa(i%2)+`}`) }()
			}
			store.until("k1", 2*crowd)
			finish()
			counts := make(map[int]int)
			for range 2 * crowd {
				counts[(<-replies).status]++
			}
			// What elsewhere has stored is neither request's; where nothing is stored,
			// the first of them to run decides.
			want := map[int]int{422: 2 * crowd}
			if status == 503 {
				want = map[int]int{201: crowd, 422: crowd}
			}
			if len(counts) != len(want) || counts[201] != want[201] || counts[422] != want[422] {
				t.Errorf("%v, want %v", counts, want)
			}
		})
	}
}

// Each waits for as long as its own operation says, also while one of those who
// waited runs its handler. Nothing is left of a wait.
func TestPatienceIsEachOnesOwn(t *testing.T) {
	t.Parallel()
	mem := memstore.New()
	finish := elsewhere(t, mem, 503, "k1")
	store := count(mem)
	running, finishHere := make(chan struct{}), make(chan struct{})
	short := waitingOperation
	short.WaitUpTo = 30 * time.Millisecond
	s, edge := serveOperations(t, store, func(r *http.Request) *idempotency.Operation {
		if r.Header.Get("X-Short") != "" {
			return &short
		}
		return &waitingOperation
	}, func(ctx context.Context, call *idempotency.Call) (idempotency.Visit, error) {
		close(running)
		<-finishHere
		return answers(201, "here")(ctx, call)
	})
	long := make(chan reply)
	go func() { long <- s.send(t, `{}`) }()
	store.until("k1", 2)
	if r := s.send(t, `{}`, "X-Short", "yes"); r.status != 409 || r.code(t) != idempotency.CodeInFlight {
		t.Errorf("while the first runs: %+v", r)
	}
	finish()
	<-running
	if r := s.send(t, `{}`, "X-Short", "yes"); r.status != 409 {
		t.Errorf("while one that has waited runs: %+v", r)
	}
	close(finishHere)
	if r := <-long; r.status != 201 || r.body != "here" {
		t.Errorf("the patient one: %+v", r)
	}
	if n := edge.Rooms(); n != 0 {
		t.Errorf("%d rooms are left", n)
	}
}

// A handler that panics after it has waited leaves its turn to the others.
func TestPanicAfterWaiting(t *testing.T) {
	t.Parallel()
	mem := memstore.New()
	store := count(mem)
	finish := elsewhere(t, mem, 503, "k1")
	var runs atomic.Int64
	s := serveOn(t, store, waitingOperation, func(ctx context.Context, call *idempotency.Call) (idempotency.Visit, error) {
		if runs.Add(1) == 1 {
			panic(http.ErrAbortHandler)
		}
		return answers(201, "here")(ctx, call)
	})
	results := make(chan error)
	for range 3 {
		go func() {
			req, err := http.NewRequest("POST", s.URL+"/pay", strings.NewReader(`{}`))
			if err == nil {
				req.GetBody = nil
				req.Header = http.Header{"Content-Type": {"application/json"}, "X-Api-Key": {"alice"}, "Idempotency-Key": {"k1"}}
				var resp *http.Response
				if resp, err = s.Client().Do(req); err == nil {
					resp.Body.Close()
					if resp.StatusCode != 201 {
						err = errors.New(resp.Status)
					}
				}
			}
			results <- err
		}()
	}
	store.until("k1", 3)
	finish()
	failed := 0
	for range 3 {
		if <-results != nil {
			failed++
		}
	}
	if failed != 1 || runs.Load() != 2 {
		t.Errorf("%d failed, %d runs; want 1 and 2", failed, runs.Load())
	}
}
