package otelobserver_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
	"github.com/idemgen/idemgen/runtime/otelobserver"
)

const (
	requests         = "idempotency.server.requests"
	requestDuration  = "idempotency.server.request.duration"
	claimDuration    = "idempotency.server.claim.duration"
	completeDuration = "idempotency.server.complete.duration"
)

// payOp is what generated code declares for an operation.
type payOp struct{}

func (payOp) Operation() *idempotency.Operation { return &payOperation }

var payOperation = idempotency.Operation{
	ID: "pay", Method: "POST", Path: "/pay",
	Optional:  true,
	Retention: time.Hour,
	Bodies:    []idempotency.Body{{MediaType: "application/json", Kind: idempotency.BodyJSON}},
	Release:   []int{idempotency.StatusClass(5)},
}

func caller(context.Context, http.Header) (string, error) { return "secret-caller", nil }

// serve serves payOperation the way generated code does. The request's body is
// the status of the handler's answer, -1 for an error, or -2 for a panic.
func serve(store idempotency.Store[struct{}], observe idempotency.Observer) http.Handler {
	edge := idempotency.NewEdge(store, caller, idempotency.WithObserver(observe))
	handle := func(_ context.Context, _ struct{}, call *idempotency.Call) (idempotency.Visit, error) {
		var status int
		if _, err := fmt.Fscan(call.Body(), &status); err != nil {
			return nil, err
		}
		switch status {
		case -1:
			return nil, fmt.Errorf("secret: %w", idempotency.ErrMismatch) // as from a call to another service
		case -2:
			panic(http.ErrAbortHandler)
		}
		return func(w http.ResponseWriter) error {
			w.WriteHeader(status)
			_, err := io.WriteString(w, "{}")
			return err
		}, nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		edge.ServeHTTP(w, r, &payOperation, func(w http.ResponseWriter, r *http.Request) {
			answer, err := edge.Run(r.Context(), &payOperation, handle)
			if err != nil {
				http.Error(w, "failed", http.StatusTeapot)
				return
			}
			answer.WriteTo(w)
		})
	})
}

// send sends one request to a handler, whose panic ends here.
func send(ctx context.Context, h http.Handler, key, body string) {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/pay", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	defer func() { recover() }()
	h.ServeHTTP(httptest.NewRecorder(), r)
}

// down is a store that cannot be reached.
type down struct{ idempotency.Store[struct{}] }

func (down) Execute(context.Context, idempotency.Request, idempotency.Work[struct{}]) (idempotency.Result, error) {
	return idempotency.Result{}, idempotency.ErrUnavailable
}

// Each request is counted once, under what became of it, its claim and its
// completion are measured where there are such, and its span says the same.
func TestServerCountsEachRequestOnce(t *testing.T) {
	t.Parallel()
	const op = "idempotency.operation=pay,"
	tests := []struct {
		name      string
		key, body string
		down      bool
		claims    int
		completes int
		want      string
	}{
		{"executed", "secret-key", "201", false, 1, 1, op + "idempotency.outcome=executed"},
		{"replayed", "used", "201", false, 1, 0, op + "idempotency.outcome=replayed"},
		{"mismatch", "used", "202", false, 1, 0, "error.type=mismatch," + op + "idempotency.outcome=mismatch"},
		{"unprotected", "", "201", false, 0, 0, op + "idempotency.outcome=unprotected"},
		{"released", "secret-key", "500", false, 1, 1, op + "idempotency.outcome=released"},
		{"invalid", "secret key", "201", false, 0, 0, "error.type=key_invalid," + op + "idempotency.outcome=invalid"},
		{"unavailable", "secret-key", "201", true, 1, 0, "error.type=unavailable," + op + "idempotency.outcome=unavailable"},
		{"handler's error", "secret-key", "-1", false, 1, 1, "error.type=_OTHER," + op + "idempotency.outcome=released"},
		{"panic", "secret-key", "-2", false, 1, 0, "error.type=_OTHER," + op + "idempotency.outcome=released"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var store idempotency.Store[struct{}] = memstore.New()
			send(t.Context(), serve(store, func(context.Context, idempotency.Event) {}), "used", "201")
			if tt.down {
				store = down{store}
			}
			rec, on := newRecorder(), &span{}
			observe, err := otelobserver.Server(rec)
			if err != nil {
				t.Fatal(err)
			}
			send(trace.ContextWithSpan(t.Context(), on), serve(store, observe), tt.key, tt.body)

			if got := rec.sums(requests); !maps.Equal(got, map[string]string{tt.want: "1 measured, 1 in all"}) {
				t.Errorf("%s: %v, want one %s", requests, got, tt.want)
			}
			measured := map[string]float64{}
			for name, n := range map[string]int{requestDuration: 1, claimDuration: tt.claims, completeDuration: tt.completes} {
				got := rec.measured[name]
				if len(got) != n {
					t.Errorf("%s: %v, want %d", name, got, n)
				}
				for _, m := range got {
					measured[name] = m.value
					if m.value <= 0 || encode(m.attrs.ToSlice()) != tt.want {
						t.Errorf("%s: %v, want one %s", name, m, tt.want)
					}
				}
			}
			if all := measured[requestDuration]; measured[claimDuration]+measured[completeDuration] >= all {
				t.Errorf("%v do not add up to the request's %v s", measured, all)
			}

			var onSpan []string
			if tt.claims > 0 {
				onSpan = append(onSpan, fmt.Sprint("idempotency.claim.duration=", measured[claimDuration]))
			}
			if tt.completes > 0 {
				onSpan = append(onSpan, fmt.Sprint("idempotency.complete.duration=", measured[completeDuration]))
			}
			if tt.name == "panic" || tt.completes > 0 {
				onSpan = append(onSpan, "idempotency.runs=1")
			}
			if tt.claims > 0 {
				id := idempotency.Identity{Scope: "secret-caller", Operation: "pay", Key: tt.key}.ID()
				onSpan = append(onSpan, fmt.Sprintf("idempotency.record=%x", id))
			}
			want := append(strings.Split(tt.want, ","), onSpan...)
			slices.Sort(want)
			if got := encode(on.attrs); got != strings.Join(want, ",") || len(on.events) != 0 {
				t.Errorf("the span has %s and events %v, want %s", got, on.events, want)
			}
		})
	}
}

// The instruments are those that docs/observability.md lists.
func TestServerInstruments(t *testing.T) {
	t.Parallel()
	rec := newRecorder()
	if _, err := otelobserver.Server(rec); err != nil {
		t.Fatal(err)
	}
	want := map[string]instrument{
		requests:         {kind: "int64 counter", unit: "{request}", described: true},
		requestDuration:  {"float64 histogram", "s", true, []float64{.005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10}},
		claimDuration:    {"float64 histogram", "s", true, []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10}},
		completeDuration: {"float64 histogram", "s", true, []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10}},
	}
	if !reflect.DeepEqual(rec.instruments, want) || rec.scope != "github.com/idemgen/idemgen/runtime/otelobserver" {
		t.Errorf("%s: %+v, want %+v", rec.scope, rec.instruments, want)
	}
}

// A duration is in seconds, and a caller that has gone is counted.
func TestServerMeasuresAfterTheContextHasEnded(t *testing.T) {
	t.Parallel()
	rec := newRecorder()
	observe, err := otelobserver.Server(rec)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	observe(ctx, idempotency.Event{
		Operation: "pay", Outcome: idempotency.OutcomeExecuted,
		Duration: 1500 * time.Millisecond, Claim: 250 * time.Millisecond, Complete: 500 * time.Millisecond, Runs: 1,
	})
	for name, seconds := range map[string]string{requestDuration: "1.5", claimDuration: "0.25", completeDuration: "0.5"} {
		want := map[string]string{"idempotency.operation=pay,idempotency.outcome=executed": "1 measured, " + seconds + " in all"}
		if got := rec.sums(name); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// A store can refuse with a code of its own; it is no value of error.type.
func TestServerForeignCode(t *testing.T) {
	t.Parallel()
	rec := newRecorder()
	observe, err := otelobserver.Server(rec)
	if err != nil {
		t.Fatal(err)
	}
	observe(t.Context(), idempotency.Event{Operation: "pay", Outcome: idempotency.OutcomeInvalid, Err: &idempotency.Error{Code: "own"}})
	want := map[string]string{"error.type=_OTHER,idempotency.operation=pay,idempotency.outcome=invalid": "1 measured, 1 in all"}
	if got := rec.sums(requests); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Sixteen duplicates of each key at a time: every request is in the sums.
func TestServerConcurrently(t *testing.T) {
	t.Parallel()
	const keys, duplicates = 20, 16
	rec, on := newRecorder(), &span{}
	observe, err := otelobserver.Server(rec)
	if err != nil {
		t.Fatal(err)
	}
	h := serve(memstore.New(), observe)
	var wg sync.WaitGroup
	for i := range keys {
		for range duplicates {
			wg.Go(func() { send(trace.ContextWithSpan(t.Context(), on), h, fmt.Sprint("key-", i), "201") })
		}
	}
	wg.Wait()
	all := 0
	for _, m := range rec.measured[requests] {
		all += int(m.value)
	}
	executed := rec.sums(requests)["idempotency.operation=pay,idempotency.outcome=executed"]
	if want := fmt.Sprintf("%d measured, %d in all", keys, keys); all != keys*duplicates || executed != want {
		t.Errorf("%d requests, executed: %s; want %d and %s", all, executed, keys*duplicates, want)
	}
}

// What cannot be set up is said, and no observer returned that measures half.
func TestErrors(t *testing.T) {
	t.Parallel()
	if observe, err := otelobserver.Server(nil); err == nil || observe != nil {
		t.Error("Server takes a nil provider")
	}
	if observe, err := otelobserver.Client(nil); err == nil || observe != nil {
		t.Error("Client takes a nil provider")
	}
	for _, name := range []string{requests, requestDuration, claimDuration, completeDuration} {
		rec := newRecorder()
		rec.broken = name
		if observe, err := otelobserver.Server(rec); err == nil || observe != nil || !strings.Contains(err.Error(), name) {
			t.Errorf("Server without %s: %v", name, err)
		}
	}
	for _, name := range []string{attempts, attemptsPerCall} {
		rec := newRecorder()
		rec.broken = name
		if observe, err := otelobserver.Client(rec); err == nil || observe != nil || !strings.Contains(err.Error(), name) {
			t.Errorf("Client without %s: %v", name, err)
		}
	}
}
