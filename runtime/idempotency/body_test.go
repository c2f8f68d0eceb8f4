package idempotency

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// A body is read whole whatever length was announced, and no further than just
// over the limit.
// Covers SEC-09.
func TestReadAll(t *testing.T) {
	t.Parallel()
	const limit = 100_000
	for _, size := range []int{0, 1, 511, 512, 513, maxTrusted, maxTrusted + 1, limit, limit + 1, 3 * limit} {
		want := strings.Repeat("x", size)
		for _, length := range []int64{-1, 0, 1, int64(size), limit} {
			got, err := readAll(iotest.HalfReader(strings.NewReader(want)), limit, length)
			switch {
			case err != nil:
				t.Errorf("%d bytes announced as %d: %v", size, length, err)
			case size <= limit && string(got) != want:
				t.Errorf("%d bytes announced as %d: got %d", size, length, len(got))
			case size > limit && len(got) <= limit:
				t.Errorf("%d bytes announced as %d: got %d, which is within the limit", size, length, len(got))
			case cap(got) > 3*limit:
				t.Errorf("%d bytes announced as %d: %d bytes of memory", size, length, cap(got))
			}
		}
	}
}

// Memory is not taken on the word of a caller who sends nothing.
// Covers SEC-09.
func TestReadAllTrustsNoLength(t *testing.T) {
	t.Parallel()
	gone := errors.New("gone")
	b, err := readAll(iotest.ErrReader(gone), 1<<30, 1<<30)
	if !errors.Is(err, gone) || cap(b) > 1<<20 {
		t.Errorf("%d bytes of memory, error %v", cap(b), err)
	}
	if _, err := readAll(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("xx"))), 10, 2); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("a body that was cut: %v", err)
	}
}
