package heartbeat_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/internal/heartbeat"
)

// claim is held for a lease of 12 s, so that a third of it, and a quarter of
// that, are whole seconds.
type claim struct {
	ceiling time.Duration
	extend  func(ctx context.Context, n int) (held bool, err error) // counted from 1; nil always holds

	start time.Time
	mu    sync.Mutex
	at    []int // after how many seconds it was extended
}

func inSeconds(n int) time.Duration { return time.Duration(n) * time.Second }

var errNoAnswer = errors.New("no answer")

func (c *claim) begin(ctx context.Context) (context.Context, *heartbeat.Heartbeat) {
	c.start = time.Now()
	return heartbeat.Start(ctx, heartbeat.Claim{
		Since: c.start, Lease: 12 * time.Second, Ceiling: c.ceiling,
		Extend: func(ctx context.Context) (bool, error) {
			c.mu.Lock()
			c.at = append(c.at, int(time.Since(c.start).Seconds()))
			n := len(c.at)
			c.mu.Unlock()
			if c.extend == nil {
				return true, nil
			}
			return c.extend(ctx, n)
		},
	})
}

// wantExtended checks after how many seconds the claim was extended.
func (c *claim) wantExtended(t *testing.T, seconds ...int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Equal(c.at, seconds) {
		t.Errorf("extended after %d s, want %d", c.at, seconds)
	}
}

// wantEnd waits for the end of work, and checks after how many seconds it came.
func (c *claim) wantEnd(t *testing.T, work context.Context, seconds int, cause error) {
	t.Helper()
	<-work.Done()
	if after, got := time.Since(c.start), context.Cause(work); after != inSeconds(seconds) || got != cause { //nolint:errorlint // it is this very value
		t.Errorf("cancelled after %v: %v, want after %d s: %v", after, got, seconds, cause)
	}
	if errors.Is(cause, heartbeat.ErrLost) && !errors.Is(cause, idempotency.ErrLeaseLost) {
		t.Errorf("%v is no lost lease", cause)
	}
}

// A third of a lease after the last one comes an extension, also when the
// caller has gone and work goes on, until the heartbeat is stopped.
func TestExtendsUntilStopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		c := claim{ceiling: time.Hour}
		work, h := c.begin(ctx)
		time.Sleep(9 * time.Second)
		if work.Err() != nil {
			t.Errorf("work was cancelled: %v", context.Cause(work))
		}
		leave()
		c.wantEnd(t, work, 9, context.Canceled)
		time.Sleep(8 * time.Second)
		if err := h.Err(); err != nil {
			t.Errorf("Err: %v", err)
		}
		h.Stop()
		h.Stop()
		time.Sleep(time.Minute)
		c.wantExtended(t, 4, 8, 12, 16)
	})
}

// An extension that fails is tried again sooner, and one that succeeds then
// begins a whole lease.
func TestFailedExtensionIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := claim{ceiling: time.Hour, extend: func(_ context.Context, n int) (bool, error) {
			if n == 1 || n == 2 {
				return false, errNoAnswer
			}
			return true, nil
		}}
		work, h := c.begin(t.Context())
		defer h.Stop()
		time.Sleep(15 * time.Second)
		c.wantExtended(t, 4, 5, 6, 10, 14)
		if work.Err() != nil {
			t.Errorf("work was cancelled: %v", context.Cause(work))
		}
	})
}

// When a lease has passed without an extension, work is told at once, and
// whether it may complete is the server's to say. An extension without an
// answer does not delay that.
func TestLeasePasses(t *testing.T) {
	t.Parallel()
	for name, extend := range map[string]func(ctx context.Context) error{
		"refused": func(context.Context) error { return errNoAnswer },
		"stalled": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := claim{ceiling: time.Hour, extend: func(ctx context.Context, n int) (bool, error) {
					if n == 1 {
						return true, nil
					}
					return false, extend(ctx)
				}}
				work, h := c.begin(t.Context())
				defer h.Stop()
				c.wantEnd(t, work, 16, heartbeat.ErrLost)
				if err := h.Err(); err != nil {
					t.Errorf("Err: %v", err)
				}
			})
		})
	}
}

// A claim that is another attempt's is not extended any more.
func TestClaimIsGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := claim{ceiling: time.Hour, extend: func(_ context.Context, n int) (bool, error) { return n == 1, nil }}
		work, h := c.begin(t.Context())
		defer h.Stop()
		c.wantEnd(t, work, 8, heartbeat.ErrLost)
		time.Sleep(time.Minute)
		c.wantExtended(t, 4, 8)
	})
}

// At the ceiling work is cancelled and its answer may not be stored, be the
// ceiling longer than the lease or shorter than the first extension, and the
// claim lost before or not.
func TestCeiling(t *testing.T) {
	t.Parallel()
	held := func(context.Context, int) (bool, error) { return true, nil }
	lost := func(context.Context, int) (bool, error) { return false, nil }
	for name, tc := range map[string]struct {
		ceiling  int
		extend   func(context.Context, int) (bool, error)
		end      int
		cause    error
		extended []int
	}{
		"long":          {14, held, 14, heartbeat.ErrCeiling, []int{4, 8, 12}},
		"short":         {3, held, 3, heartbeat.ErrCeiling, nil},
		"at a beat":     {8, held, 8, heartbeat.ErrCeiling, []int{4}},
		"of a lost one": {8, lost, 4, heartbeat.ErrLost, []int{4}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := claim{ceiling: inSeconds(tc.ceiling), extend: tc.extend}
				work, h := c.begin(t.Context())
				defer h.Stop()
				time.Sleep(c.ceiling - time.Nanosecond)
				if err := h.Err(); err != nil {
					t.Errorf("Err before the ceiling: %v", err)
				}
				if tc.end == tc.ceiling {
					c.wantEnd(t, work, tc.end, tc.cause)
				} else if cause := context.Cause(work); cause != tc.cause { //nolint:errorlint // it is this very value
					t.Errorf("cause %v, want %v", cause, tc.cause)
				}
				time.Sleep(time.Minute)
				if err := h.Err(); !errors.Is(err, heartbeat.ErrCeiling) || !errors.Is(err, idempotency.ErrLeaseLost) {
					t.Errorf("Err: %v, want %v", err, heartbeat.ErrCeiling)
				}
				c.wantExtended(t, tc.extended...)
			})
		})
	}
}

// Stop cancels an extension that is under way, and takes what it answers for
// nothing.
func TestStopDuringExtension(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := claim{ceiling: time.Hour, extend: func(ctx context.Context, _ int) (bool, error) {
			<-ctx.Done()
			return true, nil
		}}
		work, h := c.begin(t.Context())
		time.Sleep(5 * time.Second)
		h.Stop()
		c.wantEnd(t, work, 5, context.Canceled)
		time.Sleep(time.Minute)
		c.wantExtended(t, 4)
	})
}
