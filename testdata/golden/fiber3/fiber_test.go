package api

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
	"github.com/idemgen/idemgen/testdata/drive"
)

// This file is the same for both versions of fiber.

// keeper is a server that keeps what it is given for longer than a request.
type keeper struct {
	IdempotentServer[struct{}]
	mu       sync.Mutex
	contexts []context.Context
	derived  []string
	payments []CreatePaymentIdempotentRequest
	forms    []SubmitFormIdempotentRequest
}

func (k *keeper) CreatePayment(ctx context.Context, _ struct{}, req CreatePaymentIdempotentRequest) (CreatePaymentResponseObject, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	derived, err := idempotency.DeriveUUID(ctx, "step")
	if err != nil {
		return nil, err
	}
	k.contexts, k.derived, k.payments = append(k.contexts, ctx), append(k.derived, derived), append(k.payments, req)
	in := req.Input()
	return CreatePayment201JSONResponse{
		Body:    Payment{To: in.AccountId + in.Body.To, Amount: int64(len(k.payments))},
		Headers: CreatePayment201ResponseHeaders{Location: "/payments/1"},
	}, nil
}

func (k *keeper) SubmitForm(_ context.Context, _ struct{}, req SubmitFormIdempotentRequest) (SubmitFormResponseObject, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forms = append(k.forms, req)
	return SubmitForm200TextResponse(req.Input().Body.Color), nil
}

// caller is what a middleware puts into fiber's locals, with a string of fiber's.
type caller struct{ name string }

func byCaller(ctx context.Context, _ http.Header) (string, error) {
	c, _ := ctx.Value("caller").(caller)
	return c.name, nil
}

// Trailers are header fields to fasthttp: one can hold the key or the caller, and a
// key beside another one is one too many.
func TestTrailers(t *testing.T) {
	t.Parallel()
	url := serve(t, &server{Bank: new(drive.Bank)})
	for _, c := range []struct{ header, trailer, want string }{
		{"X-User: alice\r\n", "Idempotency-Key: k\r\n", "Location: /alice/payments/1\r\n"},
		{"Idempotency-Key: k\r\n", "X-User: bob\r\n", "Location: /bob/payments/1\r\n"},
		{"X-User: alice\r\nIdempotency-Key: k\r\n", "Idempotency-Key: k\r\n", "key_invalid"},
	} {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST /accounts/a/payments HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n%s"+
			"Transfer-Encoding: chunked\r\n\r\n15\r\n{\"to\":\"b\",\"amount\":1}\r\n0\r\n%s\r\n", c.header, c.trailer)
		got, err := io.ReadAll(conn)
		conn.Close()
		if err != nil || !strings.Contains(string(got), c.want) {
			t.Errorf("%q, %v; want %q", got, err, c.want)
		}
	}
}

// Fiber overwrites its strings with the next request. What a handler is given,
// what is stored and whose it is stay as they were.
func TestStringsLast(t *testing.T) {
	t.Parallel()
	const n = 40
	k := new(keeper)
	url := serveWith(t, config{}, NewIdempotentHandler(k, memstore.New(), byCaller))
	request := func(i int) drive.Request {
		return drive.Request{
			Method: "POST", Path: fmt.Sprintf("/accounts/account-%02d/payments?dry_run=true", i), ContentType: "application/json",
			Body: fmt.Sprintf(`{"to":"to-%02d","amount":1}`, i),
			Header: http.Header{
				"X-User": {fmt.Sprintf("user-%02d", i)}, "X-Trace": {fmt.Sprintf("trace-%02d", i)}, "Cookie": {fmt.Sprintf("session=session-%02d", i)},
			},
		}
	}
	form := func(i int) drive.Request {
		return drive.Request{
			Method: "POST", Path: "/forms", ContentType: "application/x-www-form-urlencoded", Body: fmt.Sprintf("color=color-%02d", i),
			Header: http.Header{"X-User": {fmt.Sprintf("user-%02d", i)}},
		}
	}
	key := func(i int) string { return fmt.Sprintf("key-%02d", i) }
	var answers []drive.Answer
	for _, replayed := range []string{"", "true"} {
		for i := range n {
			got := drive.Send(t, url, request(i), "Idempotency-Key", key(i))
			answers = append(answers, got)
			if first := answers[i]; got.Status != 201 || got.Header.Get("Idempotent-Replayed") != replayed || got.Body != first.Body {
				t.Fatalf("request %d: %d %q, replayed %q, want 201 %q, replayed %q", i, got.Status, got.Body, got.Header.Get("Idempotent-Replayed"), first.Body, replayed)
			}
		}
	}
	for i := range n {
		if got, want := drive.Send(t, url, form(i), "Idempotency-Key", key(i)), fmt.Sprintf("color-%02d", i); got.Status != 200 || got.Body != want {
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
		if derived, err := idempotency.DeriveUUID(k.contexts[i], "step"); err != nil || derived != k.derived[i] {
			t.Errorf("%d derives %s, %v, and derived %s", i, derived, err, k.derived[i])
		}
	}
}

// A request's body can be a stream: fiber's own limit is not asked, ours is.
func TestStreamedBodies(t *testing.T) {
	t.Parallel()
	k := new(keeper)
	url := serveWith(t, config{StreamRequestBody: true}, NewIdempotentHandler(k, memstore.New(), drive.ByUser, idempotency.WithRequestLimit(1<<14)))
	const long = 1 << 13 // more than fasthttp reads before it calls the handler
	client := new(http.Client)
	send := func(what string, body io.Reader, key string, status int) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "POST", url+"/accounts/a/payments", body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"X-User": {"alice"}, "Content-Type": {"application/json"}}
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != status {
			t.Errorf("%s: %d %.200q, %v, want %d", what, resp.StatusCode, answer, err, status)
		}
		if refused := status >= 400; resp.Close != refused {
			t.Errorf("%s: the connection closes: %v, want %v", what, resp.Close, refused)
		}
	}
	body := func(n int) io.Reader { return strings.NewReader(`{"to":"` + strings.Repeat("b", n) + `","amount":1}`) }
	send("first", body(long), "k", 201)
	send("replay", body(long), "k", 201)
	send("in chunks", io.MultiReader(body(long)), "k", 201)
	send("no key", body(long), "", 400)
	send("after it", body(1), "k1", 201)
	send("too long", body(1<<14), "k2", 413)
	send("too long in chunks", io.MultiReader(body(1<<14)), "k2", 413)
	if len(k.payments) != 2 {
		t.Errorf("%d runs, want 2", len(k.payments))
	}
}

// PostParts answers with the parts in their order.
func (k *keeper) PostParts(_ context.Context, _ struct{}, req PostPartsIdempotentRequest) (PostPartsResponseObject, error) {
	r, err := req.Input().MultipartReader()
	if err != nil {
		return nil, err
	}
	var parts strings.Builder
	for {
		part, err := r.NextPart()
		if errors.Is(err, io.EOF) {
			return PostParts200TextResponse(parts.String()), nil
		}
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(part)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&parts, "%s=%s ", part.FormName(), content)
	}
}

// A multipart body is taken as it was sent, and not as fasthttp puts it together
// again, in another order each time.
func TestMultipartBodies(t *testing.T) {
	t.Parallel()
	parts := func(boundary string) drive.Request {
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		if err := w.SetBoundary(boundary); err != nil {
			t.Fatal(err)
		}
		for i := range 9 {
			if err := w.WriteField(fmt.Sprint(9-i), fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return drive.Request{Method: "POST", Path: "/parts", ContentType: w.FormDataContentType(), Body: b.String(), Header: http.Header{"X-User": {"alice"}}}
	}
	handler := NewIdempotentHandler(new(keeper), memstore.New(), drive.ByUser)
	got := drive.Send(t, serveWith(t, config{}, handler), parts("a"), "Idempotency-Key", "k")
	if got.Status != 415 || !strings.Contains(got.Body, "DisablePreParseMultipartForm") {
		t.Errorf("%d %q, want 415", got.Status, got.Body)
	}
	url := serveWith(t, config{DisablePreParseMultipartForm: true}, handler)
	for _, replayed := range []string{"", "true"} {
		got := drive.Send(t, url, parts("b"+replayed), "Idempotency-Key", "k")
		if want := "9=0 8=1 7=2 6=3 5=4 4=5 3=6 2=7 1=8 "; got.Status != 200 || got.Body != want || got.Header.Get("Idempotent-Replayed") != replayed {
			t.Errorf("%d %q, want %q", got.Status, got.Body, want)
		}
	}
}

// What is compressed is not JSON, although fiber decodes it.
func TestCompressedBodies(t *testing.T) {
	t.Parallel()
	k := new(keeper)
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(`{"to":"b","amount":1}`))
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	r := drive.Request{
		Method: "POST", Path: "/accounts/a/payments", ContentType: "application/json", Body: b.String(),
		Header: http.Header{"X-User": {"alice"}, "Content-Encoding": {"gzip"}},
	}
	got := drive.Send(t, serveWith(t, config{}, NewIdempotentHandler(k, memstore.New(), drive.ByUser)), r, "Idempotency-Key", "k")
	drive.Refused(t, "compressed", got, 400, "body_invalid")
	if len(k.payments) > 0 {
		t.Error("the handler has run")
	}
}

// own is an answer that the document does not have.
type own struct {
	header [][2]string
	body   string
}

func (a own) write(c fiberContext) error {
	c.Status(http.StatusAccepted)
	for _, line := range a.header {
		c.Response().Header.Add(line[0], line[1])
	}
	_, err := c.WriteString(a.body)
	return err
}

func (a own) VisitAddNoteResponse(c fiberContext) error { return a.write(c) }

// answering answers with what it holds, under a key and without one.
type answering struct {
	IdempotentServer[struct{}]
	answer own
}

func (a answering) AddNote(context.Context, struct{}, AddNoteIdempotentRequest) (AddNoteResponseObject, error) {
	return a.answer, nil
}

// direct is the same on a server without idempotency.
type direct struct {
	StrictServerInterface
	answer own
}

func (d direct) AddNote(context.Context, AddNoteRequestObject) (AddNoteResponseObject, error) {
	return d.answer, nil
}

// An answer has the header lines that it has without idempotency, and no others.
func TestAnswersAreAsDirectOnes(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]own{
		"nothing":            {},
		"lines of one field": {header: [][2]string{{"Link", "<a>"}, {"Link", "<b>"}, {"Vary", "A"}}},
		"default type":       {body: "text"},
		"own type":           {header: [][2]string{{"Content-Type", "text/x"}, {"Content-Encoding", "x"}}, body: "text"},
		"type without body":  {header: [][2]string{{"Content-Type", "text/x"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer.header = append(answer.header, [2]string{"Cache-Control", "no-cache"}) // else we add one
			note := drive.Request{Method: "POST", Path: "/notes", ContentType: "text/plain", Body: "a", Header: http.Header{"X-User": {"alice"}}}
			want := drive.Send(t, serveWith(t, config{}, NewStrictHandler(direct{answer: answer}, nil)), note, "Idempotency-Key", "k")
			url := serveWith(t, config{}, NewIdempotentHandler(answering{answer: answer}, memstore.New(), drive.ByUser))
			for _, replayed := range []string{"", "Idempotent-Replayed: true\r\n"} {
				got := drive.Send(t, url, note, "Idempotency-Key", "k")
				if sorted(got.Wire) != sorted(strings.Replace(want.Wire, "\r\n\r\n", "\r\n"+replayed+"\r\n", 1)) {
					t.Errorf("%q\nwant %q", got.Wire, want.Wire)
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

// Answers are written with the encoder of the application, and over what its
// middlewares have set before.
func TestApplication(t *testing.T) {
	t.Parallel()
	encode := func(v any) ([]byte, error) { return json.MarshalIndent(v, "", "\t") }
	url := serveWith(t, config{JSONEncoder: encode}, NewIdempotentHandler(new(keeper), memstore.New(), drive.ByUser))
	for range 2 {
		r := drive.Request{
			Method: "POST", Path: "/accounts/a/payments", ContentType: "application/json", Body: `{"to":"b","amount":1}`,
			Header: http.Header{"X-User": {"alice"}},
		}
		got := drive.Send(t, url, r, "Idempotency-Key", "k")
		if got.Status != 201 || !strings.HasPrefix(got.Body, "{\n\t\"") || !slices.Equal(got.Header.Values("Location"), []string{"/payments/1"}) {
			t.Errorf("%q", got.Wire)
		}
	}
}

// A problem writer is shown the request as net/http has it.
func TestProblemWriter(t *testing.T) {
	t.Parallel()
	url := serveWith(t, config{StreamRequestBody: true}, NewIdempotentHandler(new(keeper), memstore.New(), drive.ByUser,
		idempotency.WithProblemWriter(func(w http.ResponseWriter, r *http.Request, _ idempotency.Problem) {
			fmt.Fprintln(w, r.Method, r.Host, r.URL, r.ContentLength, r.Header["Host"], r.Header["X-Trace"])
		})))
	got := drive.Send(t, url, drive.Request{
		Method: "POST", Path: "/forms?a=%2F", ContentType: "application/x-www-form-urlencoded", Body: "color=a",
		Header: http.Header{"X-Trace": {"a", "b"}},
	}, "Idempotency-Key", "")
	if want := fmt.Sprintln("POST", strings.TrimPrefix(url, "http://"), "/forms?a=%2F", 7, []string(nil), []string{"a", "b"}); got.Status != 200 || got.Body != want {
		t.Errorf("%d %q, want %q", got.Status, got.Body, want)
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
	NewIdempotentHandler(new(keeper), memstore.New(), nil)
}

// Handlers are given cookies that net/http drops, so they count.
func TestCookies(t *testing.T) {
	t.Parallel()
	k := new(keeper)
	url := serveWith(t, config{}, NewIdempotentHandler(k, memstore.New(), drive.ByUser))
	send := func(session string) drive.Answer {
		return drive.Send(t, url, drive.Request{
			Method: "POST", Path: "/accounts/a/payments", ContentType: "application/json", Body: `{"to":"b","amount":1}`,
			Header: http.Header{"X-User": {"alice"}, "Cookie": {"session=" + session}},
		}, "Idempotency-Key", "k")
	}
	const first = `a\1`
	for range 2 {
		if got := send(first); got.Status != http.StatusCreated {
			t.Errorf("%d %s", got.Status, got.Body)
		}
	}
	for _, session := range []string{`a\2`, "\xff", `a"`, ""} {
		drive.Refused(t, session, send(session), http.StatusUnprocessableEntity, "mismatch")
	}
	if len(k.payments) != 1 || k.payments[0].Input().Params.Session == nil || *k.payments[0].Input().Params.Session != first {
		t.Errorf("%v", k.payments)
	}
}
