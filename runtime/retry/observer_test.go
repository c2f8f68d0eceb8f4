package retry_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/retry"
)

// Observers are told of each attempt in turn, with what became of it.
//
// Covers CLI-15: the number of the attempt is known.
func TestObserver(t *testing.T) {
	t.Parallel()
	type contextKey struct{}
	ctx := context.WithValue(t.Context(), contextKey{}, "ours")
	c := newClock()
	took := func(s step, d time.Duration) step {
		return func(req *http.Request) (*http.Response, error) { c.now = c.now.Add(d); return s(req) }
	}
	var first, second []retry.Attempt
	observe := func(to *[]retry.Attempt) retry.Option {
		return retry.WithObserver(func(ctx context.Context, a retry.Attempt) {
			if ctx.Value(contextKey{}) != "ours" {
				t.Error("the context is another one")
			}
			*to = append(*to, a)
		})
	}
	s := serve(took(broken, 3*time.Second), took(refuse(409, idempotency.CodeInFlight, "Retry-After: 1"), time.Second), replayed(reply(201)))
	if _, err := send(ctx, c, s, observe(&first), observe(&second)); err != nil {
		t.Fatal(err)
	}
	want := []retry.Attempt{
		{Operation: "charge", Key: key, Number: 1, Duration: 3 * time.Second, Pause: time.Millisecond},
		{Operation: "charge", Key: key, Number: 2, Status: 409, Code: idempotency.CodeInFlight, Duration: time.Second, Pause: time.Second + 2*time.Millisecond},
		{Operation: "charge", Key: key, Number: 3, Status: 201, Replayed: true, Final: true},
	}
	texts := []string{"the line is broken", "the server answered 409 Conflict, in_flight: because", ""}
	for i, got := range first {
		text := ""
		if got.Err != nil {
			text = got.Err.Error()
		}
		if text != texts[i] || got != second[i] {
			t.Errorf("%d: error %q, want %q; the second observer got %+v", i, text, texts[i], second[i])
		}
		if got.Err = nil; got != want[i] {
			t.Errorf("%d: %+v\nwant %+v", i, got, want[i])
		}
	}
	if len(first) != 3 {
		t.Errorf("%d attempts were observed", len(first))
	}

	first = nil
	_, _ = send(ctx, c, serve(broken), retry.WithAttempts(2), observe(&first))
	if len(first) != 2 || first[0].Final || !first[1].Final || first[1].Err == nil || first[1].Pause != 0 {
		t.Errorf("a call that fails: %+v", first)
	}
	first = nil
	_, _ = send(ctx, c, serve(broken), retry.WithMaxRetryAfter(0), retry.WithAttempts(0), observe(&first))
	if len(first) != 1 || !first[0].Final {
		t.Errorf("one attempt: %+v", first)
	}
}

// A log has a line for each attempt, and the key in none.
func TestLogTo(t *testing.T) {
	t.Parallel()
	log := func(level slog.Level, steps ...step) string {
		var b bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
		_, _ = send(t.Context(), newClock(), serve(steps...), retry.WithAttempts(2), retry.WithObserver(retry.LogTo(logger)))
		return b.String()
	}
	const warned = `level=WARN msg="idempotent call" operation=charge attempt=1 sent=0 status=503 replayed=false duration=0s code=unavailable pause=1.001s error="the server answered 503 Service Unavailable, unavailable: because"` + "\n"
	unavailable := refuse(503, idempotency.CodeUnavailable, "Retry-After: 1")
	for _, c := range []struct{ got, want string }{
		{log(slog.LevelDebug, unavailable, replayed(reply(201))), warned + `level=DEBUG msg="idempotent call" operation=charge attempt=2 sent=0 status=201 replayed=true duration=0s` + "\n"},
		{log(slog.LevelInfo, unavailable, broken), warned + `level=ERROR msg="idempotent call" operation=charge attempt=2 sent=0 status=0 replayed=false duration=0s error="the line is broken"` + "\n"},
		{log(slog.LevelError, unavailable, reply(201)), ""},
	} {
		if c.got != c.want || strings.Contains(c.got, key) {
			t.Errorf("got\n%s\nwant\n%s", c.got, c.want)
		}
	}
}

// The mark of a replay is read as servers write it.
func TestReplayed(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{"true": true, "": false, "false": false, "1": false} {
		if retry.Replayed(&http.Response{Header: http.Header{"Idempotent-Replayed": {value}}}) != want {
			t.Errorf("%q is not %t", value, want)
		}
	}
	if retry.Replayed(nil) || retry.Replayed(new(http.Response)) {
		t.Error("no answer is a replay")
	}
}

// Values for a generated constructor come in their order, and only its own.
func TestFramework(t *testing.T) {
	t.Parallel()
	s := retry.New(retry.WithFramework(1), retry.WithFramework("a"), retry.WithFramework(2))
	if got := retry.Framework[int](s); len(got) != 2 || got[0] != 1 || got[1] != 2 {
		t.Errorf("%v", got)
	}
}
