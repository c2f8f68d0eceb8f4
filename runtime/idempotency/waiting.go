package idempotency

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// waiters are the duplicates that wait for other attempts to end. Those of one
// key share a room, in which one of them at a time asks the store.
type waiters struct {
	places chan struct{} // one for each that may wait

	mu    sync.Mutex
	rooms map[Identity]*room
}

func newWaiters(limit int) *waiters {
	return &waiters{places: make(chan struct{}, max(limit, 0)), rooms: make(map[Identity]*room)}
}

// room is where the duplicates of one key wait.
type room struct {
	members int           // guarded by waiters.mu
	gone    chan struct{} // closed when the claim is known to have gone
	// turn holds the next poll. Who takes it out is the one who polls, and puts
	// the next one in when it has done so or leaves.
	turn chan poll
}

// poll is when the store is asked next.
type poll struct {
	at    time.Time
	pause time.Duration
}

const (
	firstPause = 20 * time.Millisecond
	lastPause  = 500 * time.Millisecond
)

// after returns a poll at the end of a pause, with jitter, so that processes do
// not ask in step.
func after(pause time.Duration) poll {
	return poll{at: time.Now().Add(pause/2 + rand.N(pause/2)), pause: pause}
}

// enter puts one more into the room of id.
func (w *waiters) enter(id Identity) *room {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.rooms[id]
	if r == nil {
		r = &room{gone: make(chan struct{}), turn: make(chan poll, 1)}
		r.turn <- after(firstPause)
		w.rooms[id] = r
	}
	r.members++
	return r
}

// leave takes one out of r, the room of id. The last one closes it.
func (w *waiters) leave(id Identity, r *room) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.members--; r.members == 0 && w.rooms[id] == r {
		delete(w.rooms, id)
	}
}

// wake tells all in the room of id that the claim has gone.
func (w *waiters) wake(id Identity) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.rooms[id]; r != nil {
		close(r.gone)
		delete(w.rooms, id)
	}
}

// next waits until the caller should execute its request: the claim has gone,
// or it is the caller's turn to ask for it, and time. Then done must be called
// afterwards. ok is false if ctx has ended before.
func (r *room) next(ctx context.Context) (done func(), ok bool) {
	select {
	case <-ctx.Done():
		return nil, false
	case <-r.gone:
		return func() {}, true
	case p := <-r.turn:
		timer := time.NewTimer(time.Until(p.at))
		defer timer.Stop()
		select {
		case <-ctx.Done():
			r.turn <- p
			return nil, false
		case <-r.gone:
			return func() {}, true
		case <-timer.C:
			return func() { r.turn <- after(min(2*p.pause, lastPause)) }, true
		}
	}
}

// closed reports whether the claim that r waits for has gone.
func (r *room) closed() bool {
	select {
	case <-r.gone:
		return true
	default:
		return false
	}
}

// wait executes req when the other attempt has ended, and gives up after upTo.
// It holds no connection meanwhile, and asks the store no more often than one
// duplicate does, however many there are. busy is the answer if it gives up.
func (e *Edge[Tx]) wait(ctx context.Context, req Request, upTo time.Duration, work Work[Tx], busy error) (Result, error) {
	w := e.waiters
	select {
	case w.places <- struct{}{}:
		defer func() { <-w.places }()
	default:
		return Result{}, busy
	}
	patience, cancel := context.WithTimeout(ctx, upTo)
	defer cancel()
	r := w.enter(req.Identity)
	defer func() { w.leave(req.Identity, r) }()
	for {
		done, ok := r.next(patience)
		if !ok {
			return Result{}, busy
		}
		result, err := func() (Result, error) {
			defer done() // also when work panics
			return e.try(ctx, req, work)
		}()
		if !isInFlight(err) {
			return result, err
		}
		if r.closed() { // and another attempt was first
			w.leave(req.Identity, r)
			r = w.enter(req.Identity)
		}
	}
}

// try executes req once, and wakes those who wait for its key if there is
// an answer for them now.
func (e *Edge[Tx]) try(ctx context.Context, req Request, work Work[Tx]) (Result, error) {
	result, err := timed(ctx, req.call.timing, e.store, req, work)
	if req.call.op.WaitUpTo > 0 && decides(req, err) {
		e.waiters.wake(req.Identity)
	}
	return result, err
}

// decides reports whether the outcome of req, which err is, means that no one
// has to wait for its key any more: an answer is stored, or nothing is and the
// key is too old. A mismatch with a claim, as leases have it, does not mean that.
// Nor does an attempt that has freed the key: of those who wait, one will be the
// next, and the others wait for that one.
func decides(req Request, err error) bool {
	switch {
	case err == nil:
		return true
	case handlersOwn(err) != nil:
		return false
	}
	return errors.Is(err, ErrExpired) || req.Lease == 0 && errors.Is(err, ErrMismatch)
}

// isInFlight reports whether the store says that another attempt is running;
// a handler may have its own reasons to return such an error.
func isInFlight(err error) bool {
	return handlersOwn(err) == nil && errors.Is(err, ErrInFlight)
}
