package drive

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// Target is a server that is generated from testdata/golden/std-http/openapi.yaml.
type Target struct {
	// Serve starts the server of bank on a loopback address, which it returns
	// as a URL, and stops it with the test. Around the server, a middleware
	// puts the header X-User under [UserKey] and answers panics with 500.
	Serve func(t *testing.T, bank *Bank, opts ...idempotency.Option) string
	// Cancels says that the framework ends the context of a caller that has gone.
	Cancels bool
}

// UserKey is where handlers find the caller. Frameworks have values under names.
var UserKey any = "user"

// ByUser is the scope of that caller.
func ByUser(ctx context.Context, _ http.Header) (string, error) {
	user, _ := ctx.Value(UserKey).(string)
	return user, nil
}

// Bank is what handlers do, whatever server they are for.
type Bank struct {
	runs    atomic.Int32
	started chan struct{} // a handler runs whose caller will go
	gone    chan struct{} // that caller has gone
}

// Ran counts a run of a handler that always does the same.
func (b *Bank) Ran() { b.runs.Add(1) }

// Who is paid decides what becomes of the first run.
const (
	toNobody   = "nobody"   // it panics
	toHeeded   = "heeded"   // it ends with its context
	toUnheeded = "unheeded" // it answers although its caller has gone
)

// Pay is the handler of createPayment. It returns the answer's location.
func (b *Bank) Pay(ctx context.Context, to string, amount int64) (location string, err error) {
	first := b.runs.Add(1) == 1
	switch {
	case amount < 0:
		return "", errors.New("a negative amount")
	case ctx.Value("nothing") != nil:
		return "", errors.New("a value that nobody has set")
	case first && to == toNobody:
		panic(http.ErrAbortHandler)
	case first && (to == toHeeded || to == toUnheeded):
		close(b.started)
		select {
		case <-ctx.Done():
		case <-b.gone:
		case <-time.After(patience):
			return "", errors.New("the context of a caller that has gone does not end")
		}
		if to == toHeeded {
			return "", ctx.Err()
		}
	}
	return fmt.Sprint("/", ctx.Value(UserKey), "/payments/1"), nil
}

// patience is how long what must happen is awaited before the test fails.
const patience = 10 * time.Second

// Behaviour drives all that a target promises a client.
func Behaviour(t *testing.T, target Target) {
	t.Helper()
	for name, f := range map[string]func(*testing.T, Target){
		"keys": keys, "long key": longKey, "failures": failures, "long body": longBody, "panic": panics, "callers": callers, "gone": gone, "views": views,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, target)
		})
	}
}

func alice(r Request) Request {
	r.Header = http.Header{"X-User": {"alice"}}
	return r
}

func payment(body string) Request {
	return alice(Request{Method: "POST", Path: "/accounts/a/payments?dry_run=true", ContentType: "application/json", Body: body})
}

const paid = `{"to":"b","amount":1}`

// Keys are required, checked and replayed for every shape of answer.
func keys(t *testing.T, target Target) {
	cancel := func(id string) Request { return alice(Request{Method: "DELETE", Path: "/payments/" + id}) }
	document := func(body string) Request {
		return alice(Request{Method: "PUT", Path: "/documents/d", ContentType: "application/octet-stream", Body: body})
	}
	for name, op := range map[string]Operation{
		"json": {
			Request: payment(`{"to":"<é> & \u2028","amount":1}`),
			Same:    []Request{payment(`{ "amount": 1, "to": "\u003cé> & ` + "\u2028" + `" }`)},
			Other:   []Request{payment(`{"to":"<é> & \u2028","amount":2}`)},
			Status:  201,
		},
		"no body": {
			Request: cancel("00000000-0000-0000-0000-000000000001"),
			Other:   []Request{cancel("00000000-0000-0000-0000-000000000002")},
			Status:  204,
		},
		"bytes": {
			Request: document("\x00\xff"),
			Other:   []Request{document("\x00\xfe")},
			Status:  200, Body: "d\x00\xff",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bank := new(Bank)
			op.Runs = func() int { return int(bank.runs.Load()) }
			Run(t, target.Serve(t, bank), op)
		})
	}
}

// The longest key is as good as any.
func longKey(t *testing.T, target Target) {
	url, key := target.Serve(t, new(Bank)), strings.Repeat("k", 255)
	for _, replayed := range []string{"", "true"} {
		done(t, Send(t, url, payment(paid), keyHeader, key), replayed)
	}
}

// Errors of the decoder and of the handler are answered once and leave the key
// free.
func failures(t *testing.T, target Target) {
	url := target.Serve(t, new(Bank))
	for _, wrong := range []struct {
		body   string
		status int
	}{{`{"to":`, 400}, {`{"to":1}`, 400}, {paid + "{}", 400}, {`{"to":"b","amount":-1}`, 500}} {
		got := Send(t, url, payment(wrong.body), keyHeader, "k")
		if got.Status != wrong.status || strings.Count(got.Body, "\n") > 1 {
			t.Errorf("%s: %d %q, want one answer of %d", wrong.body, got.Status, got.Body, wrong.status)
		}
	}
	done(t, Send(t, url, payment(paid), keyHeader, "k"), "")
}

// A body over the limit is refused and leaves the key free.
func longBody(t *testing.T, target Target) {
	bank := new(Bank)
	url := target.Serve(t, bank, idempotency.WithRequestLimit(int64(len(paid))))
	Refused(t, "long body", Send(t, url, payment(paid+" "), keyHeader, "k"), http.StatusRequestEntityTooLarge, "body_too_large")
	done(t, Send(t, url, payment(paid), keyHeader, "k"), "")
	if runs := bank.runs.Load(); runs != 1 {
		t.Errorf("%d runs, want 1", runs)
	}
}

// After a panic the key is free.
func panics(t *testing.T, target Target) {
	url, nobody := target.Serve(t, new(Bank)), payment(`{"to":"`+toNobody+`","amount":1}`)
	if got := Send(t, url, nobody, keyHeader, "k"); got.Status != http.StatusInternalServerError {
		t.Errorf("%d %s, want 500", got.Status, got.Body)
	}
	done(t, Send(t, url, nobody, keyHeader, "k"), "")
}

// What a middleware says of the caller is seen by the scope and by handlers.
func callers(t *testing.T, target Target) {
	bank := new(Bank)
	url, r := target.Serve(t, bank), payment(paid)
	for _, user := range []string{"alice", "bob", "alice"} {
		r.Header = http.Header{"X-User": {user}}
		got := Send(t, url, r, keyHeader, "k")
		if want := "/" + user + "/payments/1"; got.Status != 201 || got.Header.Get("Location") != want {
			t.Errorf("%s: %d %s at %q, want %q", user, got.Status, got.Body, got.Header.Get("Location"), want)
		}
	}
	r.Header = nil
	Refused(t, "nobody", Send(t, url, r, keyHeader, "k"), http.StatusUnauthorized, "scope_missing")
	if runs := bank.runs.Load(); runs != 2 {
		t.Errorf("%d runs, want 2", runs)
	}
}

// When the caller goes, the handler's context ends. A handler that gives up
// leaves the key free; the answer of one that does not is there for the retry.
func gone(t *testing.T, target Target) {
	for to, want := range map[string]struct {
		outcome  idempotency.Outcome
		replayed string
	}{
		toHeeded:   {idempotency.OutcomeReleased, ""},
		toUnheeded: {idempotency.OutcomeExecuted, "true"},
	} {
		if to == toHeeded && !target.Cancels {
			continue
		}
		t.Run(to, func(t *testing.T) {
			t.Parallel()
			bank := &Bank{started: make(chan struct{}), gone: make(chan struct{})}
			outcomes := make(chan idempotency.Outcome, 2)
			url := target.Serve(t, bank, idempotency.WithObserver(func(_ context.Context, e idempotency.Event) { outcomes <- e.Outcome }))
			r := payment(`{"to":"` + to + `","amount":1}`)
			conn := write(t, url, r, keyHeader, "k")
			await(t, bank.started)
			conn.Close()
			if !target.Cancels {
				close(bank.gone)
			}
			if got := await(t, outcomes); got != want.outcome {
				t.Errorf("the outcome is %s, want %s", got, want.outcome)
			}
			done(t, Send(t, url, r, keyHeader, "k"), want.replayed)
		})
	}
}

func await[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatal("nothing has happened")
		panic("unreachable")
	}
}

// done checks that a payment was made, and whether by an earlier request.
func done(t *testing.T, got Answer, replayed string) {
	t.Helper()
	if header := got.Header.Get(replayHeader); got.Status != http.StatusCreated || header != replayed {
		t.Errorf("%d %s, %s: %q, want 201 and %q", got.Status, got.Body, replayHeader, header, replayed)
	}
}

// views sends requests that servers decode in ways of their own, each under a key
// of its own and after each other one under that one's. Two that a handler
// answers differently are never taken for one.
//
// Covers FPR-01.
func views(t *testing.T, target Target) {
	requests := []Request{payment(paid)}
	for _, account := range []string{"%61", "A", "a%2Fb", "a%252Fb", "a+b", "a%20b", "a%2Bb", "a;b", "%2E", "%25", "%2525"} {
		r := payment(paid)
		r.Path = "/accounts/" + account + "/payments?dry_run=true"
		requests = append(requests, r)
	}
	for _, contentType := range []string{"application/json", "application/xml", "application/json+xml", "application/x-www-form-urlencoded", "text/plain"} {
		for _, body := range []string{
			`{"TO":"b","amount":1}`, `{"to":"c","to":"b","amount":1}`, `{"to":"b","to":"c","amount":1}`, `{"ſo":"c","to":"b","amount":1e0}`,
			`{"to":"<X><To>","amount":1,"x":"</To><Amount>5</Amount></X>"}`, `{"to":"<X><To>","amount": 1,"x":"</To><Amount>5</Amount></X>"}`,
			`{"x":"&to=","amount":1,"to":"&amount=5&"}`, `{"x":"&to=","amount": 1,"to":"&amount=5&"}`,
		} {
			r := payment(body)
			r.ContentType = contentType
			requests = append(requests, r)
		}
	}
	url := target.Serve(t, new(Bank))
	type view struct {
		Request
		answer string
	}
	var seen []view
	for i, r := range requests {
		if got := Send(t, url, r, keyHeader, fmt.Sprint("alone-", i)); got.Status == http.StatusCreated {
			seen = append(seen, view{r, got.Body})
		}
	}
	if len(seen) < 10 {
		t.Fatalf("%d requests are answered", len(seen))
	}
	same := make([]bool, len(seen)) // as an earlier one
	for i, first := range seen {
		if same[i] {
			continue
		}
		key := fmt.Sprint("with-", i)
		Send(t, url, first.Request, keyHeader, key)
		for j, second := range seen[i+1:] {
			if same[i+1+j] {
				continue
			}
			got := Send(t, url, second.Request, keyHeader, key)
			same[i+1+j] = got.Header.Get(replayHeader) != ""
			if same[i+1+j] && first.answer != second.answer {
				t.Errorf("%s %s %s and %s %s %s are one request", first.Path, first.ContentType, first.Body, second.Path, second.ContentType, second.Body)
			}
		}
	}
}
