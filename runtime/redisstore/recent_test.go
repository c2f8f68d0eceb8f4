package redisstore

import (
	"encoding/binary"
	"testing"
)

// An id that was given lately is known, and what is remembered has a bound.
func TestRecent(t *testing.T) {
	t.Parallel()
	id := func(n int) (id [16]byte) {
		binary.BigEndian.PutUint64(id[:], uint64(n))
		return id
	}
	var r recent
	for n := range 4 * generation {
		if !r.add(id(n)) {
			t.Fatalf("%d is known before it was given", n)
		}
		for _, ago := range []int{0, 1, 1000, generation - 1} {
			if n >= ago && r.add(id(n-ago)) {
				t.Fatalf("after %d: %d is not known", n, n-ago)
			}
		}
		if held := len(r.young) + len(r.old); held > 2*generation {
			t.Fatalf("%d ids are held", held)
		}
	}
}
