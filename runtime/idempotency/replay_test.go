package idempotency_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// A retry that asks for another representation gets the stored one: what the
// document does not name does not count, and nothing runs again.
// Covers RSP-18.
func TestRetryAsksForAnotherRepresentation(t *testing.T) {
	t.Parallel()
	s := serve(t, payOperation, answers(201, `{"id":1}`, "Content-Type", "application/json"))
	s.send(t, `{}`, "Accept", "application/json")
	r := s.send(t, `{}`, "Accept", "text/csv")
	if r.status != 201 || r.body != `{"id":1}` || r.header.Get("Content-Type") != "application/json" || r.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("%+v", r)
	}
	if n := s.runs.Load(); n != 1 {
		t.Errorf("%d runs", n)
	}
}

// Trailers are not part of an answer: neither the first caller nor a replay
// gets one, so the two do not differ.
// Covers CTX-10.
func TestTrailersAreNotSent(t *testing.T) {
	t.Parallel()
	s := serve(t, payOperation, func(context.Context, *idempotency.Call) (idempotency.Visit, error) {
		return func(w http.ResponseWriter) error {
			w.Header().Set("Trailer", "X-Sum")
			w.WriteHeader(201)
			_, err := io.WriteString(w, "body")
			w.Header().Set("X-Sum", "9")
			w.Header().Set(http.TrailerPrefix+"X-Other", "9")
			return err
		}, nil
	})
	for _, replayed := range []string{"", "true"} {
		req, err := http.NewRequest("POST", s.URL+"/pay", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Api-Key", "alice")
		req.Header.Set("Idempotency-Key", "k1")
		resp, err := s.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || string(body) != "body" || resp.Header.Get("Idempotent-Replayed") != replayed {
			t.Errorf("%q %v %v", body, resp.Header, err)
		}
		if resp.Header.Get("X-Sum") != "" || resp.Trailer.Get("X-Sum") != "" || resp.Trailer.Get("X-Other") != "" {
			t.Errorf("a trailer was sent: %v %v", resp.Header, resp.Trailer)
		}
	}
}

// A handler that returns neither an answer nor an error has slipped: nothing
// is kept, and the server's own error handler says so.
func TestNoAnswerIsNotStored(t *testing.T) {
	t.Parallel()
	slip := true
	s := serve(t, payOperation, func(context.Context, *idempotency.Call) (idempotency.Visit, error) {
		if slip {
			slip = false
			return nil, nil
		}
		return answers(201, "ok")(nil, nil)
	})
	if r := s.send(t, `{}`); r.status != http.StatusTeapot || !strings.Contains(r.body, "pay returned neither an answer nor an error") {
		t.Errorf("%+v", r)
	}
	if o := s.outcome(t); o != idempotency.OutcomeReleased {
		t.Errorf("outcome %s", o)
	}
	if r := s.send(t, `{}`); r.status != 201 || r.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("%+v", r)
	}
}

// A handler's own in-flight error, from a call that it makes itself, does not
// make its request wait.
// Covers CON-15.
func TestHandlersOwnInFlightErrorDoesNotWait(t *testing.T) {
	t.Parallel()
	op := payOperation
	op.WaitUpTo = time.Minute
	s := serve(t, op, func(context.Context, *idempotency.Call) (idempotency.Visit, error) {
		return nil, idempotency.ErrInFlight
	})
	if r := s.send(t, `{}`); r.status != http.StatusTeapot {
		t.Errorf("%+v", r)
	}
	if n := s.runs.Load(); n != 1 {
		t.Errorf("%d runs", n)
	}
}

// A panic is noted in the event, and logged as an error.
func TestPanicIsReported(t *testing.T) {
	t.Parallel()
	s := serve(t, payOperation, func(context.Context, *idempotency.Call) (idempotency.Visit, error) {
		panic(http.ErrAbortHandler)
	})
	req, err := http.NewRequest("POST", s.URL+"/pay", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", "alice")
	req.Header["Idempotency-Key"] = []string{"k1"}
	req.GetBody = nil
	if resp, err := s.Client().Do(req); err == nil {
		resp.Body.Close()
		t.Errorf("answered %d", resp.StatusCode)
	}
	// net/http sends a keyed request again when its connection breaks.
	if e := <-s.events; e.Outcome != idempotency.OutcomeReleased || e.Err == nil {
		t.Errorf("%+v", e)
	}
}

// A handler that passes on the answer of another server, and with it the mark of a
// replay there, makes no replay here: not of a first answer, nor of one that is
// released.
func TestMarkOfAnotherServer(t *testing.T) {
	t.Parallel()
	for status, marks := range map[int][]string{201: {"", "true"}, 503: {"", ""}} {
		s := serve(t, payOperation, answers(status, "", "Idempotent-Replayed", "true"))
		for i, want := range marks {
			if got := s.send(t, `{}`); got.status != status || strings.Join(got.header.Values("Idempotent-Replayed"), "+") != want {
				t.Errorf("%d: request %d is answered %+v, want the mark %q", status, i, got, want)
			}
		}
	}
}
