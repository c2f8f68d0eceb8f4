package idempotency_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
)

// slow is a store whose claims take a second, its commits and rollbacks two,
// and which loses as many conflicts as it is told.
type slow struct {
	idempotency.Store[struct{}]
	conflicts int
}

func (s slow) Execute(ctx context.Context, req idempotency.Request, work idempotency.Work[struct{}]) (idempotency.Result, error) {
	time.Sleep(time.Second)
	return s.Store.Execute(ctx, req, func(ctx context.Context, tx struct{}) (response idempotency.Response, err error) {
		for range s.conflicts + 1 {
			response, err = work(ctx, tx)
			time.Sleep(2 * time.Second)
		}
		return response, err
	})
}

// serveSlowly sends one request to a server whose handler takes ten seconds, and
// returns what the observer was told.
func serveSlowly(t *testing.T, store idempotency.Store[struct{}], op *idempotency.Operation, key, body string, h handler) (event idempotency.Event) {
	t.Helper()
	told := 0
	edge := idempotency.NewEdge(store, idempotency.ScopeByHeader("X-Api-Key"), idempotency.WithObserver(func(_ context.Context, e idempotency.Event) {
		event = e
		told++
	}))
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/pay", strings.NewReader(body))
	r.Header.Set("X-Api-Key", "alice")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	func() {
		defer func() { _ = recover() }()
		edge.ServeHTTP(httptest.NewRecorder(), r, op, func(w http.ResponseWriter, r *http.Request) {
			answer, err := edge.Run(r.Context(), op, func(ctx context.Context, _ struct{}, call *idempotency.Call) (idempotency.Visit, error) {
				time.Sleep(10 * time.Second)
				return h(ctx, call)
			})
			if err == nil {
				err = answer.WriteTo(w)
			}
			if err != nil && !errors.Is(err, errShip) {
				t.Error(err)
			}
		})
	}()
	if told != 1 {
		t.Errorf("the observer was told %d times", told)
	}
	return event
}

// The observer is told how long the store took to claim and to complete, apart
// from the handler.
func TestObserverMeasuresTheStore(t *testing.T) {
	t.Parallel()
	fails := func(context.Context, *idempotency.Call) (idempotency.Visit, error) { return nil, errShip }
	panics := func(context.Context, *idempotency.Call) (idempotency.Visit, error) { panic("a bug") }
	optional := payOperation
	optional.Optional = true
	for _, tt := range []struct {
		name      string
		key, body string
		conflicts int
		handler   handler
		want      idempotency.Event // Operation, Scope and Key are the same in all
	}{
		{"executed", "new", "1", 0, answers(201, "{}"), idempotency.Event{Outcome: idempotency.OutcomeExecuted, Duration: 13 * time.Second, Claim: time.Second, Complete: 2 * time.Second, Runs: 1}},
		{"run again", "new", "1", 2, answers(201, "{}"), idempotency.Event{Outcome: idempotency.OutcomeExecuted, Duration: 37 * time.Second, Claim: time.Second, Complete: 2 * time.Second, Runs: 3}},
		{"replayed", "used", "1", 0, answers(201, "{}"), idempotency.Event{Outcome: idempotency.OutcomeReplayed, Duration: time.Second, Claim: time.Second}},
		{"mismatch", "used", "2", 0, answers(201, "{}"), idempotency.Event{Outcome: idempotency.OutcomeMismatch, Duration: time.Second, Claim: time.Second, Err: idempotency.ErrMismatch}},
		{"released", "new", "1", 0, answers(503, "{}"), idempotency.Event{Outcome: idempotency.OutcomeReleased, Duration: 13 * time.Second, Claim: time.Second, Complete: 2 * time.Second, Runs: 1}},
		{"handler's error", "new", "1", 0, fails, idempotency.Event{Outcome: idempotency.OutcomeReleased, Duration: 13 * time.Second, Claim: time.Second, Complete: 2 * time.Second, Runs: 1, Err: errShip}},
		{"panic", "new", "1", 0, panics, idempotency.Event{Outcome: idempotency.OutcomeReleased, Duration: 11 * time.Second, Claim: time.Second, Runs: 1, Err: idempotency.ErrPanicked}},
		{"no key", "", "1", 0, answers(201, "{}"), idempotency.Event{Outcome: idempotency.OutcomeUnprotected, Duration: 10 * time.Second}},
		{"invalid key", "no key", "1", 0, answers(201, "{}"), idempotency.Event{Outcome: idempotency.OutcomeInvalid, Err: idempotency.ErrKeyInvalid}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				serveSlowly(t, store, &optional, "used", "1", answers(201, "{}"))
				got := serveSlowly(t, slow{store, tt.conflicts}, &optional, tt.key, tt.body, tt.handler)
				if !errors.Is(got.Err, tt.want.Err) {
					t.Errorf("error %v, want %v", got.Err, tt.want.Err)
				}
				got.Err, tt.want.Err = nil, nil
				got.Operation, got.Scope, got.Key = "", "", ""
				if got != tt.want {
					t.Errorf("%+v\nwant %+v", got, tt.want)
				}
			})
		})
	}
}

// A duplicate that waits is measured by its last try, in which it is answered.
func TestObserverMeasuresTheLastTry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		op := payOperation
		op.WaitUpTo = time.Minute
		store := memstore.New()
		go serveSlowly(t, store, &op, "k", "1", answers(201, "{}"))
		synctest.Wait() // the first attempt runs
		got := serveSlowly(t, &slower{Store: store}, &op, "k", "1", answers(201, "{}"))
		if got.Outcome != idempotency.OutcomeReplayed || got.Claim <= time.Second || got.Duration <= got.Claim || got.Runs != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// slower is a store whose each answer takes a second longer than the one before.
type slower struct {
	idempotency.Store[struct{}]
	tries int
}

func (s *slower) Execute(ctx context.Context, req idempotency.Request, work idempotency.Work[struct{}]) (idempotency.Result, error) {
	s.tries++
	time.Sleep(time.Duration(s.tries) * time.Second)
	return s.Store.Execute(ctx, req, work)
}

// A lease is claimed and completed in steps of their own, which are measured.
func TestObserverMeasuresLeases(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		op := payOperation
		op.Lease = time.Minute
		var got idempotency.Event
		edge := idempotency.NewEdge(slowLeases{memstore.New()}, idempotency.ScopeByHeader("X-Api-Key"),
			idempotency.WithObserver(func(_ context.Context, e idempotency.Event) { got = e })).Leases()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/pay", strings.NewReader("1"))
		r.Header.Set("X-Api-Key", "alice")
		r.Header.Set("Idempotency-Key", "k")
		edge.ServeHTTP(httptest.NewRecorder(), r, &op, func(w http.ResponseWriter, r *http.Request) {
			answer, err := edge.Run(r.Context(), &op, func(ctx context.Context, _ *idempotency.Lease, call *idempotency.Call) (idempotency.Visit, error) {
				time.Sleep(10 * time.Second)
				return answers(201, "{}")(ctx, call)
			})
			if err == nil {
				err = answer.WriteTo(w)
			}
			if err != nil {
				t.Error(err)
			}
		})
		if got.Claim != time.Second || got.Complete != 2*time.Second || got.Duration != 13*time.Second || got.Runs != 1 {
			t.Errorf("%+v", got)
		}
	})
}

type slowLeases struct{ *memstore.Store }

func (s slowLeases) AcquireLease(ctx context.Context, req idempotency.Request, token idempotency.LeaseToken) (idempotency.Result, error) {
	time.Sleep(time.Second)
	return s.Store.AcquireLease(ctx, req, token)
}

func (s slowLeases) CompleteLease(ctx context.Context, req idempotency.Request, token idempotency.LeaseToken, resp idempotency.Response) error {
	time.Sleep(2 * time.Second)
	return s.Store.CompleteLease(ctx, req, token, resp)
}

// Each message is reported once, whatever becomes of it, and Do answers as it
// does on the bare store.
func TestObserved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var events []idempotency.Event
		store := idempotency.Observed[struct{}](slow{Store: memstore.New()}, func(_ context.Context, e idempotency.Event) { events = append(events, e) })
		deliver := func(key, body string) (v int, replayed bool, err error) {
			defer func() {
				if p := recover(); p != nil && p != "a bug" {
					t.Errorf("panic with %v", p)
				}
			}()
			return idempotency.Do(t.Context(), store, message("queue", "ship", key, body), func(context.Context, struct{}) (int, error) {
				time.Sleep(10 * time.Second)
				switch body {
				case "fails":
					return 0, errShip
				case "panics":
					panic("a bug")
				}
				return 1, nil
			})
		}
		if v, replayed, err := deliver("m", "a"); v != 1 || replayed || err != nil {
			t.Error(v, replayed, err)
		}
		if v, replayed, err := deliver("m", "a"); v != 1 || !replayed || err != nil {
			t.Error(v, replayed, err)
		}
		if _, _, err := deliver("m", "b"); !errors.Is(err, idempotency.ErrMismatch) {
			t.Error(err)
		}
		if _, _, err := deliver("n", "fails"); err != errShip { //nolint:errorlint // as it was, not wrapped
			t.Error(err)
		}
		if _, _, err := deliver("n", "panics"); err != nil {
			t.Error(err)
		}
		if _, _, err := deliver("no key", "a"); !errors.Is(err, idempotency.ErrKeyInvalid) {
			t.Error(err)
		}
		if _, err := store.Transact(t.Context(), func(context.Context, struct{}) (idempotency.Response, error) {
			return idempotency.Response{}, nil
		}); err != nil {
			t.Error(err)
		}
		want := []idempotency.Event{
			{Outcome: idempotency.OutcomeExecuted, Scope: "queue", Key: "m", Duration: 13 * time.Second, Claim: time.Second, Complete: 2 * time.Second, Runs: 1},
			{Outcome: idempotency.OutcomeReplayed, Scope: "queue", Key: "m", Duration: time.Second, Claim: time.Second},
			{Outcome: idempotency.OutcomeMismatch, Scope: "queue", Key: "m", Duration: time.Second, Claim: time.Second, Err: idempotency.ErrMismatch},
			{Outcome: idempotency.OutcomeReleased, Scope: "queue", Key: "n", Duration: 13 * time.Second, Claim: time.Second, Complete: 2 * time.Second, Runs: 1, Err: errShip},
			{Outcome: idempotency.OutcomeReleased, Scope: "queue", Key: "n", Duration: 11 * time.Second, Claim: time.Second, Runs: 1, Err: idempotency.ErrPanicked},
			{Outcome: idempotency.OutcomeInvalid, Err: idempotency.ErrKeyInvalid},
		}
		if !slices.EqualFunc(events, want, func(got, want idempotency.Event) bool {
			same := errors.Is(got.Err, want.Err)
			got.Err, want.Err, want.Operation = nil, nil, "ship"
			return same && got == want
		}) {
			t.Errorf("%+v\nwant %+v", events, want)
		}
	})
}

// LogTo writes how long the store took, and how often a handler ran where that
// says something.
func TestLogToMeasurements(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	observe := idempotency.LogTo(slog.New(slog.NewTextHandler(&buf, nil)))
	for _, tt := range []struct {
		event idempotency.Event
		want  string
	}{
		{idempotency.Event{Outcome: idempotency.OutcomeExecuted, Claim: time.Second, Complete: 2 * time.Second, Runs: 1}, " claim=1s complete=2s\n"},
		{idempotency.Event{Outcome: idempotency.OutcomeExecuted, Claim: time.Second, Complete: 2 * time.Second, Runs: 2}, " claim=1s complete=2s runs=2\n"},
		{idempotency.Event{Outcome: idempotency.OutcomeInvalid}, " duration=0s\n"},
	} {
		buf.Reset()
		observe(t.Context(), tt.event)
		if !strings.HasSuffix(buf.String(), tt.want) {
			t.Errorf("%q, want it to end in %q", buf.String(), tt.want)
		}
	}
}
