package main

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// front stands between the shop and the payments service. It has one address,
// while the service gets another with each start, and sees what each side
// sends. A connection that breaks on one side it breaks on the other.
type front struct {
	url       string
	transport http.Transport

	mu       sync.Mutex
	service  string
	requests map[string]string // what came first under each key
	known    map[string]status // of each key, to the shop process that runs
	trap     *trap
	counts
}

// status is how far a request has come.
type status int

const (
	unsent    status = iota
	earlier          // sent by a shop process that was killed
	sent             // by this one
	delivered        // the answer has gone to this one
)

// counts is what a front has seen.
type counts struct {
	total, replays int
	cut            int // requests that the service was killed with
	changed        int // requests other than the first one under their key
}

// trap waits for the first request that comes to its spot.
type trap struct {
	spot   spot
	caught chan struct{} // closed when it is there
	open   chan struct{} // to be closed, to break its connection
}

// spot is where a request can be caught.
type spot int

const (
	atService  spot = iota + 1 // it goes on to the service, and is worked on
	atDelivery                 // it is answered, and the answer goes no further
)

func newFront(t *testing.T) *front {
	t.Helper()
	f := &front{requests: map[string]string{}, known: map[string]status{}}
	f.transport.DisableKeepAlives = true // so that it repeats nothing by itself
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	f.url = server.URL
	return f
}

// passTo sends requests on to a service from now on.
func (f *front) passTo(url string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.service = url
}

// newShop says that another shop process runs.
func (f *front) newShop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := map[string]status{}
	for key := range f.known {
		known[key] = earlier
	}
	f.known = known
}

// set sets a trap, in place of the one before.
func (f *front) set(at spot) *trap {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trap = &trap{spot: at, caught: make(chan struct{}), open: make(chan struct{})}
	return f.trap
}

// await returns when it has caught a request, and fails after a minute.
func (tr *trap) await(t *testing.T) {
	t.Helper()
	select {
	case <-tr.caught:
	case <-time.After(time.Minute):
		t.Fatal("no request comes")
	}
}

// seen returns what the front has counted, and what the shop process knows of
// each key.
func (f *front) seen() (counts, map[string]status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts, maps.Clone(f.known)
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	key := r.Header.Get("Idempotency-Key")
	service, known := f.arrive(key, r.URL.Path+" "+string(body))
	f.pass(atService)
	resp, answer, err := f.send(r, service, body)
	if err != nil {
		var broken *net.OpError
		notSent := errors.As(err, &broken) && broken.Op == "dial"
		if r.Context().Err() == nil && !notSent {
			f.note(func() { f.cut++ })
		}
		panic(http.ErrAbortHandler)
	}
	f.pass(atDelivery)
	maps.Copy(w.Header(), resp.Header)
	w.WriteHeader(resp.StatusCode)
	_, err = w.Write(answer)
	if err == nil {
		err = http.NewResponseController(w).Flush()
	}
	f.note(func() {
		if err == nil {
			known[key] = delivered
		}
		if resp.Header.Get("Idempotent-Replayed") == "true" {
			f.replays++
		}
	})
}

// arrive notes a request, and returns where it is to go, and what the shop
// knows that has sent it.
func (f *front) arrive(key, request string) (service string, known map[string]status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.requests[key] == "" {
		f.requests[key] = request
	}
	if f.requests[key] != request {
		f.changed++
	}
	f.known[key] = sent
	f.total++
	return f.service, f.known
}

// pass lets a request through, unless there is a trap.
func (f *front) pass(at spot) {
	f.mu.Lock()
	tr := f.trap
	if tr == nil || tr.spot != at {
		f.mu.Unlock()
		return
	}
	f.trap = nil
	f.mu.Unlock()
	close(tr.caught)
	if at == atDelivery {
		<-tr.open
		panic(http.ErrAbortHandler)
	}
}

// send sends a request to the service and reads the answer.
func (f *front) send(r *http.Request, service string, body []byte) (*http.Response, []byte, error) {
	req, err := http.NewRequestWithContext(r.Context(), r.Method, service+r.URL.Path, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	req.Header = r.Header.Clone()
	resp, err := f.transport.RoundTrip(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return resp, answer, err
}

func (f *front) note(what func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	what()
}
