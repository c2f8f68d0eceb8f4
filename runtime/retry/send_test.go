package retry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/retry"
)

// Every status is an answer, or is asked again, or is an error at once.
//
// Covers CLI-06.
func TestStatuses(t *testing.T) {
	t.Parallel()
	type decision struct {
		attempts         int
		isError, unknown bool
	}
	other := map[int]decision{
		301: {1, true, true},
		302: {1, true, true},
		307: {1, true, false},
		308: {1, true, false},
		408: {4, true, true},
		425: {4, true, false},
		429: {4, true, false},
		500: {4, true, true},
		502: {4, true, true},
		503: {4, true, true},
		504: {4, true, true},
	}
	for status := 200; status < 600; status++ {
		want, ok := other[status]
		if !ok {
			want = decision{attempts: 1}
		}
		s := serve(reply(status, "", "text"))
		got, err := send(t.Context(), newClock(), s)
		switch {
		case len(s.requests) != want.attempts:
			t.Errorf("%d: %d attempts, want %d", status, len(s.requests), want.attempts)
		case !want.isError:
			if err != nil || got.Status != status || got.Body != "text" {
				t.Errorf("%d: %+v, %v", status, got, err)
			}
		default:
			e := failed(t, err)
			body, readErr := io.ReadAll(e.Response.Body)
			if e.OutcomeUnknown != want.unknown || e.Attempts != want.attempts || e.Response.StatusCode != status || string(body) != "text" || readErr != nil {
				t.Errorf("%d: %+v, body %q, %v", status, e, body, readErr)
			}
		}
	}
}

// What a client learns of the outcome. It is known, and no effect, only where
// no attempt can have had one.
//
// Covers CLI-05, CLI-06.
func TestOutcomeUnknown(t *testing.T) {
	t.Parallel()
	ok := reply(200)
	for name, c := range map[string]struct {
		steps    []step
		attempts int
		unknown  bool
		problem  idempotency.Code
		is       error
	}{
		"transport error":          {[]step{broken}, 4, true, "", errBroken},
		"answer cut":               {[]step{cut(201, "", "half")}, 4, true, "", io.ErrUnexpectedEOF},
		"refusal cut":              {[]step{cut(422, "", "half")}, 4, true, "", io.ErrUnexpectedEOF},
		"key missing":              {[]step{refuse(400, idempotency.CodeKeyMissing), ok}, 1, false, idempotency.CodeKeyMissing, nil},
		"key invalid":              {[]step{refuse(400, idempotency.CodeKeyInvalid), ok}, 1, false, idempotency.CodeKeyInvalid, idempotency.ErrKeyInvalid},
		"body invalid":             {[]step{refuse(400, idempotency.CodeBodyInvalid), ok}, 1, false, idempotency.CodeBodyInvalid, nil},
		"scope missing":            {[]step{refuse(401, idempotency.CodeScopeMissing), ok}, 1, false, idempotency.CodeScopeMissing, nil},
		"key expired":              {[]step{refuse(412, idempotency.CodeKeyExpired), ok}, 1, true, idempotency.CodeKeyExpired, idempotency.ErrExpired},
		"body too large":           {[]step{refuse(413, idempotency.CodeBodyTooLarge), ok}, 1, false, idempotency.CodeBodyTooLarge, nil},
		"mismatch":                 {[]step{refuse(422, idempotency.CodeMismatch), ok}, 1, false, idempotency.CodeMismatch, idempotency.ErrMismatch},
		"internal":                 {[]step{refuse(500, idempotency.CodeInternal), ok}, 1, false, idempotency.CodeInternal, nil},
		"answer too large":         {[]step{refuse(500, idempotency.CodeResponseTooLarge), ok}, 1, false, idempotency.CodeResponseTooLarge, nil},
		"unavailable":              {[]step{refuse(503, idempotency.CodeUnavailable)}, 4, false, idempotency.CodeUnavailable, idempotency.ErrUnavailable},
		"outcome unknown":          {[]step{refuse(503, idempotency.CodeOutcomeUnknown)}, 4, true, idempotency.CodeOutcomeUnknown, idempotency.ErrOutcomeUnknown},
		"broken, then unavailable": {[]step{broken, refuse(503, idempotency.CodeUnavailable)}, 4, true, idempotency.CodeUnavailable, idempotency.ErrOutcomeUnknown},
		"broken, then mismatch":    {[]step{broken, refuse(422, idempotency.CodeMismatch), ok}, 2, true, idempotency.CodeMismatch, idempotency.ErrOutcomeUnknown},
		"broken, then throttled":   {[]step{broken, reply(429)}, 4, true, "", idempotency.ErrOutcomeUnknown},
		"unavailable, throttled":   {[]step{refuse(503, idempotency.CodeUnavailable), reply(429)}, 4, false, "", nil},
		"code of a later version":  {[]step{refuse(400, "later"), ok}, 1, true, "later", nil},
		"broken, then no caller":   {[]step{broken, reply(401), ok}, 2, true, "", idempotency.ErrOutcomeUnknown},
		"broken, then released":    {[]step{broken, reply(501), ok}, 2, true, "", idempotency.ErrOutcomeUnknown},
		"protocol switched":        {[]step{reply(101), ok}, 1, true, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(c.steps...)
			_, err := send(t.Context(), newClock(), s)
			e := failed(t, err)
			if len(s.requests) != c.attempts || e.Attempts != c.attempts {
				t.Errorf("%d requests, %d attempts, want %d", len(s.requests), e.Attempts, c.attempts)
			}
			if e.OutcomeUnknown != c.unknown || errors.Is(err, idempotency.ErrOutcomeUnknown) != c.unknown {
				t.Errorf("outcome unknown is %t, want %t: %v", e.OutcomeUnknown, c.unknown, err)
			}
			if (e.Problem == nil) != (c.problem == "") || e.Problem != nil && (e.Problem.Code != c.problem || e.Problem.Detail != "because") {
				t.Errorf("problem %+v, want code %q", e.Problem, c.problem)
			}
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%v does not match %v", err, c.is)
			}
			if e.Operation != "charge" || e.Key != key {
				t.Errorf("operation %q, key %q", e.Operation, e.Key)
			}
		})
	}
}

// Whatever happens between, every attempt carries the same key and the same
// bytes.
//
// Covers CLI-01.
func TestAttemptsAreAlike(t *testing.T) {
	t.Parallel()
	s := serve(broken, cut(201, "", "half"), refuse(409, idempotency.CodeInFlight, "Retry-After: 1"), reply(503), reply(201, "", "done"))
	c := newClock()
	got, err := send(t.Context(), c, s)
	if err != nil || got.Body != "done" {
		t.Fatalf("%+v, %v", got, err)
	}
	want := slices.Repeat([]seen{{key, "body", 4}}, 5)
	if !slices.Equal(s.requests, want) {
		t.Errorf("%+v, want %+v", s.requests, want)
	}
	if pauses := []time.Duration{1e6, 2e6, 3e6 + 1e9, 4e6}; !slices.Equal(c.pauses, pauses) {
		t.Errorf("pauses %v, want %v", c.pauses, pauses)
	}
}

// A request that is in flight is asked for until its answer is there, without
// a limit of attempts, and with one of time.
//
// Covers CLI-05.
func TestInFlight(t *testing.T) {
	t.Parallel()
	ours := refuse(409, idempotency.CodeInFlight, "Retry-After: 1")
	other := reply(409, "Retry-After: 1")
	for name, s := range map[string]step{"of idemgen": ours, "of another server": other} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			doer := serve(append(slices.Repeat([]step{s}, 12), replayed(reply(201)))...)
			got, err := send(t.Context(), newClock(), doer)
			if err != nil || got.Status != 201 || !retry.Replayed(got.HTTP) || len(doer.requests) != 13 {
				t.Errorf("%+v, %v after %d attempts", got, err, len(doer.requests))
			}
			for wait, attempts := range map[time.Duration]int{
				0:                       1,
				1001 * time.Millisecond: 1, // the first pause
				1002 * time.Millisecond: 2,
				3 * time.Second:         3,
			} {
				doer := serve(s)
				c := newClock()
				_, err := send(t.Context(), c, doer, retry.WithInFlightWait(wait))
				e := failed(t, err)
				if len(doer.requests) != attempts || !e.OutcomeUnknown || e.Key != key || errors.Is(err, idempotency.ErrInFlight) != (name == "of idemgen") {
					t.Errorf("%v: %d attempts, want %d; %v", wait, len(doer.requests), attempts, err)
				}
			}
		})
	}
	t.Run("for 45 s by default", func(t *testing.T) {
		t.Parallel()
		doer := serve(refuse(409, idempotency.CodeInFlight, "Retry-After: 11"))
		if _, err := send(t.Context(), newClock(), doer); len(doer.requests) != 5 || err == nil { // 11.001 s, 22.003 s, 33.006 s, 44.01 s, 55 s
			t.Errorf("%d attempts, %v", len(doer.requests), err)
		}
	})
	t.Run("other pauses do not count", func(t *testing.T) {
		t.Parallel()
		if _, err := send(t.Context(), newClock(), serve(reply(503, "Retry-After: 40"), ours, reply(201))); err != nil {
			t.Error(err)
		}
	})
	t.Run("less than one attempt is one that is asked for", func(t *testing.T) {
		t.Parallel()
		if _, err := send(t.Context(), newClock(), serve(ours, ours, reply(201)), retry.WithAttempts(0)); err != nil {
			t.Error(err)
		}
	})
	t.Run("other failures between count", func(t *testing.T) {
		t.Parallel()
		doer := serve(ours, broken, ours, broken, ours, broken, ours, broken, reply(201))
		if _, err := send(t.Context(), newClock(), doer); len(doer.requests) != 8 || err == nil {
			t.Errorf("%d attempts, %v", len(doer.requests), err)
		}
	})
	t.Run("without pauses it ends as well", func(t *testing.T) {
		t.Parallel()
		doer := serve(reply(409, "Retry-After: 0"))
		_, err := send(t.Context(), newClock(), doer, retry.WithBackoff(func(int) time.Duration { return 0 }))
		if len(doer.requests) != 4 || err == nil {
			t.Errorf("%d attempts, %v", len(doer.requests), err)
		}
	})
	t.Run("a conflict of the business is an answer", func(t *testing.T) {
		t.Parallel()
		for _, s := range []step{
			reply(409, "", "sold out"),
			reply(409, "Content-Type: application/problem+json", "", `{"type":"/sold-out","code":"in_flight"}`),
			replayed(other), // was stored, so nothing is in flight
			replayed(ours),
		} {
			doer := serve(s)
			if got, err := send(t.Context(), newClock(), doer); err != nil || got.Status != 409 || len(doer.requests) != 1 {
				t.Errorf("%+v, %v after %d attempts", got, err, len(doer.requests))
			}
		}
	})
}

// Once an attempt can have had an effect, an answer that may come from something
// before the operation is no proof that it had none. A replay is.
func TestDoubtfulAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		steps  []step
		status int // of the result; 0 for an error
	}{
		"no doubt":                              {[]step{reply(401)}, 401},
		"no doubt after refusals":               {[]step{refuse(503, idempotency.CodeUnavailable), reply(429), reply(404)}, 404},
		"the operation's own":                   {[]step{broken, reply(402), replayed(reply(402))}, 402},
		"a proxy's, while the server restarts":  {[]step{broken, reply(404), replayed(reply(201))}, 201},
		"a proxy's, before the first execution": {[]step{reply(502), reply(404), reply(201)}, 201},
		"a success":                             {[]step{broken, reply(201)}, 201},
		"another place to look":                 {[]step{broken, reply(303)}, 303},
		"a replay":                              {[]step{broken, replayed(reply(501))}, 501},
		"a proxy's, for good":                   {[]step{broken, reply(404), reply(404), reply(404)}, 0},
		"released":                              {[]step{broken, reply(401)}, 0},
	} {
		s := serve(append(c.steps, refuse(400, idempotency.CodeKeyInvalid))...)
		got, err := send(t.Context(), newClock(), s)
		if len(s.requests) != len(c.steps) {
			t.Errorf("%s: %d attempts, want %d", name, len(s.requests), len(c.steps))
		}
		if c.status != 0 {
			if err != nil || got.Status != c.status {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
			continue
		}
		if e := failed(t, err); !e.OutcomeUnknown || e.Response == nil || !strings.Contains(err.Error(), ", which need not be the outcome of an earlier attempt; ") {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// What a later version of the server calls retryable is sent again.
func TestRetryableCodeOfALaterVersion(t *testing.T) {
	t.Parallel()
	later := reply(503, "Content-Type: application/problem+json", "", `{"type":"`+problems+`later","code":"later","retryable":true}`)
	if got, err := send(t.Context(), newClock(), serve(later, reply(201))); err != nil || got.Status != 201 {
		t.Errorf("%+v, %v", got, err)
	}
}

// A replay is the operation's answer, whatever its status is, and is read whole.
func TestReplayIsAnAnswer(t *testing.T) {
	t.Parallel()
	for _, status := range []int{408, 425, 429, 500, 502, 503, 504} {
		body := strings.Repeat("x", 3<<20)
		s := serve(replayed(reply(status, "Retry-After: 1", "", body)))
		got, err := send(t.Context(), newClock(), s)
		if err != nil || got.Status != status || got.Body != body || len(s.requests) != 1 {
			t.Errorf("%d: %v after %d attempts", status, err, len(s.requests))
		}
	}
}

// No more of an error's body is read than is good for a program.
func TestErrorBodyIsLimited(t *testing.T) {
	t.Parallel()
	long := reply(503, "", strings.Repeat("x", 1<<20+1))
	_, err := send(t.Context(), newClock(), serve(long))
	body, readErr := io.ReadAll(failed(t, err).Response.Body)
	if len(body) != 1<<20 || readErr != nil {
		t.Errorf("%d bytes, %v", len(body), readErr)
	}
}

// The numbers of the options hold.
func TestOptions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		opts     []retry.Option
		step     step
		attempts int
		text     string
	}{
		"4 attempts by default":      {nil, reply(503), 4, ""},
		"one attempt":                {[]retry.Option{retry.WithAttempts(1)}, reply(503), 1, ""},
		"less than one is one":       {[]retry.Option{retry.WithAttempts(-3)}, reply(503), 1, ""},
		"seven attempts":             {[]retry.Option{retry.WithAttempts(7)}, reply(503), 7, ""},
		"the last one wins":          {[]retry.Option{retry.WithAttempts(7), retry.WithAttempts(2)}, reply(503), 2, ""},
		"Retry-After of a minute":    {nil, reply(503, "Retry-After: 60"), 4, ""},
		"and of more":                {nil, reply(503, "Retry-After: 61"), 1, "asks to wait 1m1s, which is more than the client waits"},
		"and of very much more":      {nil, reply(503, "Retry-After: 99999999999999999999"), 1, "more than the client waits"},
		"a longer one is allowed":    {[]retry.Option{retry.WithMaxRetryAfter(time.Hour)}, reply(503, "Retry-After: 3600"), 4, ""},
		"none is allowed":            {[]retry.Option{retry.WithMaxRetryAfter(0)}, reply(503, "Retry-After: 1"), 1, "asks to wait 1s"},
		"the longest there is":       {[]retry.Option{retry.WithMaxRetryAfter(1<<63 - 1)}, reply(503, "Retry-After: Fri, 31 Dec 9999 23:59:59 GMT"), 4, ""},
		"a pause below zero is none": {[]retry.Option{retry.WithBackoff(func(int) time.Duration { return -time.Hour })}, reply(503), 4, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, clock := serve(c.step), newClock()
			_, err := send(t.Context(), clock, s, c.opts...)
			if len(s.requests) != c.attempts || failed(t, err).Attempts != c.attempts {
				t.Errorf("%d attempts, want %d", len(s.requests), c.attempts)
			}
			if err != nil && !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v does not say %q", err, c.text)
			}
			if len(clock.pauses) != c.attempts-1 || slices.ContainsFunc(clock.pauses, func(d time.Duration) bool { return d < 0 }) {
				t.Errorf("pauses %v", clock.pauses)
			}
		})
	}
}

// What Retry-After asks for is waited for, and the backoff on top.
func TestRetryAfterIsAFloor(t *testing.T) {
	t.Parallel()
	c := newClock()
	date := func(d time.Duration) string { return c.now.Add(d).Format(http.TimeFormat) }
	for value, want := range map[string]time.Duration{
		"Retry-After: 2":                      2 * time.Second,
		"Retry-After: " + date(7*time.Second): 7 * time.Second,
		"Retry-After: " + date(-time.Hour):    0,
		"Retry-After: soon":                   0,
		"Retry-After: -1":                     0,
	} {
		c := newClock()
		if _, err := send(t.Context(), c, serve(reply(503, value), reply(201))); err != nil {
			t.Error(err)
		}
		if want := want + time.Millisecond; len(c.pauses) != 1 || c.pauses[0] != want {
			t.Errorf("%s: pauses %v, want %v", value, c.pauses, want)
		}
	}
}

// An operation that can do without a key is sent once without one, by a request
// that is meant so: a repeat would be a second request. A key that got lost is
// refused.
func TestWithoutKey(t *testing.T) {
	t.Parallel()
	send := func(k idempotency.Key[noteOp], in idempotency.Sealed[input], s *server) error {
		_, err := retry.Send(t.Context(), retry.New(newClock().option(), backoff), k, in, exchange("http://server/notes", s, nil))
		return err
	}
	var none idempotency.Key[noteOp]
	unprotected := idempotency.SealUnprotected(input{Body: "body"})
	lost := serve(reply(200))
	if e := failed(t, send(none, idempotency.Seal(none, input{Body: "body"}), lost)); e.Attempts != 0 || len(lost.requests) != 0 {
		t.Errorf("a key that got lost: %v", e)
	}
	for name, step := range map[string]step{
		"transport error": broken, "answer cut": cut(200), "transient": reply(503),
		"in flight": refuse(409, idempotency.CodeInFlight), "unavailable": refuse(503, idempotency.CodeUnavailable),
	} {
		s := serve(step, reply(200))
		e := failed(t, send(none, unprotected, s))
		if len(s.requests) != 1 || s.requests[0] != (seen{"", "body", 4}) || e.Key != "" || e.OutcomeUnknown != (name != "unavailable") {
			t.Errorf("%s: %+v, %+v", name, s.requests, e)
		}
		if unsure := "without a key a repeat would execute it again"; strings.Contains(e.Error(), unsure) != e.OutcomeUnknown {
			t.Errorf("%s: %v", name, e)
		}
		s = serve(step, reply(200))
		k := idempotency.MustParseKey[noteOp](key)
		if err := send(k, idempotency.Seal(k, input{Body: "body"}), s); err != nil || len(s.requests) != 2 {
			t.Errorf("%s with a key: %v after %d attempts", name, err, len(s.requests))
		}
	}
}

// What cannot be sent is refused before anything is.
func TestRefusedBeforeSending(t *testing.T) {
	t.Parallel()
	k := idempotency.MustParseKey[chargeOp](key)
	canceled, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("shutting down"))
	ended, end := context.WithCancel(t.Context())
	end()
	sealed := idempotency.Seal(k, input{Body: "body"})
	var s *server
	call := func(ctx context.Context, k idempotency.Key[chargeOp], in idempotency.Sealed[input]) error {
		s = serve(reply(200))
		_, err := retry.Send(ctx, retry.New(), k, in, exchange("http://server/charges", s, nil))
		return err
	}
	parameter := func(value string) idempotency.Sealed[input] {
		return idempotency.Seal(k, input{Header: http.Header{"Idempotency-Key": {value}}})
	}
	for _, tt := range []struct {
		ctx  context.Context
		key  idempotency.Key[chargeOp]
		in   idempotency.Sealed[input]
		want string
	}{
		{t.Context(), idempotency.Key[chargeOp]{}, sealed, "idempotency: key_missing: the request has no idempotency key; give its constructor one"},
		{t.Context(), k, idempotency.Sealed[input]{}, "the request has no input; make it with its constructor"},
		{canceled, k, sealed, "context canceled: shutting down"},
		{ended, k, sealed, "context canceled"},
		{t.Context(), k, parameter("k-2"), "the parameter Idempotency-Key is not the request's key; leave the parameter out"},
		{t.Context(), k, parameter("K-1"), "the parameter Idempotency-Key is not the request's key; leave the parameter out"},
	} {
		err := call(tt.ctx, tt.key, tt.in)
		e := failed(t, err)
		if want := "idempotency: charge: " + tt.want + "; nothing was sent"; err.Error() != want || e.Attempts != 0 || e.OutcomeUnknown || e.Response != nil || len(s.requests) != 0 {
			t.Errorf("got  %v\nwant %s\n%+v", err, want, e)
		}
	}
	var missing *idempotency.Error
	if err := call(t.Context(), idempotency.Key[chargeOp]{}, sealed); !errors.As(err, &missing) || missing.Code != idempotency.CodeKeyMissing {
		t.Errorf("%v has no code key_missing", err)
	}
	if err := call(canceled, k, sealed); !errors.Is(err, context.Canceled) {
		t.Errorf("%v is not %v", err, context.Canceled)
	}
	for _, address := range []string{"localhost:8080/charges", "/charges", ""} {
		_, err := retry.Send(t.Context(), retry.New(), k, sealed, exchange(address, http.DefaultClient, nil))
		if failed(t, err).Attempts != 0 || !strings.Contains(err.Error(), "has no host; write it as https://host; nothing was sent") {
			t.Errorf("%q: %v", address, err)
		}
	}
	if _, err := retry.Send(t.Context(), retry.New(), k, sealed, exchange("", serve(reply(200)), nil)); err != nil {
		t.Errorf("a doer that needs no address: %v", err)
	}
}

// A document that declares the key's field puts it among the parameters: left
// out, or the same, it does no harm, and one field is sent.
func TestDeclaredKey(t *testing.T) {
	t.Parallel()
	const id = "0190a3b5-7e64-7cc3-8c2a-0123456789ab"
	k := idempotency.MustParseKey[orderOp](id)
	for _, given := range [][]string{nil, {""}, {id}, {strings.ToUpper(id)}, {`"` + id + `"`}, {"00000000-0000-0000-0000-000000000000"}} {
		s := serve(reply(200))
		in := idempotency.Seal(k, input{Header: http.Header{"X-Order": given}})
		if _, err := retry.Send(t.Context(), retry.New(), k, in, exchange("http://server/orders", s, nil)); err != nil || s.requests[0].Key != id {
			t.Errorf("%q: %+v, %v", given, s.requests, err)
		}
	}
	in := idempotency.Seal(k, input{Header: http.Header{"X-Order": {"0190a3b5-7e64-7cc3-8c2a-0123456789ac"}}})
	if _, err := retry.Send(t.Context(), retry.New(), k, in, exchange("http://server/orders", serve(reply(200)), nil)); failed(t, err).Attempts != 0 {
		t.Errorf("another key: %v", err)
	}
	// A parameter that nobody has set is no key, and the same goes for a type.
	unset := input{Header: http.Header{"Idempotency-Key": {"00000000-0000-0000-0000-000000000000"}, "Content-Type": {""}}}
	plain := doerFunc(func(req *http.Request) (*http.Response, error) {
		if len(req.Header) != 0 {
			t.Errorf("%q is sent without a key", req.Header)
		}
		return reply(200)(req)
	})
	var none idempotency.Key[noteOp]
	if _, err := retry.Send(t.Context(), retry.New(), none, idempotency.SealUnprotected(unset), exchange("http://server/notes", plain, nil)); err != nil {
		t.Error(err)
	}
	quoted, s := idempotency.MustParseKey[chargeOp](`"a,b"`), serve(reply(200))
	in = idempotency.Seal(quoted, input{Header: http.Header{"Idempotency-Key": {`"a,b"`}}})
	if _, err := retry.Send(t.Context(), retry.New(), quoted, in, exchange("http://server/charges", s, nil)); err != nil || s.requests[0].Key != `"a,b"` {
		t.Errorf("%+v, %v", s.requests, err)
	}
}

// A context that ends during a pause ends the call at once, with the cause,
// and says that the outcome is unknown.
//
// Covers CLI-09.
func TestContextEndsDuringPause(t *testing.T) {
	t.Parallel()
	shutdown := errors.New("shutting down")
	ctx, cancel := context.WithCancelCause(t.Context())
	s := serve(broken, reply(200))
	k := idempotency.MustParseKey[chargeOp](key)
	sender := retry.New(
		retry.WithBackoff(func(int) time.Duration { return time.Hour }),
		retry.WithObserver(func(context.Context, retry.Attempt) { go cancel(shutdown) })) // the pause follows
	_, err := retry.Send(ctx, sender, k, idempotency.Seal(k, input{}), exchange("http://server/charges", s, nil))
	e := failed(t, err)
	for _, want := range []error{context.Canceled, shutdown, errBroken, idempotency.ErrOutcomeUnknown} {
		if !errors.Is(err, want) {
			t.Errorf("%v does not match %v", err, want)
		}
	}
	if len(s.requests) != 1 || e.Attempts != 1 || !e.OutcomeUnknown {
		t.Errorf("%d requests, %+v", len(s.requests), e)
	}
}

// No attempt follows the end of the context, be it in the pause's last moment.
//
// Covers CLI-09.
func TestNoAttemptAfterContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s := serve(reply(503))
	k := idempotency.MustParseKey[chargeOp](key)
	sender := retry.New(retry.WithClock(time.Now, func(context.Context, time.Duration) { cancel() }))
	_, err := retry.Send(ctx, sender, k, idempotency.Seal(k, input{}), exchange("http://server/charges", s, nil))
	if len(s.requests) != 1 || !errors.Is(err, context.Canceled) || failed(t, err).Response.StatusCode != 503 {
		t.Errorf("%d requests, %v", len(s.requests), err)
	}
}

// A call does not wait for what its deadline forbids.
func TestDeadlineBeforePause(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	k := idempotency.MustParseKey[chargeOp](key)
	s := serve(reply(503, "Retry-After: 4000"))
	sender := retry.New(retry.WithMaxRetryAfter(2 * time.Hour))
	_, err := retry.Send(ctx, sender, k, idempotency.Seal(k, input{}), exchange("http://server/charges", s, nil))
	if !errors.Is(err, context.DeadlineExceeded) || len(s.requests) != 1 || ctx.Err() != nil {
		t.Errorf("%v after %d attempts", err, len(s.requests))
	}
}

// An answer that came is told of, even if the context has ended since.
func TestAnswerBeforeContext(t *testing.T) {
	t.Parallel()
	for _, step := range []step{refuse(422, idempotency.CodeMismatch), reply(201)} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_, err := send(ctx, newClock(), serve(func(req *http.Request) (*http.Response, error) {
			cancel()
			return step(req)
		}))
		if errors.Is(err, context.Canceled) {
			t.Errorf("%v, in place of the answer", err)
		}
	}
}

// An attempt that takes too long is given up and made again; the caller's own
// deadline ends the call.
func TestAttemptTimeout(t *testing.T) {
	t.Parallel()
	hang := func(req *http.Request) (*http.Response, error) {
		<-req.Context().Done()
		return nil, context.Cause(req.Context())
	}
	stall := func(req *http.Request) (*http.Response, error) {
		r, err := reply(201, "", "half")(req)
		r.Body = io.NopCloser(io.MultiReader(r.Body, waitingReader{req.Context()}))
		return r, err
	}
	for name, first := range map[string]step{"no answer": hang, "half an answer": stall} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := serve(first, reply(201))
				if _, err := send(t.Context(), newClock(), s); err != nil || len(s.requests) != 2 {
					t.Errorf("%v after %d attempts", err, len(s.requests))
				}
				started := time.Now()
				_, err := send(t.Context(), newClock(), serve(first))
				if e := failed(t, err); e.Attempts != 4 || !strings.Contains(err.Error(), "the attempt took longer than 30s") || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				if took := time.Since(started); took != 4*30*time.Second {
					t.Errorf("4 attempts took %v", took)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				_, err = send(ctx, newClock(), serve(first), retry.WithAttemptTimeout(0))
				if e := failed(t, err); e.Attempts != 1 || !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "took longer") {
					t.Errorf("the caller's deadline: %v", err)
				}
				if strings.Count(err.Error(), context.DeadlineExceeded.Error()) != 1 {
					t.Errorf("%v says it twice", err)
				}
			})
		})
	}
}

type waitingReader struct{ ctx context.Context }

func (r waitingReader) Read([]byte) (int, error) {
	<-r.ctx.Done()
	return 0, r.ctx.Err()
}

// The whole of an error, as a log shows it.
func TestErrorTexts(t *testing.T) {
	t.Parallel()
	for want, steps := range map[string][]step{
		"idempotency: charge: the line is broken; 4 attempts were made; it may have been executed: call it again with the same request to learn its outcome":                                                              {broken},
		"idempotency: charge: the server answered 503 Service Unavailable; 4 attempts were made; it may have been executed: call it again with the same request to learn its outcome":                                     {reply(503)},
		"idempotency: charge: the server answered 429 Too Many Requests; 4 attempts were made":                                                                                                                            {reply(429)},
		"idempotency: charge: the server answered 429 Too Many Requests, and asks to wait 1h0m0s, which is more than the client waits":                                                                                    {reply(429, "Retry-After: 3600")},
		"idempotency: charge: the server answered 422 Unprocessable Entity, mismatch: because":                                                                                                                            {refuse(422, idempotency.CodeMismatch)},
		"idempotency: charge: the server answered 412 Precondition Failed, key_expired: because; it may have been executed before, and its record is gone: find out by other means before you use a new key":              {refuse(412, idempotency.CodeKeyExpired)},
		"idempotency: charge: the server answered 201 Created, which broke off after 4 bytes: unexpected EOF; 4 attempts were made; it may have been executed: call it again with the same request to learn its outcome":  {cut(201, "", "half")},
		"idempotency: charge: the server answered 307 Temporary Redirect to http://elsewhere/, which is not followed: key and body would go there":                                                                        {reply(307, "Location: http://elsewhere/")},
		"idempotency: charge: the server answered 302 Found to an unknown place, which is not followed: key and body would go there; it may have been executed: call it again with the same request to learn its outcome": {reply(302)},
	} {
		if _, err := send(t.Context(), newClock(), serve(steps...)); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

// One client serves many calls at a time, and nothing of one is in another.
//
// Covers CLI-02.
func TestConcurrentCalls(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	bodies := make(map[string][]string) // by key
	doer := doerFunc(func(req *http.Request) (*http.Response, error) {
		body, _ := io.ReadAll(req.Body)
		mu.Lock()
		defer mu.Unlock()
		k := req.Header.Get("Idempotency-Key")
		bodies[k] = append(bodies[k], string(body))
		return reply(map[bool]int{true: 503, false: 200}[len(bodies[k]) < 3])(req)
	})
	sender := retry.New(retry.WithBackoff(func(int) time.Duration { return 0 }))
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			k := idempotency.MustParseKey[chargeOp](fmt.Sprint("key-", i))
			in := idempotency.Seal(k, input{Body: fmt.Sprint("body-", i)})
			if _, err := retry.Send(t.Context(), sender, k, in, exchange("http://server/charges", doer, nil)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i := range 50 {
		if got := bodies[fmt.Sprint("key-", i)]; !slices.Equal(got, slices.Repeat([]string{fmt.Sprint("body-", i)}, 3)) {
			t.Errorf("%d: %q", i, got)
		}
	}
}

type doerFunc func(*http.Request) (*http.Response, error)

func (f doerFunc) Do(req *http.Request) (*http.Response, error) { return f(req) }
