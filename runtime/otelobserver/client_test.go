package otelobserver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
	"github.com/idemgen/idemgen/runtime/otelobserver"
	"github.com/idemgen/idemgen/runtime/retry"
)

const (
	attempts        = "idempotency.client.attempts"
	attemptsPerCall = "idempotency.client.attempts_per_call"
)

// call calls payOperation the way a generated client does. Its pauses take no
// time, and each moment is a second after the one before.
func call(ctx context.Context, url string, opts ...retry.Option) error {
	var moment atomic.Int64
	sender := retry.New(append([]retry.Option{
		retry.WithBackoff(func(n int) time.Duration { return time.Duration(n) * time.Millisecond }),
		retry.WithClock(
			func() time.Time { return time.Unix(moment.Add(1), 0) },
			func(context.Context, time.Duration) {}),
	}, opts...)...)
	typed, err := idempotency.ParseKey[payOp]("secret-key")
	if err != nil {
		return err
	}
	// The connections of one call are its own, so that it is known which of its
	// attempts use one again.
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	_, err = retry.Send(ctx, sender, typed, idempotency.Seal(typed, "201"), retry.Exchange[string, http.Response]{
		Build: func(body string) (*http.Request, error) {
			r, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
			if err == nil {
				r.Header.Set("Content-Type", "application/json")
			}
			return r, err
		},
		Doer:  &http.Client{Transport: transport},
		Parse: func(r *http.Response) (*http.Response, error) { return r, nil },
	})
	return err
}

// hangUp breaks the connection without an answer.
func hangUp(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// hang answers nothing until the client gives up.
func hang(_ http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body) // the server watches the connection from here on
	<-r.Context().Done()
}

// breakOff announces more than it sends.
func breakOff(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "10")
	w.WriteHeader(http.StatusCreated)
	io.WriteString(w, "{")
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// refuse answers as an idempotent server does.
func refuse(code idempotency.Code) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		idempotency.WriteProblem(w, r, idempotency.Problem{
			Type:       "https://github.com/idemgen/idemgen/blob/main/docs/problems.md#" + string(code),
			Status:     http.StatusConflict,
			Code:       code,
			RetryAfter: time.Second,
		})
	}
}

func always(h http.HandlerFunc) func(context.CancelCauseFunc) http.HandlerFunc {
	return func(context.CancelCauseFunc) http.HandlerFunc { return h }
}

// inTurn lets each handler answer one request, and the last one all others.
func inTurn(t *testing.T, handlers ...http.HandlerFunc) string {
	t.Helper()
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handlers[min(int(n.Add(1)), len(handlers))-1](w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// A call with every kind of attempt, to a server that reports too. The third
// one is two requests: net/http sends again what broke a connection that was
// used before.
func TestClientReportsEachAttempt(t *testing.T) {
	t.Parallel()
	server, client := newRecorder(), newRecorder()
	observeServer, err := otelobserver.Server(server)
	if err != nil {
		t.Fatal(err)
	}
	observeClient, err := otelobserver.Client(client)
	if err != nil {
		t.Fatal(err)
	}
	pay := serve(memstore.New(), observeServer).ServeHTTP
	lost := func(w http.ResponseWriter, r *http.Request) {
		pay(httptest.NewRecorder(), r)
		hangUp(w, r)
	}
	url := inTurn(t, lost, status(http.StatusServiceUnavailable), hangUp, refuse(idempotency.CodeInFlight), pay)
	on := &span{}
	if err := call(trace.ContextWithSpan(t.Context(), on), url, retry.WithObserver(observeClient)); err != nil {
		t.Fatal(err)
	}

	const op, again, last = "idempotency.operation=pay", "idempotency.attempt.final=false,", "idempotency.attempt.final=true,"
	wantAttempts := map[string]string{
		"error.type=_OTHER," + again + op:                                  "1 measured, 1 in all",
		"error.type=503,http.response.status_code=503," + again + op:       "1 measured, 1 in all",
		"error.type=in_flight,http.response.status_code=409," + again + op: "1 measured, 1 in all",
		"http.response.status_code=201," + last + op:                       "1 measured, 1 in all",
	}
	if got := client.sums(attempts); !maps.Equal(got, wantAttempts) {
		t.Errorf("%s: %v, want %v", attempts, got, wantAttempts)
	}
	if got, want := client.sums(attemptsPerCall), map[string]string{op: "1 measured, 4 in all"}; !maps.Equal(got, want) {
		t.Errorf("%s: %v, want %v", attemptsPerCall, got, want)
	}
	wantRequests := map[string]string{
		op + ",idempotency.outcome=executed": "1 measured, 1 in all",
		op + ",idempotency.outcome=replayed": "1 measured, 1 in all",
	}
	if got := server.sums(requests); !maps.Equal(got, wantRequests) {
		t.Errorf("%s: %v, want %v", requests, got, wantRequests)
	}

	const a = "idempotency.attempt."
	wantEvents := []string{
		"error.type=_OTHER," + a + "duration=1," + again + a + "number=1," + a + "pause=0.001," + a + "replayed=false," + a + "sent=1," + op,
		"error.type=503,http.request.resend_count=1,http.response.status_code=503," + a + "duration=1," + again + a + "number=2," + a + "pause=0.002," + a + "replayed=false," + a + "sent=1," + op,
		"error.type=in_flight,http.request.resend_count=2,http.response.status_code=409," + a + "duration=1," + again + a + "number=3," + a + "pause=1.003," + a + "replayed=false," + a + "sent=2," + op,
		"http.request.resend_count=3,http.response.status_code=201," + a + "duration=1," + last + a + "number=4," + a + "replayed=true," + a + "sent=1," + op,
	}
	if len(on.events) != len(wantEvents) || len(on.attrs) != 0 {
		t.Fatalf("%d events and attributes %v, want %d and none", len(on.events), on.attrs, len(wantEvents))
	}
	for i, e := range on.events {
		if got := encode(e.attrs); e.name != "idempotency.attempt" || got != wantEvents[i] {
			t.Errorf("event %d: %s %s\nwant %s", i, e.name, got, wantEvents[i])
		}
	}
}

// Why a call has failed is one of a few values, whatever the server says.
func TestClientErrorTypes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		answer func(cancel context.CancelCauseFunc) http.HandlerFunc
		limit  time.Duration // of the call's context; 0 is none
		want   string
		opts   []retry.Option
	}{
		{"refusal", always(refuse(idempotency.CodeMismatch)), 0, "mismatch", nil},
		{"code of a stranger", always(refuse("secret")), 0, "409", nil},
		{"status", always(status(http.StatusBadGateway)), 0, "502", nil},
		{"redirect", always(status(http.StatusTemporaryRedirect)), 0, "307", nil},
		{"no answer", always(hangUp), 0, "_OTHER", nil},
		{"answer that breaks off", always(breakOff), 0, "_OTHER", nil},
		{"deadline", always(hang), 10 * time.Millisecond, "timeout", nil},
		{"timeout of the attempt", always(hang), 0, "timeout", []retry.Option{retry.WithAttemptTimeout(10 * time.Millisecond)}},
		{"canceled", func(cancel context.CancelCauseFunc) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				cancel(errors.New("secret cause"))
				hang(w, r)
			}
		}, 0, "canceled", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rec, on := newRecorder(), &span{}
			observe, err := otelobserver.Client(rec)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancelCause(trace.ContextWithSpan(t.Context(), on))
			defer cancel(nil)
			if tt.limit > 0 {
				var stop context.CancelFunc
				ctx, stop = context.WithTimeoutCause(ctx, tt.limit, errors.New("secret cause"))
				defer stop()
			}
			if err := call(ctx, inTurn(t, tt.answer(cancel)), append(tt.opts, retry.WithObserver(observe), retry.WithAttempts(1))...); err == nil {
				t.Fatal("no error")
			}
			want := map[string]string{"error.type=" + tt.want + ",idempotency.operation=pay": "1 measured, 1 in all"}
			if got := rec.sums(attemptsPerCall); !maps.Equal(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
			if said := fmt.Sprint(rec.sums(attempts), on.events); strings.Contains(said, "secret") {
				t.Error(said)
			}
		})
	}
}

// A server that nobody should trust gets no certificate error's text out.
func TestClientCertificate(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(status(http.StatusCreated))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	defer s.Close()
	rec := newRecorder()
	observe, err := otelobserver.Client(rec)
	if err != nil {
		t.Fatal(err)
	}
	if err := call(t.Context(), s.URL, retry.WithObserver(observe)); err == nil {
		t.Fatal("no error")
	}
	want := map[string]string{"error.type=server_certificate_invalid,idempotency.operation=pay": "1 measured, 1 in all"}
	if got := rec.sums(attemptsPerCall); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Every code of the runtime is an error.type.
func TestEveryCodeIsAnErrorType(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../idempotency/errors.go")
	if err != nil {
		t.Fatal(err)
	}
	codes := regexp.MustCompile(`Code = "([a-z_]+)"`).FindAllSubmatch(source, -1)
	if len(codes) == 0 {
		t.Fatal("no codes found")
	}
	for _, match := range codes {
		code := idempotency.Code(match[1])
		server, client := newRecorder(), newRecorder()
		observeServer, err1 := otelobserver.Server(server)
		observeClient, err2 := otelobserver.Client(client)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		refusal := &idempotency.Error{Code: code}
		observeServer(t.Context(), idempotency.Event{Operation: "pay", Outcome: idempotency.OutcomeInvalid, Err: refusal})
		observeClient(t.Context(), retry.Attempt{Operation: "pay", Number: 1, Status: 400, Code: code, Err: refusal, Final: true})
		want := "error.type=" + string(code) + ","
		for _, sums := range []map[string]string{server.sums(requests), client.sums(attempts)} {
			for attrs := range sums {
				if !strings.HasPrefix(attrs, want) {
					t.Errorf("%s, want %s", attrs, want)
				}
			}
		}
	}
}

// The instruments are those that docs/observability.md lists.
func TestClientInstruments(t *testing.T) {
	t.Parallel()
	rec := newRecorder()
	if _, err := otelobserver.Client(rec); err != nil {
		t.Fatal(err)
	}
	want := map[string]instrument{
		attempts:        {kind: "int64 counter", unit: "{attempt}", described: true},
		attemptsPerCall: {"int64 histogram", "{attempt}", true, []float64{1, 2, 3, 4, 5, 7, 10, 20}},
	}
	if !reflect.DeepEqual(rec.instruments, want) || rec.scope != "github.com/idemgen/idemgen/runtime/otelobserver" {
		t.Errorf("%s: %+v, want %+v", rec.scope, rec.instruments, want)
	}
}

// Calls at the same time lose no attempt.
func TestClientConcurrently(t *testing.T) {
	t.Parallel()
	const calls = 20
	rec, on := newRecorder(), &span{}
	observe, err := otelobserver.Client(rec)
	if err != nil {
		t.Fatal(err)
	}
	var received atomic.Int64
	url := inTurn(t, func(w http.ResponseWriter, _ *http.Request) {
		if received.Add(1)%3 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	var wg sync.WaitGroup
	for range calls {
		wg.Go(func() {
			if err := call(trace.ContextWithSpan(t.Context(), on), url, retry.WithObserver(observe), retry.WithAttempts(100)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := int(received.Load()); len(rec.measured[attempts]) != n || len(on.events) != n || len(rec.measured[attemptsPerCall]) != calls {
		t.Errorf("%d attempts, %d events, %d calls; want %d, %d, %d", len(rec.measured[attempts]), len(on.events), len(rec.measured[attemptsPerCall]), n, n, calls)
	}
}
