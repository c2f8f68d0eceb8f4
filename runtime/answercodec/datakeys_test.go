package answercodec

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// service counts the calls of a key management service that takes its time.
type service struct {
	Keys
	takes time.Duration

	mu              sync.Mutex
	wraps, unwraps  int
	err             error
	ignoresDeadline bool
}

func (s *service) work(ctx context.Context, count *int) error {
	s.mu.Lock()
	*count++
	takes, err := s.takes, s.err
	s.mu.Unlock()
	if p := panicking(""); errors.As(err, &p) {
		panic(string(p))
	}
	if s.ignoresDeadline {
		time.Sleep(takes)
		return err
	}
	select {
	case <-time.After(takes):
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *service) Wrap(ctx context.Context, dataKey []byte) (string, []byte, error) {
	if err := s.work(ctx, &s.wraps); err != nil {
		return "", nil, err
	}
	return s.Keys.Wrap(ctx, dataKey)
}

func (s *service) Unwrap(ctx context.Context, keyID string, wrapped []byte) ([]byte, error) {
	if err := s.work(ctx, &s.unwraps); err != nil {
		return nil, err
	}
	return s.Keys.Unwrap(ctx, keyID, wrapped)
}

// panicking is an error that the service panics with.
type panicking string

func (p panicking) Error() string { return string(p) }

// set changes what the service does.
func (s *service) set(takes time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takes, s.err = takes, err
}

func (s *service) calls() (wraps, unwraps int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wraps, s.unwraps
}

// codecTest is a codec on a service whose calls take 20 ms, with a clock that
// runs as the test needs it.
type codecTest struct {
	*testing.T
	*service
	codec *Codec
	log   *lines
}

// lines are those of a log.
type lines struct {
	mu   sync.Mutex
	text []string
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, string(p))
	return len(p), nil
}

func (l *lines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.text)
}

func inBubble(t *testing.T, f func(*codecTest)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		keys, err := NewKeyring("1", map[string][]byte{"1": make([]byte, keySize)})
		if err != nil {
			t.Fatal(err)
		}
		s := &service{Keys: keys, takes: 20 * time.Millisecond}
		log := new(lines)
		c, err := New(t.Context(), WithEncryption(s), WithLogger(slog.New(slog.NewTextHandler(log, nil))))
		if err != nil {
			t.Fatal(err)
		}
		f(&codecTest{t, s, c, log})
		synctest.Wait()
	})
}

// encode encodes an answer and says how long that took.
func (t *codecTest) encode() (idempotency.Encoded, time.Duration, error) {
	since := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	e, err := t.codec.Encode(ctx, []byte("binding"), []byte("answer"))
	return e, time.Since(since), err
}

// encodes expects that to succeed within this time.
func (t *codecTest) encodes(within time.Duration) idempotency.Encoded {
	t.Helper()
	e, took, err := t.encode()
	if err != nil || took > within {
		t.Fatalf("Encode: %v after %v, want it within %v", err, took, within)
	}
	return e
}

// decodes expects e to be read within this time.
func (t *codecTest) decodes(e idempotency.Encoded, within time.Duration) {
	t.Helper()
	since := time.Now()
	answer, err := t.codec.Decode(t.Context(), []byte("binding"), e)
	if took := time.Since(since); err != nil || string(answer) != "answer" || took > within {
		t.Fatalf("Decode: %q, %v after %v, want it within %v", answer, err, took, within)
	}
}

// wantCalls expects so many calls since the codec was made.
func (t *codecTest) wantCalls(wraps, unwraps int) {
	t.Helper()
	synctest.Wait()
	if w, u := t.calls(); w != wraps || u != unwraps {
		t.Errorf("%d calls of Wrap and %d of Unwrap, want %d and %d", w, u, wraps, unwraps)
	}
}

// No first request waits for the service while there is traffic: a data key is
// renewed beside the requests when it is old, once for all of them.
func TestRenewal(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *codecTest) {
		first := t.encodes(0)
		for range 100 {
			t.encodes(0)
		}
		t.wantCalls(1, 1) // by New
		time.Sleep(5 * time.Minute)
		for range 10 {
			t.encodes(0) // with the old key
		}
		time.Sleep(time.Second)
		second := t.encodes(0)
		t.wantCalls(2, 1)
		if string(first.Data[:1+60]) == string(second.Data[:1+60]) {
			t.Error("the data key was not renewed")
		}
		t.decodes(first, 20*time.Millisecond)
		t.decodes(second, 20*time.Millisecond)
	})
}

// After so many answers a data key is renewed, whatever its age, and it is never
// used for more than twice as many.
func TestRenewalByCount(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *codecTest) {
		t.codec.keys.current.answers = maxAnswers/2 - 1
		t.encodes(0)
		t.wantCalls(1, 1)
		t.encodes(0)
		time.Sleep(time.Second)
		t.wantCalls(2, 1)
		t.set(20*time.Millisecond, errors.New("denied"))
		t.codec.keys.current.answers = maxAnswers - 1
		t.encodes(0)
		if _, _, err := t.encode(); err == nil {
			t.Error("a data key was used for more answers than it may be")
		}
	})
}

// While the service is away the last data key is used on, for an hour, and the
// service is asked once a second at most. Then answers cannot be stored, until it
// is back.
func TestOutage(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *codecTest) {
		last := t.encodes(0)
		away := errors.New("away")
		t.set(20*time.Millisecond, away)
		for range 59 {
			time.Sleep(time.Minute)
			t.encodes(0)
		}
		wraps, _ := t.calls()
		for range 50 {
			t.encodes(0)
			time.Sleep(100 * time.Millisecond)
		}
		if again, _ := t.calls(); again-wraps > 6 {
			t.Errorf("%d calls in 5 s", again-wraps)
		}
		if log := t.log.all(); len(log) < 50 || len(log) > 70 || !strings.Contains(log[0], "level=WARN") || !strings.Contains(log[0], "error=away") {
			t.Errorf("%d warnings: %q", len(log), log)
		}
		time.Sleep(time.Minute)
		for range 10 {
			if _, _, err := t.encode(); !errors.Is(err, away) {
				t.Errorf("Encode: %v, want %v", err, away)
			}
		}
		if _, err := t.codec.Decode(t.Context(), []byte("binding"), last); !errors.Is(err, away) {
			t.Errorf("Decode: %v, want %v", err, away)
		}
		t.set(20*time.Millisecond, nil)
		time.Sleep(2 * time.Second)
		t.encodes(20 * time.Millisecond)
		t.decodes(last, 20*time.Millisecond)
	})
}

// A service that hangs is waited for no longer than the codec has, and asked
// again.
func TestHangingService(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *codecTest) {
		e := t.encodes(0)
		time.Sleep(2 * time.Hour)
		t.ignoresDeadline = true
		t.set(time.Minute, nil)
		if _, took, err := t.encode(); err == nil || took > 5*time.Second {
			t.Errorf("Encode: %v after %v", err, took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := t.codec.Decode(ctx, []byte("binding"), e); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Decode: %v", err)
		}
		t.set(20*time.Millisecond, nil)
		time.Sleep(10 * time.Second)
		t.encodes(20 * time.Millisecond)
		t.decodes(e, 20*time.Millisecond)
		time.Sleep(time.Minute) // the calls that hang end
	})
}

// A service that panics is one that fails: its calls run beside the requests,
// where a panic would end the process. The log has the stack.
func TestPanickingService(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *codecTest) {
		e := t.encodes(0)
		t.set(0, panicking("out of order"))
		time.Sleep(6 * time.Minute)
		t.encodes(0) // with the last data key
		synctest.Wait()
		if log := t.log.all(); len(log) != 1 || !strings.Contains(log[0], `level=ERROR msg="a call of Keys has panicked" panic="out of order" stack=`) || !strings.Contains(log[0], "datakeys_test.go") {
			t.Errorf("%q", log)
		}
		time.Sleep(time.Hour)
		const want = "the call of Keys has panicked: out of order"
		if _, _, err := t.encode(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Encode: %v", err)
		}
		if _, err := t.codec.Decode(t.Context(), []byte("binding"), e); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Decode: %v", err)
		}
		t.set(0, nil)
		time.Sleep(2 * time.Second)
		t.encodes(0)
		t.decodes(e, 0)
	})
}

// Replays of answers under one data key ask the service once in 5 minutes, even
// if they come at once. One that gives up does not take the others with it.
func TestUnwrapping(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *codecTest) {
		e := t.encodes(0)
		time.Sleep(6 * time.Minute)
		gone, leave := context.WithCancel(t.Context())
		go func() { time.Sleep(time.Millisecond); leave() }()
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := t.codec.Decode(gone, []byte("binding"), e); !errors.Is(err, context.Canceled) {
				t.Errorf("Decode of a caller who has left: %v", err)
			}
		})
		synctest.Wait() // its call is the one that all share
		for range 50 {
			all.Go(func() { t.decodes(e, 20*time.Millisecond) })
		}
		all.Wait()
		t.wantCalls(1, 2)
		time.Sleep(4 * time.Minute)
		t.decodes(e, 0)
		time.Sleep(2 * time.Minute)
		t.decodes(e, 20*time.Millisecond)
		t.wantCalls(1, 3)
	})
}

// Data keys that are kept for reading are bounded, whatever is in the table.
func TestUnwrappedAreBounded(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *codecTest) {
		e := t.encodes(0)
		for i := range 3 * maxUnwrapped {
			forged := e
			forged.Data = append(appendFramed(nil, fmt.Append(nil, "wrapped ", i)), make([]byte, 60)...)
			if _, err := t.codec.Decode(t.Context(), []byte("binding"), forged); err == nil {
				t.Fatal("a forged answer was read")
			}
			if n := len(t.codec.keys.unwrapped); n > maxUnwrapped {
				t.Fatalf("%d data keys are kept", n)
			}
		}
		t.decodes(e, 20*time.Millisecond)
	})
}
