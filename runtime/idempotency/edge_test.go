package idempotency_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
)

// payOp is what generated code declares for an operation.
var payOperation = idempotency.Operation{
	ID: "pay", Method: "POST", Path: "/pay",
	Retention: time.Hour,
	Bodies:    []idempotency.Body{{MediaType: "application/json", Kind: idempotency.BodyJSON}},
	Release:   []int{401, 429, idempotency.StatusClass(5)},
}

// handler is what a user writes: it gets the decoded request and says how to
// answer.
type handler func(ctx context.Context, call *idempotency.Call) (idempotency.Visit, error)

// server serves one operation the way generated code does.
type server struct {
	*httptest.Server
	runs   atomic.Int64
	events chan idempotency.Event
}

func serve(t *testing.T, op idempotency.Operation, h handler, opts ...idempotency.Option) *server {
	t.Helper()
	return serveOn(t, memstore.New(), op, h, opts...)
}

func serveOn(t *testing.T, store idempotency.Store[struct{}], op idempotency.Operation, h handler, opts ...idempotency.Option) *server {
	t.Helper()
	s, _ := serveOperations(t, store, func(*http.Request) *idempotency.Operation { return &op }, h, opts...)
	return s
}

// serveOperations serves the operation that a request asks for, and returns the
// edge too.
func serveOperations(t *testing.T, store idempotency.Store[struct{}], of func(*http.Request) *idempotency.Operation, h handler, opts ...idempotency.Option) (*server, *idempotency.Edge[struct{}]) {
	t.Helper()
	s := &server{events: make(chan idempotency.Event, 1000)}
	opts = append([]idempotency.Option{idempotency.WithObserver(func(_ context.Context, e idempotency.Event) { s.events <- e })}, opts...)
	edge := idempotency.NewEdge(store, idempotency.ScopeByHeader("X-Api-Key"), opts...)
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		op := of(r)
		edge.ServeHTTP(w, r, op, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Undecodable") != "" {
				http.Error(w, "cannot decode", http.StatusBadRequest)
				return
			}
			answer, err := edge.Run(r.Context(), op, func(ctx context.Context, _ struct{}, call *idempotency.Call) (idempotency.Visit, error) {
				s.runs.Add(1)
				return h(ctx, call)
			})
			if err != nil {
				http.Error(w, "own: "+err.Error(), http.StatusTeapot)
				return
			}
			if err := answer.WriteTo(w); err != nil {
				t.Log("writing the answer:", err)
			}
		})
	}))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.Start()
	t.Cleanup(s.Close)
	return s, edge
}

// answers returns a handler that always gives the same answer.
func answers(status int, body string, header ...string) handler {
	return func(context.Context, *idempotency.Call) (idempotency.Visit, error) {
		return func(w http.ResponseWriter) error {
			for i := 0; i < len(header); i += 2 {
				w.Header().Add(header[i], header[i+1])
			}
			w.WriteHeader(status)
			if body != "" {
				_, err := io.WriteString(w, body)
				return err
			}
			return nil
		}, nil
	}
}

type reply struct {
	status int
	header http.Header
	body   string
}

func (r reply) code(t *testing.T) idempotency.Code {
	t.Helper()
	if got := r.header.Get("Content-Type"); got != "application/problem+json" {
		t.Fatalf("status %d with Content-Type %q and body %q, want a problem document", r.status, got, r.body)
	}
	var p struct {
		Type, Title, Detail string
		Status              int
		Code                idempotency.Code
		Retryable           *bool
	}
	if err := json.Unmarshal([]byte(r.body), &p); err != nil {
		t.Fatal(err)
	}
	if p.Status != r.status || p.Title == "" || p.Detail == "" || !strings.HasSuffix(p.Type, "#"+string(p.Code)) {
		t.Errorf("incomplete problem document: %s", r.body)
	}
	if p.Retryable == nil || *p.Retryable != p.Code.Retryable() {
		t.Errorf("retryable is wrong: %s", r.body)
	}
	if got := r.header.Get("Retry-After") != ""; got != p.Code.Retryable() {
		t.Errorf("%s: Retry-After %q", p.Code, r.header.Get("Retry-After"))
	}
	return p.Code
}

// send sends one request; header holds name, value pairs over the defaults.
func (s *server) send(t *testing.T, body string, header ...string) reply {
	t.Helper()
	req, err := http.NewRequest("POST", s.URL+"/pay", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.GetBody = nil
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Api-Key", "alice")
	req.Header.Set("Idempotency-Key", "k1")
	replaced := map[string]bool{}
	for i := 0; i < len(header); i += 2 {
		if name := header[i]; !replaced[name] {
			replaced[name] = true
			req.Header.Del(name)
		}
		if header[i+1] != "<none>" {
			req.Header[header[i]] = append(req.Header[header[i]], header[i+1])
		}
	}
	resp, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, string(b)}
}

// outcome returns the outcome of the one request that has been sent, and
// fails if there were more events than requests.
func (s *server) outcome(t *testing.T) idempotency.Outcome {
	t.Helper()
	e := <-s.events
	if len(s.events) > 0 {
		t.Errorf("more than one event for one request: %+v", e)
	}
	return e.Outcome
}

// A repeated request gets the stored status, headers and bytes, marked as a
// replay, and the handler runs once.
// Covers FPR-01, CRA-04, RSP-13, SEC-12.
func TestFirstThenReplayThenMismatch(t *testing.T) {
	t.Parallel()
	s := serve(t, payOperation, answers(201, `{"id": 7}`+"\n", "Content-Type", "application/json", "Location", "/payments/7", "X-Twice", "a", "X-Twice", "b"))
	first := s.send(t, `{"amount":1}`)
	if o := s.outcome(t); o != idempotency.OutcomeExecuted {
		t.Errorf("first outcome %s", o)
	}
	if first.status != 201 || first.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("first answer: %+v", first)
	}
	second := s.send(t, ` { "amount" : 1 } `)
	if o := s.outcome(t); o != idempotency.OutcomeReplayed {
		t.Errorf("second outcome %s", o)
	}
	if second.header.Get("Idempotent-Replayed") != "true" {
		t.Error("the replay is not marked")
	}
	second.header.Del("Idempotent-Replayed")
	first.header.Del("Date")
	second.header.Del("Date")
	if fmt.Sprint(first) != fmt.Sprint(second) {
		t.Errorf("the replay differs:\n%+v\n%+v", first, second)
	}
	if got := first.header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control %q, want no-store", got)
	}
	third := s.send(t, `{"amount":2}`)
	if third.status != 422 || third.code(t) != idempotency.CodeMismatch {
		t.Errorf("mismatch: %+v", third)
	}
	if o := s.outcome(t); o != idempotency.OutcomeMismatch {
		t.Errorf("third outcome %s", o)
	}
	if again := s.send(t, `{"amount":1}`); again.header.Get("Idempotent-Replayed") != "true" {
		t.Error("the record is gone after a mismatch")
	}
	if s.runs.Load() != 1 {
		t.Errorf("the handler ran %d times", s.runs.Load())
	}
}

// What a client did wrong is refused before the claim, with its code.
// Covers PRO-03, PRO-04, PRO-10, SEC-02, SEC-09, ERR-04.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		body   string
		header []string
		status int
		code   idempotency.Code
		detail string // a part of the detail
	}{
		{"no key", `{}`, []string{"Idempotency-Key", "<none>"}, 400, idempotency.CodeKeyMissing, "send a unique key in the Idempotency-Key header"},
		{"underscore", `{}`, []string{"Idempotency-Key", "<none>", "Idempotency_Key", "k"}, 400, idempotency.CodeKeyMissing, "Idempotency_key is not that header"},
		{"alias", `{}`, []string{"Idempotency-Key", "<none>", "X-Idempotency-Key", "k"}, 400, idempotency.CodeKeyMissing, "X-Idempotency-Key is not that header"},
		{"empty", `{}`, []string{"Idempotency-Key", ""}, 400, idempotency.CodeKeyInvalid, ""},
		{"blank", `{}`, []string{"Idempotency-Key", "   "}, 400, idempotency.CodeKeyInvalid, ""},
		{"empty string", `{}`, []string{"Idempotency-Key", `""`}, 400, idempotency.CodeKeyInvalid, ""},
		{"two lines", `{}`, []string{"Idempotency-Key", "k", "Idempotency-Key", "k"}, 400, idempotency.CodeKeyInvalid, ""},
		{"joined lines", `{}`, []string{"Idempotency-Key", "k, k"}, 400, idempotency.CodeKeyInvalid, ""},
		{"too long", `{}`, []string{"Idempotency-Key", strings.Repeat("k", 256)}, 400, idempotency.CodeKeyInvalid, ""},
		{"not ASCII", `{}`, []string{"Idempotency-Key", "kæ"}, 400, idempotency.CodeKeyInvalid, ""},
		{"no caller", `{}`, []string{"X-Api-Key", "<none>"}, 401, idempotency.CodeScopeMissing, "the header X-Api-Key is missing"},
		{"blank caller", `{}`, []string{"X-Api-Key", " "}, 401, idempotency.CodeScopeMissing, "the header X-Api-Key is blank"},
		{"two callers", `{}`, []string{"X-Api-Key", "alice", "X-Api-Key", "bob"}, 401, idempotency.CodeScopeMissing, "the header X-Api-Key is sent more than once"},
		{"too large", strings.Repeat(" ", 1<<20) + "1", nil, 413, idempotency.CodeBodyTooLarge, "at most 1048576 bytes"},
		{"bytes after the body", `{"amount":1}{"amount":9}`, nil, 400, idempotency.CodeBodyInvalid, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, payOperation, answers(201, "{}"))
			got := s.send(t, c.body, c.header...)
			if got.status != c.status || got.code(t) != c.code {
				t.Fatalf("got %d %s, want %d %s", got.status, got.body, c.status, c.code)
			}
			if !strings.Contains(got.body, c.detail) {
				t.Errorf("detail %s lacks %q", got.body, c.detail)
			}
			if o := s.outcome(t); o != idempotency.OutcomeInvalid {
				t.Errorf("outcome %s", o)
			}
			if s.runs.Load() != 0 {
				t.Error("the handler ran")
			}
			// The key is not used up.
			if after := s.send(t, `{}`); after.status != 201 || after.header.Get("Idempotent-Replayed") != "" {
				t.Errorf("after the refusal: %+v", after)
			}
		})
	}
}

// A chunked body without a declared length is limited while it is read.
// Covers SEC-09.
func TestChunkedBodyIsLimited(t *testing.T) {
	t.Parallel()
	s := serve(t, payOperation, answers(201, "{}"), idempotency.WithRequestLimit(10))
	for body, want := range map[string]int{`"12345678"`: 201, `"123456789"`: 413} {
		req, _ := http.NewRequest("POST", s.URL+"/pay", io.MultiReader(strings.NewReader(body))) // a reader of unknown length
		req.Header.Set("Idempotency-Key", fmt.Sprint("k", want))
		req.Header.Set("X-Api-Key", "alice")
		resp, err := s.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%d bytes: status %d, want %d", len(body), resp.StatusCode, want)
		}
	}
}

// The quoted and the bare spelling of a key are one key.
// Covers PRO-01.
func TestQuotedAndBareKeyAreOne(t *testing.T) {
	t.Parallel()
	s := serve(t, payOperation, answers(201, "{}"))
	s.send(t, `{}`, "Idempotency-Key", `"k1"`)
	if got := s.send(t, `{}`, "Idempotency-Key", `k1`); got.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the bare spelling ran again: %+v", got)
	}
	if got := s.send(t, `{}`, "Idempotency-Key", `"k1";a=1`); got.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the spelling with a parameter ran again: %+v", got)
	}
}

// Two callers with one key are two requests, and neither can tell that the
// other exists.
// Covers SEC-01, SEC-11.
func TestScopesAreApart(t *testing.T) {
	t.Parallel()
	s := serve(t, payOperation, func(_ context.Context, call *idempotency.Call) (idempotency.Visit, error) {
		body, err := io.ReadAll(call.Body())
		return func(w http.ResponseWriter) error { _, err := w.Write(body); return err }, err
	})
	alice := s.send(t, `{"who":"alice"}`, "X-Api-Key", "alice")
	bob := s.send(t, `{"who":"bob"}`, "X-Api-Key", "bob")
	if alice.body != `{"who":"alice"}` || bob.body != `{"who":"bob"}` || bob.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("%+v\n%+v", alice, bob)
	}
}

// An error of the scope function is an internal error and runs nothing.
// Covers SEC-02.
func TestScopeError(t *testing.T) {
	t.Parallel()
	cause := errors.New("no session store")
	var event idempotency.Event
	edge := idempotency.NewEdge[struct{}](memstore.New(), func(context.Context, http.Header) (string, error) { return "x", cause },
		idempotency.WithObserver(func(_ context.Context, e idempotency.Event) { event = e }))
	w := httptest.NewRecorder()
	r := httptest.NewRequest("POST", "/pay", nil)
	r.Header.Set("Idempotency-Key", "k")
	edge.ServeHTTP(w, r, &payOperation, func(http.ResponseWriter, *http.Request) { t.Error("next was called") })
	if w.Code != 500 || strings.Contains(w.Body.String(), cause.Error()) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if event.Outcome != idempotency.OutcomeInvalid || !errors.Is(event.Err, cause) {
		t.Errorf("reported as %+v", event)
	}
}

// A scope function can say what is missing, and the caller is told that alone.
// Covers SEC-02.
func TestScopeSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	const detail = "the token names no tenant"
	refusal := &idempotency.Error{Code: idempotency.CodeScopeMissing, Detail: detail, Err: errShip}
	edge := idempotency.NewEdge[struct{}](memstore.New(), func(context.Context, http.Header) (string, error) { return "x", fmt.Errorf("scope: %w", refusal) })
	w := httptest.NewRecorder()
	r := httptest.NewRequest("POST", "/pay", nil)
	r.Header.Set("Idempotency-Key", "k")
	edge.ServeHTTP(w, r, &payOperation, func(http.ResponseWriter, *http.Request) { t.Error("next was called") })
	if w.Code != 401 || !strings.Contains(w.Body.String(), detail) || strings.Contains(w.Body.String(), errShip.Error()) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// While the first attempt runs, a duplicate is told so at once; afterwards it
// gets the stored answer.
// Covers CON-02, CON-06.
func TestInFlight(t *testing.T) {
	t.Parallel()
	entered, finish := make(chan struct{}), make(chan struct{})
	s := serve(t, payOperation, func(context.Context, *idempotency.Call) (idempotency.Visit, error) {
		close(entered)
		<-finish
		return answers(201, "done")(nil, nil)
	})
	first := make(chan reply)
	go func() { first <- s.send(t, `{}`) }()
	<-entered
	dup := s.send(t, `{}`)
	if dup.status != 409 || dup.code(t) != idempotency.CodeInFlight || dup.header.Get("Retry-After") != "1" {
		t.Errorf("duplicate: %+v", dup)
	}
	if o := s.outcome(t); o != idempotency.OutcomeInFlight {
		t.Errorf("outcome %s", o)
	}
	// Another payload is in flight as well: nothing of the first is visible yet.
	if other := s.send(t, `{"amount":5}`); other.status != 409 {
		t.Errorf("other payload: %+v", other)
	}
	close(finish)
	if r := <-first; r.status != 201 {
		t.Errorf("first: %+v", r)
	}
	if r := s.send(t, `{}`); r.body != "done" || r.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("after: %+v", r)
	}
}

// Where the spec says so, a duplicate waits for the first attempt, at most as
// long as it says, and not more of them than the limit.
// Covers CON-06.
func TestWaiting(t *testing.T) {
	t.Parallel()
	op := payOperation
	op.WaitUpTo = 30 * time.Second
	entered, finish := make(chan struct{}), make(chan struct{})
	s := serve(t, op, func(context.Context, *idempotency.Call) (idempotency.Visit, error) {
		close(entered)
		<-finish
		return answers(201, "done")(nil, nil)
	}, idempotency.WithMaxWaiting(1))
	replies := make(chan reply, 2)
	go func() { replies <- s.send(t, `{}`) }()
	<-entered
	const duplicates = 3
	dups := make(chan reply, duplicates)
	for range duplicates {
		go func() { dups <- s.send(t, `{}`) }()
	}
	// One may wait; the others are turned away, whichever they are.
	for range duplicates - 1 {
		if r := <-dups; r.status != 409 {
			t.Errorf("over the limit: %+v", r)
		}
	}
	close(finish)
	if r := <-dups; r.status != 201 || r.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("waited: %+v", r)
	}
	<-replies

	op.WaitUpTo = time.Millisecond
	entered, finish = make(chan struct{}), make(chan struct{})
	short := serve(t, op, func(context.Context, *idempotency.Call) (idempotency.Visit, error) {
		close(entered)
		<-finish
		return answers(201, "done")(nil, nil)
	})
	go func() { replies <- short.send(t, `{}`) }()
	<-entered
	if r := short.send(t, `{}`); r.status != 409 {
		t.Errorf("waited too long: %+v", r)
	}
	close(finish)
	<-replies
}

// An answer whose status is released is sent as it is, rolled back, and leaves
// the key free; any other failure is stored and replayed.
// Covers ERR-02, ERR-03, ERR-05.
func TestReleasedAndStoredFailures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		stored bool
	}{{400, true}, {402, true}, {404, true}, {409, true}, {422, true}, {429, false}, {401, false}, {500, false}, {503, false}} {
		t.Run(fmt.Sprint(c.status), func(t *testing.T) {
			t.Parallel()
			s := serve(t, payOperation, answers(c.status, "why", "Set-Cookie", "a=b", "X-Mine", "1"))
			first := s.send(t, `{}`)
			if first.status != c.status || first.body != "why" || first.header.Get("X-Mine") != "1" || first.header.Get("Set-Cookie") != "a=b" {
				t.Errorf("first: %+v", first)
			}
			want := idempotency.OutcomeReleased
			if c.stored {
				want = idempotency.OutcomeExecuted
			}
			if o := s.outcome(t); o != want {
				t.Errorf("outcome %s, want %s", o, want)
			}
			second := s.send(t, `{}`)
			if got := second.header.Get("Idempotent-Replayed") == "true"; got != c.stored || second.status != c.status || second.body != "why" {
				t.Errorf("second: %+v", second)
			}
		})
	}
}

// A handler's error goes to the server's own error handler; a panic goes on,
// http.ErrAbortHandler included. Both leave the key free.
// Covers CTX-04, ERR-06, CON-16.
func TestHandlerFails(t *testing.T) {
	t.Parallel()
	fail := atomic.Int64{}
	s := serve(t, payOperation, func(context.Context, *idempotency.Call) (idempotency.Visit, error) {
		switch fail.Add(1) {
		case 1:
			return nil, idempotency.ErrMismatch // even an error that looks like the store's is the handler's own
		case 2:
			return func(http.ResponseWriter) error { return errors.New("cannot encode") }, nil
		case 3:
			panic(http.ErrAbortHandler)
		default:
			return answers(201, "ok")(nil, nil)
		}
	})
	if r := s.send(t, `{}`); r.status != http.StatusTeapot || !strings.Contains(r.body, "own: idempotency: mismatch") {
		t.Errorf("error: %+v", r)
	}
	if o := s.outcome(t); o != idempotency.OutcomeReleased {
		t.Errorf("outcome %s", o)
	}
	if r := s.send(t, `{}`); r.status != http.StatusTeapot || !strings.Contains(r.body, "cannot encode") {
		t.Errorf("visit error: %+v", r)
	}
	<-s.events
	req, _ := http.NewRequest("POST", s.URL+"/pay", strings.NewReader(`{}`))
	req.GetBody = nil
	req.Header.Set("X-Api-Key", "alice")
	req.Header["Idempotency-Key"] = []string{"k1"}
	if resp, err := s.Client().Do(req); err == nil {
		t.Errorf("panic was answered %d", resp.StatusCode)
	}
	if o := s.outcome(t); o != idempotency.OutcomeReleased {
		t.Errorf("outcome %s", o)
	}
	if r := s.send(t, `{}`); r.status != 201 || r.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("after the failures: %+v", r)
	}
}

// Empty, binary and interim answers are stored as they are.
// Covers RSP-07, RSP-09, CTX-08.
func TestOddAnswers(t *testing.T) {
	t.Parallel()
	binary := "\x00\xff\xfe %PDF \r\n" + strings.Repeat("\x80", 5000)
	for _, c := range []struct {
		name   string
		h      handler
		status int
		body   string
	}{
		{"204", answers(204, ""), 204, ""},
		{"empty 200", answers(200, ""), 200, ""},
		{"nothing written", func(context.Context, *idempotency.Call) (idempotency.Visit, error) {
			return func(http.ResponseWriter) error { return nil }, nil
		}, 200, ""},
		{"binary", answers(201, binary, "Content-Type", "application/pdf"), 201, binary},
		{"interim", func(context.Context, *idempotency.Call) (idempotency.Visit, error) {
			return func(w http.ResponseWriter) error {
				w.WriteHeader(http.StatusEarlyHints)
				w.WriteHeader(201)
				w.WriteHeader(500) // too late, as in net/http
				_, err := w.Write([]byte("x"))
				return err
			}, nil
		}, 201, "x"},
		{"redirect", answers(303, "", "Location", "../elsewhere"), 303, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, payOperation, c.h)
			s.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
			for i, replayed := range []string{"", "true"} {
				r := s.send(t, `{}`)
				if r.status != c.status || r.body != c.body || r.header.Get("Idempotent-Replayed") != replayed {
					t.Errorf("answer %d: %d %d bytes %v", i, r.status, len(r.body), r.header)
				}
			}
			if s.runs.Load() != 1 {
				t.Errorf("%d runs", s.runs.Load())
			}
		})
	}
}

// Headers that belong to a connection, a session or a moment are sent with the
// first answer and never replayed; those that describe the bytes are.
// Covers RSP-03, RSP-05, RSP-11, RSP-16, RSP-17.
func TestUnstoredHeaders(t *testing.T) {
	t.Parallel()
	never := []string{"Set-Cookie", "Www-Authenticate", "Authentication-Info", "Proxy-Authenticate", "X-Request-Id", "Traceparent", "Ratelimit-Remaining", "X-Ratelimit-Reset", "X-Mine", "X-Ours-1"}
	kept := []string{"Content-Encoding", "Content-Type", "Etag", "Location", "Content-Language", "X-Other"}
	var pairs []string
	for _, n := range append(append([]string{}, never...), kept...) {
		pairs = append(pairs, n, "v")
	}
	s := serve(t, payOperation, answers(201, "body", append(pairs, "Cache-Control", "private")...), idempotency.WithUnstoredHeaders("x-mine", "x-ours-*"))
	first, second := s.send(t, `{}`), s.send(t, `{}`, "If-None-Match", "v")
	if second.status != 201 || second.header.Get("Idempotent-Replayed") != "true" {
		t.Fatalf("second: %+v", second)
	}
	for _, n := range never {
		if first.header.Get(n) != "v" || second.header.Get(n) != "" {
			t.Errorf("%s: first %q, replay %q", n, first.header.Get(n), second.header.Get(n))
		}
	}
	for _, n := range kept {
		if second.header.Get(n) != "v" {
			t.Errorf("%s is not replayed", n)
		}
	}
	if second.header.Get("Cache-Control") != "private" || second.header.Get("Date") == "" || second.header.Get("Content-Length") != "4" {
		t.Errorf("replay: %v", second.header)
	}
}

// An answer over the limit is rolled back and refused, and one at the limit
// is stored.
// Covers RSP-08.
func TestResponseLimit(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]int{10: 201, 11: 500} {
		s := serve(t, payOperation, answers(201, strings.Repeat("x", n)), idempotency.WithResponseLimit(10))
		r := s.send(t, `{}`)
		if r.status != want {
			t.Errorf("%d bytes: %+v", n, r)
		}
		if want == 500 {
			if r.code(t) != idempotency.CodeResponseTooLarge {
				t.Errorf("%+v", r)
			}
			if o := s.outcome(t); o != idempotency.OutcomeReleased {
				t.Errorf("outcome %s", o)
			}
			if s.send(t, `{}`).header.Get("Idempotent-Replayed") != "" {
				t.Error("it was stored")
			}
		}
	}
}

// An answer that wants to stream finds no Flusher.
// Covers CTX-06.
func TestAnswerCannotStream(t *testing.T) {
	t.Parallel()
	s := serve(t, payOperation, func(context.Context, *idempotency.Call) (idempotency.Visit, error) {
		return func(w http.ResponseWriter) error { return http.NewResponseController(w).Flush() }, nil
	})
	if r := s.send(t, `{}`); r.status != http.StatusTeapot || !strings.Contains(r.body, "not supported") {
		t.Errorf("%+v", r)
	}
}

// A request without a key runs unprotected where the spec allows it, and only
// there: an invalid key is still refused.
func TestOptionalKey(t *testing.T) {
	t.Parallel()
	op := payOperation
	op.Optional = true
	s := serve(t, op, answers(201, "{}"))
	for range 2 {
		if r := s.send(t, `{}`, "Idempotency-Key", "<none>"); r.status != 201 || r.header.Get("Idempotent-Replayed") != "" {
			t.Errorf("%+v", r)
		}
		if o := s.outcome(t); o != idempotency.OutcomeUnprotected {
			t.Errorf("outcome %s", o)
		}
	}
	if r := s.send(t, `{}`, "Idempotency-Key", ""); r.status != 400 {
		t.Errorf("%+v", r)
	}
	s.send(t, `{}`)
	if r := s.send(t, `{}`); r.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("with a key: %+v", r)
	}
}

// The handler finds the whole body, with what an OpenAPI validator left on it.
// Covers FPR-18.
func TestBodyIsReadAgain(t *testing.T) {
	t.Parallel()
	edge := idempotency.NewEdge[struct{}](memstore.New(), idempotency.Unscoped)
	r := httptest.NewRequest("POST", "/pay", nil)
	r.Body = validated{io.NopCloser(strings.NewReader(`{"amount":5}`))}
	r.Header.Set("Idempotency-Key", "k")
	edge.ServeHTTP(httptest.NewRecorder(), r, &payOperation, func(_ http.ResponseWriter, r *http.Request) {
		v, ok := r.Body.(interface{ ValidatedValue() any })
		if !ok || v.ValidatedValue() != 5 {
			t.Errorf("the validated value is lost: %T", r.Body)
		}
		if b, err := io.ReadAll(r.Body); err != nil || string(b) != `{"amount":5}` {
			t.Errorf("%q %v", b, err)
		}
	})
}

type validated struct{ io.ReadCloser }

func (validated) ValidatedValue() any { return 5 }

// Expect: 100-continue, trailers and chunked bodies reach the handler.
// Covers FPR-18, CTX-08.
func TestExpectContinueAndTrailers(t *testing.T) {
	t.Parallel()
	edge := idempotency.NewEdge[struct{}](memstore.New(), idempotency.Unscoped)
	got := make(chan string, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		edge.ServeHTTP(w, r, &payOperation, func(_ http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			got <- fmt.Sprint(string(b), r.ContentLength, r.Trailer.Get("X-Sum"))
		})
	}))
	t.Cleanup(s.Close)
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "POST /pay HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\nExpect: 100-continue\r\n\r\n")
	reader := bufio.NewReader(conn)
	if line, err := reader.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("%q %v", line, err)
	}
	fmt.Fprint(conn, "4\r\nnull\r\n0\r\nX-Sum: 9\r\n\r\n")
	if g := <-got; g != "null-19" {
		t.Errorf("handler saw %q", g)
	}
}

// A handler that is served without the wrapper refuses to run.
func TestRunWithoutServeHTTP(t *testing.T) {
	t.Parallel()
	edge := idempotency.NewEdge[struct{}](memstore.New(), idempotency.Unscoped)
	_, err := edge.Run(t.Context(), &payOperation, func(context.Context, struct{}, *idempotency.Call) (idempotency.Visit, error) {
		t.Error("the handler ran")
		return nil, nil
	})
	if err == nil || !strings.Contains(err.Error(), "NewIdempotentHandler") {
		t.Error(err)
	}
}

// What the generated decoder refuses never reaches the claim.
// Covers SEC-08.
func TestUndecodable(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	s := serveOn(t, store, payOperation, answers(201, "{}"))
	if r := s.send(t, `{}`, "X-Undecodable", "1"); r.status != 400 {
		t.Errorf("%+v", r)
	}
	if e := <-s.events; e.Outcome != idempotency.OutcomeInvalid || e.Err == nil || !strings.Contains(e.Err.Error(), "did not reach its handler") {
		t.Errorf("reported as %s, %v", e.Outcome, e.Err)
	}
	scope, err := idempotency.ScopeByHeader("X-Api-Key")(t.Context(), http.Header{"X-Api-Key": {"alice"}})
	if err != nil {
		t.Fatal(err)
	}
	id := idempotency.Identity{Scope: scope, Operation: "pay", Key: "k1"}
	if _, err := store.Lookup(t.Context(), id); !errors.Is(err, idempotency.ErrNotFound) {
		t.Errorf("the refusal was stored: %v", err)
	}
	s.send(t, `{}`)
	if _, err := store.Lookup(t.Context(), id); err != nil {
		t.Errorf("the next attempt is not looked for where it is: %v", err)
	}
}

// A server with its own error schema writes refusals itself.
func TestProblemWriter(t *testing.T) {
	t.Parallel()
	s := serve(t, payOperation, answers(201, "{}"), idempotency.WithProblemWriter(func(w http.ResponseWriter, r *http.Request, p idempotency.Problem) {
		w.Header().Set("X-Path", r.URL.Path)
		http.Error(w, string(p.Code), http.StatusTeapot)
	}), idempotency.WithReplayHeader("idempotency-hit"))
	if r := s.send(t, `{}`, "Idempotency-Key", ""); r.status != 418 || r.body != "key_invalid\n" || r.header.Get("X-Path") != "/pay" {
		t.Errorf("%+v", r)
	}
	s.send(t, `{}`)
	if r := s.send(t, `{}`); r.header.Get("Idempotency-Hit") != "true" {
		t.Errorf("%+v", r)
	}
	if r := s.send(t, `[]`); r.status != 418 || r.body != "mismatch\n" {
		t.Errorf("%+v", r)
	}
}

// failing is a store that answers every call with one error.
type failing struct{ err error }

func (f failing) Execute(context.Context, idempotency.Request, idempotency.Work[struct{}]) (idempotency.Result, error) {
	return idempotency.Result{}, f.err
}

func (f failing) Transact(context.Context, idempotency.Work[struct{}]) (idempotency.Response, error) {
	return idempotency.Response{}, f.err
}

// Each error of a store has its status, code and outcome; a cause is never
// sent.
// Covers CRA-16, EXP-01.
func TestStoreErrors(t *testing.T) {
	t.Parallel()
	secret := errors.New("dial tcp 10.0.0.1: secret")
	for _, c := range []struct {
		err     error
		status  int
		code    idempotency.Code
		outcome idempotency.Outcome
	}{
		{&idempotency.Error{Code: idempotency.CodeUnavailable, Err: secret}, 503, idempotency.CodeUnavailable, idempotency.OutcomeUnavailable},
		{&idempotency.Error{Code: idempotency.CodeOutcomeUnknown, Err: secret}, 503, idempotency.CodeOutcomeUnknown, idempotency.OutcomeOutcomeUnknown},
		{fmt.Errorf("wrapped: %w", idempotency.ErrInFlight), 409, idempotency.CodeInFlight, idempotency.OutcomeInFlight},
		{idempotency.ErrMismatch, 422, idempotency.CodeMismatch, idempotency.OutcomeMismatch},
		{&idempotency.Error{Code: idempotency.CodeKeyExpired, Detail: "old"}, 412, idempotency.CodeKeyExpired, idempotency.OutcomeExpired},
		{secret, 500, idempotency.CodeInternal, idempotency.OutcomeReleased},
	} {
		s := serveOn(t, failing{c.err}, payOperation, answers(201, "{}"))
		r := s.send(t, `{}`)
		if r.status != c.status || r.code(t) != c.code || strings.Contains(r.body, "secret") {
			t.Errorf("%v: %+v", c.err, r)
		}
		if o := s.outcome(t); o != c.outcome {
			t.Errorf("%v: outcome %s", c.err, o)
		}
		if s.runs.Load() != 0 {
			t.Error("the handler ran")
		}
	}
}

// What the database refuses at the commit is an answer of the API's own, as if
// the handler had returned it; where handlers write their answers themselves
// there is nobody to give it, and the cause is not sent.
func TestCommitIsRefused(t *testing.T) {
	t.Parallel()
	refused := &idempotency.CommitError{Err: errors.New("sold out")}
	s := serveOn(t, failing{fmt.Errorf("wrapped: %w", refused)}, payOperation, answers(201, "{}"))
	if r := s.send(t, `{}`); r.status != http.StatusTeapot || !strings.Contains(r.body, "sold out") {
		t.Errorf("strict: %+v", r)
	}
	if o := s.outcome(t); o != idempotency.OutcomeReleased {
		t.Errorf("outcome %s", o)
	}
	edge := idempotency.NewEdge[struct{}](failing{refused}, idempotency.Unscoped)
	w := httptest.NewRecorder()
	r := httptest.NewRequest("POST", "/pay", strings.NewReader("{}"))
	r.Header.Set("Idempotency-Key", "k")
	err := edge.Handle(w, r, &payOperation, nil, func(w http.ResponseWriter, _ *http.Request, _ struct{}, _ *idempotency.Call) error { return nil })
	if err != nil || w.Code != 500 || strings.Contains(w.Body.String(), "sold out") {
		t.Errorf("plain: %v, %d %s", err, w.Code, w.Body)
	}
}

// A caller without a key is told what is true without one: no text speaks of its
// key, and what nobody can find out is not to be sent again.
func TestStoreErrorsWithoutKey(t *testing.T) {
	t.Parallel()
	op := payOperation
	op.Optional = true
	unknown := &idempotency.Error{Code: idempotency.CodeOutcomeUnknown, Detail: "try the same key again", RetryAfter: time.Minute}
	for _, c := range []struct {
		store      idempotency.Store[struct{}]
		code       idempotency.Code
		retryAfter string
		detail     string
	}{
		{failing{idempotency.ErrOutcomeUnknown}, idempotency.CodeOutcomeUnknown, "", "without a key a retry may repeat it"},
		{failing{unknown}, idempotency.CodeOutcomeUnknown, "", "without a key a retry may repeat it"},
		{failing{idempotency.ErrUnavailable}, idempotency.CodeUnavailable, "1", "send it again, with its key if it has one"},
		{failing{&idempotency.Error{Code: idempotency.CodeTransactionEnded}}, idempotency.CodeTransactionEnded, "", "look before you send it again"},
		{failing{errors.New("a cause")}, idempotency.CodeInternal, "", "nothing of it was kept"},
		{memstore.New(), idempotency.CodeResponseTooLarge, "", "nothing was kept"},
	} {
		s := serveOn(t, c.store, op, answers(201, "{}"), idempotency.WithResponseLimit(1))
		r := s.send(t, `{}`, "Idempotency-Key", "<none>")
		var p idempotency.Problem
		if err := json.Unmarshal([]byte(r.body), &p); err != nil {
			t.Fatal(err)
		}
		if p.Code != c.code || p.Retryable != (c.retryAfter != "") || r.header.Get("Retry-After") != c.retryAfter || !strings.Contains(p.Detail, c.detail) {
			t.Errorf("%s: %+v", c.code, r)
		}
		if strings.Contains(p.Detail, "same key") {
			t.Errorf("%s: there is no key: %s", c.code, p.Detail)
		}
		if o := s.outcome(t); c.code == idempotency.CodeOutcomeUnknown && o != idempotency.OutcomeOutcomeUnknown {
			t.Errorf("%s: outcome %s", c.code, o)
		}
	}
}

// Many copies of one request run one handler; all others are told in flight
// or get its answer.
// Covers CON-01, CON-09.
func TestHerd(t *testing.T) {
	t.Parallel()
	s := serve(t, payOperation, answers(201, "one"))
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			for {
				switch r := s.send(t, `{}`); r.status {
				case 201:
					return
				case 409:
				default:
					t.Errorf("%+v", r)
					return
				}
			}
		})
	}
	wg.Wait()
	if n := s.runs.Load(); n != 1 {
		t.Errorf("%d runs", n)
	}
}

// LogTo names the record, never the key or the payload.
func TestLogTo(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	observe := idempotency.LogTo(slog.New(slog.NewTextHandler(&buf, nil)))
	id := idempotency.Identity{Scope: "s", Operation: "pay", Key: "secret-key"}
	observe(t.Context(), idempotency.Event{Operation: "pay", Scope: "s", Key: "secret-key", Outcome: idempotency.OutcomeMismatch, Err: idempotency.ErrMismatch})
	got := buf.String()
	if strings.Contains(got, "secret-key") || !strings.Contains(got, fmt.Sprintf("record=%x", id.ID())) || !strings.Contains(got, "level=WARN") || !strings.Contains(got, "outcome=mismatch") {
		t.Error(got)
	}
}

// A middleware that has parsed the form has used the body up. What it parsed
// counts as the body: it is what the handler sees.
// Covers FPR-01, FPR-18.
func TestFormParsedEarlier(t *testing.T) {
	t.Parallel()
	op := payOperation
	op.Bodies = []idempotency.Body{{MediaType: "application/x-www-form-urlencoded", Kind: idempotency.BodyRaw}}
	edge := idempotency.NewEdge[struct{}](memstore.New(), idempotency.Unscoped)
	send := func(form string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("POST", "/pay?tip=1", strings.NewReader(form))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Idempotency-Key", "k")
		if err := r.ParseForm(); err != nil {
			t.Fatal(err)
		}
		edge.ServeHTTP(w, r, &op, func(w http.ResponseWriter, r *http.Request) {
			answer, err := edge.Run(r.Context(), &op, func(context.Context, struct{}, *idempotency.Call) (idempotency.Visit, error) {
				return answers(201, r.PostForm.Get("amount"))(nil, nil)
			})
			if err == nil {
				err = answer.WriteTo(w)
			}
			if err != nil {
				t.Error(err)
			}
		})
		return w
	}
	if w := send("amount=1&to=bob"); w.Code != 201 || w.Body.String() != "1" {
		t.Errorf("first: %d %s", w.Code, w.Body)
	}
	if w := send("amount=9&to=bob"); w.Code != 422 {
		t.Errorf("another form under the same key: %d %s", w.Code, w.Body)
	}
	if w := send("amount=1&to=bob"); w.Code != 201 || w.Header().Get("Idempotent-Replayed") != "true" {
		t.Errorf("retry: %d %s", w.Code, w.Body)
	}
}

// A header is left out of the record in whatever case the handler wrote it.
// Covers RSP-03.
func TestUnstoredHeadersInAnyCase(t *testing.T) {
	t.Parallel()
	s := serve(t, payOperation, func(context.Context, *idempotency.Call) (idempotency.Visit, error) {
		return func(w http.ResponseWriter) error {
			w.Header()["WWW-Authenticate"] = []string{"v"}
			w.Header()["set-cookie"] = []string{"session=alice"}
			w.Header()["x-RateLimit-Left"] = []string{"v"}
			w.WriteHeader(201)
			return nil
		}, nil
	})
	first, second := s.send(t, `{}`), s.send(t, `{}`)
	for _, name := range []string{"Www-Authenticate", "Set-Cookie", "X-Ratelimit-Left"} {
		if first.header.Get(name) == "" || second.header.Get(name) != "" {
			t.Errorf("%s: first %q, replay %q", name, first.header.Get(name), second.header.Get(name))
		}
	}
}

// Who changes the headers of one answer on their way out changes no other.
func TestAnswersShareNoHeaders(t *testing.T) {
	t.Parallel()
	edge := idempotency.NewEdge[struct{}](memstore.New(), idempotency.Unscoped)
	for _, key := range []string{"a", "b", "b"} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("POST", "/pay", nil)
		r.Header.Set("Idempotency-Key", key)
		edge.ServeHTTP(w, r, &payOperation, func(w http.ResponseWriter, r *http.Request) {
			answer, err := edge.Run(r.Context(), &payOperation, func(context.Context, struct{}, *idempotency.Call) (idempotency.Visit, error) {
				return answers(201, "")(nil, nil)
			})
			if err == nil {
				err = answer.WriteTo(w)
			}
			if err != nil {
				t.Error(err)
			}
		})
		control := w.Header()["Cache-Control"]
		if len(control) != 1 || control[0] != "no-store" {
			t.Errorf("%s: Cache-Control %q", key, control)
		}
		control[0] = "public"
	}
}

// An answer that is not as long as it says is not kept: the client could not
// have read it.
func TestDeclaredLength(t *testing.T) {
	t.Parallel()
	for length, want := range map[string]int{"4": 201, "5": http.StatusTeapot, "3": http.StatusTeapot} {
		s := serve(t, payOperation, answers(201, "body", "Content-Length", length))
		for range 2 {
			if r := s.send(t, `{}`); r.status != want || want == 201 && r.body != "body" {
				t.Errorf("Content-Length %s: %+v", length, r)
			}
		}
		if runs := s.runs.Load(); (runs == 1) != (want == 201) {
			t.Errorf("Content-Length %s: %d runs", length, runs)
		}
	}
}

// A scope that a database cannot keep as text says as little as none.
// Covers SEC-02.
func TestScopeIsText(t *testing.T) {
	t.Parallel()
	for _, scope := range []string{"", "caf\xe9", "tenant\x00"} {
		edge := idempotency.NewEdge[struct{}](memstore.New(), func(context.Context, http.Header) (string, error) { return scope, nil })
		w := httptest.NewRecorder()
		r := httptest.NewRequest("POST", "/pay", nil)
		r.Header.Set("Idempotency-Key", "k")
		edge.ServeHTTP(w, r, &payOperation, func(http.ResponseWriter, *http.Request) { t.Errorf("%q: next was called", scope) })
		if w.Code != 401 || !strings.Contains(w.Body.String(), string(idempotency.CodeScopeMissing)) {
			t.Errorf("%q: %d %s", scope, w.Code, w.Body)
		}
	}
}

// A middleware between the edge and the handler may give up on a handler that
// still runs. The request is then reported as it is at that moment, and what
// the handler does later is kept.
func TestAbandonedHandler(t *testing.T) {
	t.Parallel()
	entered, finish, finished := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	events := make(chan idempotency.Event, 1)
	edge := idempotency.NewEdge[struct{}](memstore.New(), idempotency.Unscoped,
		idempotency.WithObserver(func(_ context.Context, e idempotency.Event) { events <- e }))
	send := func(next func(http.ResponseWriter, *http.Request)) {
		r := httptest.NewRequest("POST", "/pay", strings.NewReader(`{}`))
		r.Header.Set("Idempotency-Key", "k")
		edge.ServeHTTP(httptest.NewRecorder(), r, &payOperation, next)
	}
	send(func(_ http.ResponseWriter, r *http.Request) {
		go func() {
			_, err := edge.Run(r.Context(), &payOperation, func(context.Context, struct{}, *idempotency.Call) (idempotency.Visit, error) {
				close(entered)
				<-finish
				return answers(201, "ok")(nil, nil)
			})
			finished <- err
		}()
		<-entered
		close(finish) // so that it finishes while the request is being reported
	})
	if e := <-events; e.Outcome != idempotency.OutcomeReleased && e.Outcome != idempotency.OutcomeExecuted {
		t.Errorf("outcome %s", e.Outcome)
	}
	if err := <-finished; err != nil {
		t.Error(err)
	}
	send(func(_ http.ResponseWriter, r *http.Request) {
		if _, err := edge.Run(r.Context(), &payOperation, nil); err != nil {
			t.Error(err)
		}
	})
	if e := <-events; e.Outcome != idempotency.OutcomeReplayed {
		t.Errorf("the retry's outcome %s", e.Outcome)
	}
}

// What a middleware has set stays beside the answer where it adds up, and gives
// way where it does not, on the first answer and on a replay.
func TestAnswerBesideMiddlewares(t *testing.T) {
	t.Parallel()
	op := payOperation
	edge := idempotency.NewEdge(memstore.New(), idempotency.Unscoped)
	for _, cookies := range [][]string{{"session=1", "seen=1"}, {"session=1"}} { // a replay sets none of the handler's
		r := httptest.NewRequest("POST", "/pay", strings.NewReader("{}"))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", "k1")
		w := httptest.NewRecorder()
		w.Header().Set("Set-Cookie", "session=1")
		w.Header().Set("Vary", "Origin")
		w.Header().Set("Cache-Control", "no-cache")
		edge.ServeHTTP(w, r, &op, func(w http.ResponseWriter, r *http.Request) {
			answer, err := edge.Run(r.Context(), &op, func(ctx context.Context, _ struct{}, call *idempotency.Call) (idempotency.Visit, error) {
				return answers(201, "{}", "Set-Cookie", "seen=1", "Vary", "Accept", "Cache-Control", "private")(ctx, call)
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := answer.WriteTo(w); err != nil {
				t.Error(err)
			}
		})
		h := w.Result().Header
		if !slices.Equal(h["Set-Cookie"], cookies) || !slices.Equal(h["Vary"], []string{"Origin", "Accept"}) || !slices.Equal(h["Cache-Control"], []string{"private"}) {
			t.Errorf("header %v, want cookies %v, Vary Origin and Accept, Cache-Control private", h, cookies)
		}
	}
}
