package idempotency

import (
	"context"
	"runtime"
	"testing"
	"time"
)

// The turn to ask the store goes on from one who leaves to the next, with the
// time that it is for; the last one closes the room.
func TestTurnIsTakenOver(t *testing.T) {
	t.Parallel()
	w := newWaiters(3)
	id := Identity{Key: "k"}
	r := w.enter(id)
	<-r.turn
	due := poll{at: time.Now().Add(time.Hour), pause: lastPause}
	r.turn <- due
	for range 3 {
		if w.enter(id) != r {
			t.Fatal("those of one key have two rooms")
		}
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan bool)
		go func() {
			_, ok := r.next(ctx)
			w.leave(id, r)
			left <- ok
		}()
		for len(r.turn) > 0 { // until it has been taken
			runtime.Gosched()
		}
		leave()
		if <-left {
			t.Error("it was time for an hour's poll")
		}
		if got := <-r.turn; got != due {
			t.Errorf("the next poll is %+v, want %+v", got, due)
		}
		r.turn <- due
	}
	if len(w.rooms) != 1 {
		t.Error("a room with somebody in it was closed")
	}
	if w.leave(id, r); len(w.rooms) != 0 {
		t.Error("an empty room was kept")
	}
}

// Whoever asks the store has the turn until it has answered. Then the next poll
// comes after a longer pause.
func TestPauses(t *testing.T) {
	t.Parallel()
	w := newWaiters(2)
	r := w.enter(Identity{})
	pause := firstPause
	for range 7 {
		if p := <-r.turn; p.pause != pause || time.Until(p.at) > pause {
			t.Errorf("a poll in %v, of a pause of %v; want %v", time.Until(p.at), p.pause, pause)
		}
		r.turn <- poll{at: time.Now(), pause: pause}
		done, ok := r.next(t.Context())
		if !ok || len(r.turn) != 0 {
			t.Fatal("the turn was not given, or not taken")
		}
		started := time.Now()
		done()
		pause = min(2*pause, lastPause)
		p := <-r.turn
		if p.at.Before(started.Add(pause / 2)) {
			t.Errorf("a poll %v after another, want %v at least", p.at.Sub(started), pause/2)
		}
		r.turn <- p
	}
	if pause != lastPause {
		t.Errorf("pauses grow to %v", pause)
	}
}

// A claim that has gone wakes all who wait for it, also who comes late to the
// room and who has the turn, and nobody else.
func TestWake(t *testing.T) {
	t.Parallel()
	w := newWaiters(3)
	id, another := Identity{Key: "k"}, Identity{Key: "another"}
	r, other := w.enter(id), w.enter(another)
	<-r.turn
	r.turn <- poll{at: time.Now().Add(time.Hour)}
	woken := make(chan bool)
	for range 2 {
		go func() {
			_, ok := r.next(t.Context())
			woken <- ok
		}()
	}
	w.wake(id)
	for range 2 {
		if !<-woken {
			t.Error("woken without success")
		}
	}
	if !r.closed() || other.closed() || w.enter(id) == r {
		t.Error("a room whose claim has gone is still entered, or another one was closed")
	}
	w.wake(Identity{Key: "nobody waits"})
}

// Those who wait are woken by what answers all of them. An attempt that has freed
// the key or that nobody knows the outcome of wakes none, nor does a mismatch with
// the claim of a lease, which may still be held.
func TestDecides(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err   error
		lease time.Duration
		want  bool
	}{
		{nil, 0, true},
		{nil, time.Minute, true},
		{ErrMismatch, 0, true},
		{ErrMismatch, time.Minute, false},
		{ErrExpired, 0, true},
		{ErrInFlight, 0, false},
		{ErrUnavailable, 0, false},
		{ErrOutcomeUnknown, 0, false},
		{errReleased, 0, false},
		{&handlerError{ErrMismatch}, 0, false},
	} {
		if got := decides(Request{Lease: c.lease}, c.err); got != c.want {
			t.Errorf("%v, lease %v: %v", c.err, c.lease, got)
		}
	}
}
