package idempotency

import (
	"fmt"
	"testing"
)

// Nothing is left of a key when those who waited for it have gone, whether its
// claim has ended meanwhile or not.
//
// Covers STO-21.
func TestWaitersLeaveNothing(t *testing.T) {
	t.Parallel()
	w := newWaiters(10)
	for i := range 1000 {
		id := Identity{Scope: "s", Operation: "o", Key: fmt.Sprint(i)}
		first, second := w.enter(id), w.enter(id)
		if i%2 == 0 {
			w.wake(id)
			w.leave(id, w.enter(id)) // who comes later waits for another claim
		}
		w.leave(id, first)
		w.leave(id, second)
	}
	if len(w.rooms) != 0 {
		t.Errorf("%d keys are kept", len(w.rooms))
	}
}
