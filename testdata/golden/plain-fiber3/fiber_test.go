package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/oapi-codegen/runtime"
	openapi_types "github.com/oapi-codegen/runtime/types"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
	"github.com/idemgen/idemgen/testdata/drive"
)

// This file is the same for both versions of fiber.

// cancels: fiber does not learn that a caller has gone before it answers.
const cancels = false

// serve serves s where multipart bodies come as they were sent.
func serve(t *testing.T, s *service, opts ...idempotency.Option) string {
	t.Helper()
	return serveWith(t, config{DisablePreParseMultipartForm: true}, NewIdempotentHandler(handlers{s}, memstore.New(), drive.ByUser, opts...))
}

// caller is what a middleware puts into fiber's locals, with a string of fiber's.
type caller struct{ name string }

func byCaller(ctx context.Context, _ http.Header) (string, error) {
	c, _ := ctx.Value("caller").(caller)
	return c.name, nil
}

// around is a middleware that says who the caller is, and sees the context as it
// was when the others have returned.
func around(t *testing.T) func(fiberContext) error {
	return func(c fiberContext) error {
		if user := c.Get("X-User"); user != "" {
			c.Locals("user", user)
			c.Locals("caller", caller{user})
		}
		before := contextOf(c)
		defer func() {
			if contextOf(c) != before {
				t.Error("the context is not put back")
			}
		}()
		return c.Next()
	}
}

// handlers write the answers of a service.
type handlers struct{ *service }

var _ IdempotentServer[struct{}] = handlers{}

func write(c fiberContext, a answer, err error) error {
	if err != nil {
		return err
	}
	c.Status(a.status)
	for name, lines := range a.header {
		for _, line := range lines {
			c.Response().Header.Add(name, line)
		}
	}
	if a.body == "" {
		return nil
	}
	return c.SendString(a.body)
}

func (h handlers) CreatePayment(c fiberContext, _ struct{}, req CreatePaymentIdempotentRequest) error {
	a, err := h.createPayment(contextOf(c), bytes.NewReader(c.Body()), req)
	return write(c, a, err)
}

func (h handlers) GetPayment(c fiberContext, paymentID openapi_types.UUID) error {
	return write(c, h.getPayment(paymentID), nil)
}

func (h handlers) CancelPayment(c fiberContext, _ struct{}, req CancelPaymentIdempotentRequest) error {
	return write(c, h.cancelPayment(req), nil)
}

func (h handlers) CloseAccount(c fiberContext, _ struct{}, req CloseAccountIdempotentRequest) error {
	return write(c, h.closeAccount(req), nil)
}

func (h handlers) PostRefunds(c fiberContext, _ struct{}, req PostRefundsIdempotentRequest) error {
	return write(c, h.postRefunds(req), nil)
}

func (h handlers) AddNote(c fiberContext, _ struct{}, req AddNoteIdempotentRequest) error {
	return write(c, h.addNote(req), nil)
}

func (h handlers) PutDocument(c fiberContext, _ struct{}, req PutDocumentIdempotentRequest) error {
	return write(c, h.putDocument(req), nil)
}

func (h handlers) SubmitForm(c fiberContext, _ struct{}, req SubmitFormIdempotentRequest) error {
	return write(c, h.submitForm(req), nil)
}

func (h handlers) PostParts(c fiberContext, _ struct{}, req PostPartsIdempotentRequest) error {
	return write(c, h.postParts(req), nil)
}

func (h handlers) PostImage(c fiberContext, _ struct{}, req PostImageIdempotentRequest) error {
	return write(c, h.postImage(req), nil)
}

func (h handlers) Upload(c fiberContext, _ struct{}, req UploadIdempotentRequest) error {
	return write(c, h.upload(req), nil)
}

// paying has a handler of its own for payments.
type paying struct {
	handlers
	pay func(c fiberContext, req CreatePaymentIdempotentRequest) error
}

func (p paying) CreatePayment(c fiberContext, _ struct{}, req CreatePaymentIdempotentRequest) error {
	p.runs.Add(1)
	return p.pay(c, req)
}

func payingWith(pay func(c fiberContext) error) paying {
	return paying{
		handlers{&service{Bank: new(drive.Bank)}},
		func(c fiberContext, _ CreatePaymentIdempotentRequest) error { return pay(c) },
	}
}

var aPayment = payment(`{"to":"b","amount":1}`)

// failing is a reader that fails at its end.
type failing struct{ io.Reader }

func (f failing) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = errors.New("the source is cut")
	}
	return n, err
}

// What fiber's handlers can do ends in an answer that is kept, or in one of
// fiber's error handler, or a problem, and a key that is free.
func TestFiber(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "a.txt")
	if err := os.WriteFile(file, []byte(strings.Repeat("a file ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		pay    func(c fiberContext) error
		status int
		part   string // of the body
		kept   bool
	}{
		"json":       {func(c fiberContext) error { return c.Status(201).JSON(map[string]int{"a": 1}) }, 201, `{"a":1}`, true},
		"nothing":    {func(fiberContext) error { return nil }, 200, "", true},
		"status":     {func(c fiberContext) error { return c.SendStatus(404) }, 404, "Not Found", true},
		"no content": {func(c fiberContext) error { return c.SendStatus(204) }, 204, "", true},
		"an error":   {func(fiberContext) error { return newError(409, "not now") }, 409, "not now", false},
		"half of it": {func(c fiberContext) error {
			c.Set("X-Half", "half")
			_ = c.SendString("half")
			return newError(418, "broken")
		}, 418, "broken", false},
		"released":           {func(c fiberContext) error { return c.Status(429).SendString("slowly") }, 429, "slowly", false},
		"business":           {func(c fiberContext) error { return c.Status(422).SendString("no money") }, 422, "no money", true},
		"file":               {func(c fiberContext) error { return c.SendFile(file) }, 200, "a file a file", true},
		"stream of a length": {func(c fiberContext) error { return c.SendStream(strings.NewReader("a stream"), 8) }, 200, "a stream", true},
		"short stream":       {func(c fiberContext) error { return c.SendStream(strings.NewReader("a stream"), 9) }, 500, "nothing of it was kept", false},
		"failing stream":     {func(c fiberContext) error { return c.SendStream(failing{strings.NewReader("half")}, 4) }, 500, "the source is cut", false},
		"stream":             {func(c fiberContext) error { return c.SendStream(strings.NewReader("half")) }, 500, "stream it", false},
		"stream writer": {func(c fiberContext) error {
			fasthttpOf(c).SetBodyStreamWriter(func(w *bufio.Writer) { _, _ = w.WriteString("half") })
			return nil
		}, 500, "stream it", false},
		"hijack": {func(c fiberContext) error {
			fasthttpOf(c).HijackSetNoResponse(true)
			fasthttpOf(c).Hijack(func(net.Conn) { t.Error("the connection was handed over") })
			return c.SendString("half")
		}, 500, "tried to hijack", false},
		"hijack, then an error": {func(c fiberContext) error {
			fasthttpOf(c).Hijack(func(net.Conn) { t.Error("the connection was handed over") })
			return newError(418, "broken")
		}, 418, "broken", false},
		"upgrade": {func(c fiberContext) error { return c.SendStatus(101) }, 500, "tried to switch protocols", false},
		"panic": {func(c fiberContext) error {
			_ = c.SendString("half")
			panic("broken")
		}, 500, "broken", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := payingWith(test.pay)
			url := serveWith(t, config{}, NewIdempotentHandler(s, memstore.New(), drive.ByUser))
			for range 2 {
				got := drive.Send(t, url, aPayment, keyHeader, "k")
				if got.Status != test.status || !strings.Contains(got.Body, test.part) || strings.Contains(got.Wire, "half") {
					t.Errorf("%q, want %d %s", got.Wire, test.status, test.part)
				}
				if got.Status == 500 && strings.Contains(test.part, "tried to") && !strings.Contains(got.Body, "the answer of createPayment") {
					t.Errorf("%s does not name the operation", got.Body)
				}
			}
			if want := map[bool]int32{true: 1, false: 2}[test.kept]; s.runs.Load() != want {
				t.Errorf("%d runs, want %d", s.runs.Load(), want)
			}
		})
	}
}

// A handler reads from fiber's context what it always has, and the context that
// it finds there is that of its run.
func TestContext(t *testing.T) {
	t.Parallel()
	type local struct{}
	own := make(chan any, 1)
	s := payingWith(func(c fiberContext) error {
		ctx := contextOf(c)
		_, err := idempotency.Derive[AddNoteOp](ctx, "note")
		c.Locals(local{}, "set in the handler")
		return c.SendString(fmt.Sprint(c.Method(), c.Path(), c.Params("account_id"), c.Query("dry_run"), c.Get("X-Trace"),
			c.IP(), c.Route().Path, c.Locals("user"), ctx.Value("user"), string(c.Body()), err))
	})
	handler := NewIdempotentHandler(s, memstore.New(), drive.ByUser)
	r := aPayment
	r.Header = http.Header{"X-User": {"alice"}, "X-Trace": {"t"}}
	url := serveWith(t, config{}, seeing{handler, func(c fiberContext) { own <- c.Locals(local{}) }})
	got := drive.Send(t, url, r, keyHeader, "k")
	want := fmt.Sprint("POST", "/accounts/a/payments", "a", "true", "t", "127.0.0.1", "/accounts/:account_id/payments", "alice", "alice", r.Body, nil)
	if got.Status != 200 || got.Body != want {
		t.Errorf("%d %s, want %s", got.Status, got.Body, want)
	}
	if value := <-own; value != "set in the handler" {
		t.Errorf("after the handler the local is %v", value)
	}
}

// seeing is a wrapper of users around what idemgen generates.
type seeing struct {
	ServerInterface
	after func(c fiberContext)
}

func (s seeing) CreatePayment(c fiberContext, accountID string, params CreatePaymentParams) error {
	err := s.ServerInterface.CreatePayment(c, accountID, params)
	s.after(c)
	return err
}

// direct is a server without idempotency.
type direct struct {
	ServerInterface
	pay func(c fiberContext) error
}

func (d direct) CreatePayment(c fiberContext, _ string, _ CreatePaymentParams) error { return d.pay(c) }

// An answer has the header lines that it has without idempotency, and no others.
func TestAnswersAreAsDirectOnes(t *testing.T) {
	t.Parallel()
	for name, pay := range map[string]func(c fiberContext) error{
		"nothing":    func(fiberContext) error { return nil },
		"json":       func(c fiberContext) error { return c.Status(201).JSON([]int{1}) },
		"no content": func(c fiberContext) error { return c.SendStatus(204) },
		"lines of one field": func(c fiberContext) error {
			c.Append("Link", "<a>", "<b>")
			c.Response().Header.Add("X-Twice", "a")
			c.Response().Header.Add("X-Twice", "b")
			return nil
		},
		"default type": func(c fiberContext) error { return c.SendString("text") },
		"own type": func(c fiberContext) error {
			c.Type("xml")
			c.Set("Content-Encoding", "x")
			return c.SendString("text")
		},
		"trailer": func(c fiberContext) error {
			if err := c.Response().Header.AddTrailer("X-Sum"); err != nil {
				return err
			}
			c.Set("X-Sum", "1")
			return c.SendString("text")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer := func(c fiberContext) error {
				c.Set("Cache-Control", "no-cache") // else we add one
				return pay(c)
			}
			want := drive.Send(t, serveWith(t, config{}, direct{pay: answer}), aPayment, keyHeader, "k").Wire
			want = strings.Replace(want, "Trailer: X-Sum\r\n", "", 1)
			url := serveWith(t, config{}, NewIdempotentHandler(payingWith(answer), memstore.New(), drive.ByUser))
			for _, replayed := range []string{"", "Idempotent-Replayed: true\r\n"} {
				got := drive.Send(t, url, aPayment, keyHeader, "k")
				if sorted(got.Wire) != sorted(strings.Replace(want, "\r\n\r\n", "\r\n"+replayed+"\r\n", 1)) {
					t.Errorf("%q\nwant %q", got.Wire, want)
				}
			}
		})
	}
}

// sorted is an answer with its header lines in order and without the date; what
// order fields of different names come in means nothing (RFC 9110 section 5.3).
func sorted(wire string) string {
	head, body, _ := strings.Cut(wire, "\r\n\r\n")
	lines := slices.DeleteFunc(strings.Split(head, "\r\n"), func(line string) bool { return strings.HasPrefix(line, "Date: ") })
	slices.SortStableFunc(lines[1:], func(a, b string) int {
		nameA, _, _ := strings.Cut(a, ":")
		nameB, _, _ := strings.Cut(b, ":")
		return strings.Compare(nameA, nameB)
	})
	return strings.Join(lines, "\r\n") + "\r\n\r\n" + body
}

// preparing is a middleware that writes to the response before the handler does.
type preparing struct{ ServerInterface }

func (p preparing) CreatePayment(c fiberContext, accountID string, params CreatePaymentParams) error {
	c.Cookie(&cookie{Name: "session", Value: "s"})
	c.Set("X-Before", "before")
	c.Set("Location", "/before")
	if err := c.SendString("before"); err != nil {
		return err
	}
	return p.ServerInterface.CreatePayment(c, accountID, params)
}

// What middlewares have put into the response stays there for each caller. The
// answer has what the handler wrote, and replays no cookies.
func TestResponseOfMiddlewares(t *testing.T) {
	t.Parallel()
	s := payingWith(func(c fiberContext) error {
		if before := c.GetRespHeader("X-Before"); before != "" {
			t.Errorf("the handler sees %s in its answer", before)
		}
		c.Cookie(&cookie{Name: "paid", Value: "yes"})
		c.Set("Location", "/payments/1")
		return c.SendString("after")
	})
	url := serveWith(t, config{}, preparing{NewIdempotentHandler(s, memstore.New(), drive.ByUser)})
	for i, cookies := range []string{"session=s paid=yes", "session=s"} {
		got := drive.Send(t, url, aPayment, keyHeader, "k")
		var names []string
		for _, line := range got.Header.Values("Set-Cookie") {
			name, _, _ := strings.Cut(line, ";")
			names = append(names, name)
		}
		if all := strings.Join(names, " "); got.Body != "after" || got.Header.Get("X-Before") != "before" || !slices.Equal(got.Header.Values("Location"), []string{"/payments/1"}) || all != cookies {
			t.Errorf("answer %d: %q, want cookies %s", i, got.Wire, cookies)
		}
	}
}

// after is a store that has something done between the commit and the answer.
type after struct {
	idempotency.Store[struct{}]
	do func()
}

func (a *after) Execute(ctx context.Context, req idempotency.Request, work idempotency.Work[struct{}]) (idempotency.Result, error) {
	result, err := a.Store.Execute(ctx, req, work)
	a.do()
	return result, err
}

// What a goroutine writes when the handler has returned is in no answer.
func TestLateWrites(t *testing.T) {
	t.Parallel()
	store := &after{Store: memstore.New(), do: func() {}}
	s := payingWith(func(c fiberContext) error {
		store.do = func() {
			store.do = func() {}
			c.Set("X-Late", "late")
			if err := c.Status(500).SendString("late"); err != nil {
				t.Error(err)
			}
		}
		return c.Status(201).SendString("in time")
	})
	url := serveWith(t, config{}, NewIdempotentHandler(s, store, drive.ByUser))
	for range 2 {
		if got := drive.Send(t, url, aPayment, keyHeader, "k"); got.Status != 201 || got.Body != "in time" {
			t.Errorf("%q", got.Wire)
		}
	}
}

// losing is a store whose first commit loses a conflict each time.
type losing struct{ idempotency.Store[struct{}] }

func (l losing) Execute(ctx context.Context, req idempotency.Request, work idempotency.Work[struct{}]) (idempotency.Result, error) {
	if _, err := work(ctx, struct{}{}); err != nil {
		return idempotency.Result{}, err
	}
	if !req.MayRerun() {
		return idempotency.Result{}, idempotency.ErrUnavailable
	}
	return l.Store.Execute(ctx, req, work)
}

// Each run has the whole request, and a response that no other run has written to.
func TestRuns(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		n := 0
		s := payingWith(func(c fiberContext) error {
			n++
			c.Response().Header.Add("X-Run", fmt.Sprint(n))
			if !stream {
				return c.Send(c.Body())
			}
			_, err := io.Copy(c, c.Request().BodyStream())
			return err
		})
		url := serveWith(t, config{StreamRequestBody: stream}, NewIdempotentHandler(s, losing{memstore.New()}, drive.ByUser))
		long := payment(`{"to":"` + strings.Repeat("b", 1<<13) + `","amount":1}`)
		got := drive.Send(t, url, long, keyHeader, "k")
		if runs := got.Header.Values("X-Run"); got.Body != long.Body || !slices.Equal(runs, []string{"2"}) || n != 2 {
			t.Errorf("body of a stream %t: %.100q, runs %v", stream, got.Body, runs)
		}
	}
}

// The handlers after this one are part of it. Fiber cannot go back to it, so it
// does not run again after a conflict.
func TestNext(t *testing.T) {
	t.Parallel()
	s := payingWith(func(c fiberContext) error {
		c.Set("X-Before", c.Params("account_id"))
		return c.Next()
	})
	next := func(c fiberContext) error { return c.Status(202).SendString("next") }
	url := serveWith(t, config{}, NewIdempotentHandler(s, memstore.New(), drive.ByUser), next)
	for _, replayed := range []string{"", "true"} {
		got := drive.Send(t, url, aPayment, keyHeader, "k")
		if got.Status != 202 || got.Body != "next" || got.Header.Get("X-Before") != "a" || got.Header.Get("Idempotent-Replayed") != replayed {
			t.Errorf("%q", got.Wire)
		}
	}
	if runs := s.runs.Load(); runs != 1 {
		t.Errorf("%d runs, want 1", runs)
	}
	url = serveWith(t, config{}, NewIdempotentHandler(s, losing{memstore.New()}, drive.ByUser), next)
	if got := drive.Send(t, url, aPayment, keyHeader, "k"); got.Status != 503 || s.runs.Load() != 2 {
		t.Errorf("after a conflict: %d %s, %d runs", got.Status, got.Body, s.runs.Load())
	}
}

// keeper keeps the requests and the contexts that it was given.
type keeper struct {
	handlers
	mu       sync.Mutex
	contexts []context.Context
	payments []CreatePaymentIdempotentRequest
	forms    []SubmitFormIdempotentRequest
}

func (k *keeper) CreatePayment(c fiberContext, _ struct{}, req CreatePaymentIdempotentRequest) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.contexts, k.payments = append(k.contexts, contextOf(c)), append(k.payments, req)
	c.Set("X-Account", c.Params("account_id"))
	return c.SendString(req.Input().Body.To + c.Get("X-Trace"))
}

func (k *keeper) SubmitForm(c fiberContext, _ struct{}, req SubmitFormIdempotentRequest) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forms = append(k.forms, req)
	return c.SendString(c.FormValue("color"))
}

// Fiber overwrites its strings with the next request. What a handler is given,
// what is stored and whose it is stay as they were.
func TestStringsLast(t *testing.T) {
	t.Parallel()
	const n = 40
	k := new(keeper)
	url := serveWith(t, config{}, NewIdempotentHandler(k, memstore.New(), byCaller))
	of := func(i int, r drive.Request) drive.Request {
		r.Header = http.Header{
			"X-User": {fmt.Sprintf("user-%02d", i)}, "X-Trace": {fmt.Sprintf("trace-%02d", i)}, "Cookie": {fmt.Sprintf("session=session-%02d", i)},
		}
		return r
	}
	key := func(i int) string { return fmt.Sprintf("key-%02d", i) }
	for _, replayed := range []string{"", "true"} {
		for i := range n {
			got := drive.Send(t, url, of(i, request("POST", fmt.Sprintf("/accounts/account-%02d/payments", i), "application/json", fmt.Sprintf(`{"to":"to-%02d","amount":1}`, i))), keyHeader, key(i))
			if want := fmt.Sprintf("to-%02[1]dtrace-%02[1]d", i); got.Status != 200 || got.Body != want || got.Header.Get("X-Account") != fmt.Sprintf("account-%02d", i) || got.Header.Get("Idempotent-Replayed") != replayed {
				t.Fatalf("request %d: %q, replayed %q, want %q", i, got.Wire, replayed, want)
			}
		}
	}
	for i := range n {
		want := fmt.Sprintf("color-%02d", i)
		if got := drive.Send(t, url, of(i, request("POST", "/forms", "application/x-www-form-urlencoded", "color="+want)), keyHeader, key(i)); got.Status != 200 || got.Body != want {
			t.Fatalf("form %d: %d %q, want 200 %q", i, got.Status, got.Body, want)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.payments) != n || len(k.forms) != n {
		t.Fatalf("%d payments and %d forms, want %d of each", len(k.payments), len(k.forms), n)
	}
	for i := range n {
		in := k.payments[i].Input()
		got := fmt.Sprint(in.AccountId, in.Body.To, *in.Params.XTrace, *in.Params.Session, k.payments[i].IdempotencyKey, k.forms[i].Input().Body.Color, k.contexts[i].Value("user"))
		if want := fmt.Sprintf("account-%02[1]dto-%02[1]dtrace-%02[1]dsession-%02[1]dkey-%02[1]dcolor-%02[1]duser-%02[1]d", i); got != want {
			t.Errorf("kept %s, want %s", got, want)
		}
	}
}

// A request's body can be a stream: fiber's own limit is not asked, ours is.
func TestStreamedBodies(t *testing.T) {
	t.Parallel()
	s := payingWith(func(c fiberContext) error { return c.Status(201).Send(c.Body()) })
	handler := NewIdempotentHandler(s, memstore.New(), drive.ByUser, idempotency.WithRequestLimit(1<<14))
	var after atomic.Int64
	url := serveWith(t, config{StreamRequestBody: true}, seeing{handler, func(c fiberContext) {
		if c.Response().StatusCode() == 201 {
			after.Store(int64(len(c.Body())))
		}
	}})
	const long = 1 << 13 // more than fasthttp reads before it calls the handler
	text := func(n int) string { return `{"to":"` + strings.Repeat("b", n) + `","amount":1}` }
	client := new(http.Client)
	send := func(what string, n int, chunked bool, key string, status int) {
		t.Helper()
		var body io.Reader = strings.NewReader(text(n))
		if chunked {
			body = io.MultiReader(body)
		}
		r, err := http.NewRequestWithContext(t.Context(), "POST", url+"/accounts/a/payments", body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"X-User": {"alice"}, "Content-Type": {"application/json"}, keyHeader: {key}}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != status || status == 201 && string(answer) != text(n) {
			t.Errorf("%s: %d %.200q, %v, want %d", what, resp.StatusCode, answer, err, status)
		}
		if read := after.Swap(0); status == 201 && read != int64(len(answer)) {
			t.Errorf("%s: a middleware reads %d bytes afterwards", what, read)
		}
		if refused := status >= 400; resp.Close != refused {
			t.Errorf("%s: the connection closes: %v, want %v", what, resp.Close, refused)
		}
	}
	send("first", long, false, "k", 201)
	send("replay", long, false, "k", 201)
	send("replay in chunks", long, true, "k", 201)
	send("first in chunks", long, true, "k1", 201)
	send("bad key", long, false, "a,b", 400)
	send("after it", 1, false, "k2", 201)
	send("too long", 1<<14, false, "k3", 413)
	send("too long in chunks", 1<<14, true, "k3", 413)
	if runs := s.runs.Load(); runs != 3 {
		t.Errorf("%d runs, want 3", runs)
	}
}

// filing reads the form of its multipart bodies from fiber's context.
type filing struct{ handlers }

func (f filing) PostParts(c fiberContext, _ struct{}, _ PostPartsIdempotentRequest) error {
	f.ran()
	file, err := c.FormFile("file")
	if err != nil {
		return err
	}
	return c.SendString(c.FormValue("name") + " " + file.Filename)
}

// A multipart body is taken as it was sent, and not as fasthttp puts it together
// again, in another order each time. The handler can still have fiber parse it.
func TestMultipartBodies(t *testing.T) {
	t.Parallel()
	parts := func(boundary string) drive.Request {
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		err := errors.Join(w.SetBoundary(boundary), w.WriteField("name", "a"))
		file, fileErr := w.CreateFormFile("file", "a.txt")
		if err := errors.Join(err, fileErr); err != nil {
			t.Fatal(err)
		}
		_, err = file.Write([]byte("content"))
		if err := errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		return request("POST", "/parts", w.FormDataContentType(), b.String())
	}
	for _, stream := range []bool{false, true} {
		s := filing{handlers{&service{Bank: new(drive.Bank)}}}
		handler := NewIdempotentHandler(s, losing{memstore.New()}, drive.ByUser)
		got := drive.Send(t, serveWith(t, config{StreamRequestBody: stream}, handler), parts("a"), keyHeader, "k")
		if got.Status != 415 || !strings.Contains(got.Body, "DisablePreParseMultipartForm") {
			t.Errorf("%d %q, want 415", got.Status, got.Body)
		}
		url := serveWith(t, config{StreamRequestBody: stream, DisablePreParseMultipartForm: true}, handler)
		got = drive.Send(t, url, parts("b"), keyHeader, "k")
		if got.Status != 200 || got.Body != "a a.txt" || s.runs.Load() != 2 {
			t.Errorf("%d %q, %d runs", got.Status, got.Body, s.runs.Load())
		}
	}
}

// Bodies are read by the decoder of the application, unless another one is given.
func TestDecoder(t *testing.T) {
	t.Parallel()
	decoder := func(to string) func([]byte, any) error {
		return func(b []byte, v any) error {
			if err := json.Unmarshal(b, v); err != nil {
				return err
			}
			v.(*NewPayment).To = to
			return nil
		}
	}
	s := paying{handlers{&service{Bank: new(drive.Bank)}}, func(c fiberContext, req CreatePaymentIdempotentRequest) error {
		return c.SendString(req.Input().Body.To)
	}}
	for want, opts := range map[string][]idempotency.Option{
		"app": nil,
		"own": {idempotency.WithJSONDecoder(func(r *http.Request, v any) error {
			if user := r.Context().Value("user"); user != "alice" {
				return fmt.Errorf("the local is %v", user)
			}
			b, err := io.ReadAll(r.Body)
			return errors.Join(err, decoder("own")(b, v))
		})},
	} {
		url := serveWith(t, config{JSONDecoder: decoder("app")}, NewIdempotentHandler(s, memstore.New(), drive.ByUser, opts...))
		if got := drive.Send(t, url, aPayment, keyHeader, "k"); got.Body != want {
			t.Errorf("%q, want %s", got.Wire, want)
		}
	}
	_, url := started(t)
	if got := drive.Send(t, url, request("POST", "/accounts/a/close", "application/json", " "), keyHeader, "k"); got.Body != "1 a no body" {
		t.Errorf("white space: %d %s", got.Status, got.Body)
	}
}

// validator leaves the value of refunds in fiber's locals, as oapi-codegen's
// middleware for fiber does.
type validator struct{ ServerInterface }

func (v validator) PostRefunds(c fiberContext) error {
	var value any
	if err := json.Unmarshal(c.Body(), &value); err != nil {
		return err
	}
	c.Locals("x-oapi-codegen-validated-body", value)
	return v.ServerInterface.PostRefunds(c)
}

// The handler gets what was validated. The application's decoder would give it
// another member, whose name differs in case alone.
func TestValidated(t *testing.T) {
	t.Parallel()
	decode := func(r *http.Request, v any) error {
		if value := r.Context().Value("x-oapi-codegen-validated-body"); value != nil {
			return runtime.BindJSONValue(value, v)
		}
		return json.NewDecoder(r.Body).Decode(v)
	}
	srv, store := handlers{&service{Bank: new(drive.Bank)}}, memstore.New()
	server := NewIdempotentHandler(srv, store, drive.ByUser, idempotency.WithJSONDecoder(decode))
	url := serveWith(t, config{}, validator{server})
	refund := request("POST", "/refunds", "application/vnd.refund+json", `{"amount":1,"Amount":1000}`)
	if got := drive.Send(t, url, refund, keyHeader, "k"); got.Status != 200 || got.Body != "1 1" {
		t.Errorf("refund: %d %s", got.Status, got.Body)
	}
	other := request("POST", "/accounts/a/close", "application/json", `{"reason":"tired"}`)
	if got := drive.Send(t, url, other, keyHeader, "k"); got.Status != 200 || got.Body != "2 a tired" {
		t.Errorf("not validated: %d %s", got.Status, got.Body)
	}
}

// A nil scope is refused at once, as on every other server.
func TestNilScope(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("a server without a scope")
		}
	}()
	NewIdempotentHandler(handlers{new(service)}, memstore.New(), nil)
}
