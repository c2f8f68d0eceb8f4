package retry_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/retry"
)

// chargeOp needs a key, noteOp can do without, orderOp sends it as a UUID in a
// field of another name.
type (
	chargeOp struct{}
	noteOp   struct{}
	orderOp  struct{}
)

var (
	charge = idempotency.Operation{ID: "charge", Method: "POST", Path: "/charges", Release: []int{401, 403, 408, 425, 429, idempotency.StatusClass(5)}}
	note   = idempotency.Operation{ID: "note", Method: "POST", Path: "/notes", Optional: true}
	order  = idempotency.Operation{ID: "order", Method: "POST", Path: "/orders", Key: idempotency.KeyRule{Header: "X-Order", Format: idempotency.KeyUUID}}
)

func (chargeOp) Operation() *idempotency.Operation { return &charge }
func (noteOp) Operation() *idempotency.Operation   { return &note }
func (orderOp) Operation() *idempotency.Operation  { return &order }

const key = "k-1"

// problems is where an idempotent server says that its codes are explained.
const problems = "https://github.com/idemgen/idemgen/blob/main/docs/problems.md#"

// input is what the operations are asked to do.
type input struct {
	Body   string
	Stream io.Reader   // instead of Body
	Header http.Header // as parameters would set it
}

// answer is what a generated client makes of one.
type answer struct {
	Status int
	Body   string
	HTTP   *http.Response
}

func parse(r *http.Response) (*answer, error) {
	body, err := io.ReadAll(r.Body)
	return &answer{r.StatusCode, string(body), r}, err
}

// exchange is what generated code makes for one call.
func exchange(address string, doer retry.Doer, edit func(*http.Request) error) retry.Exchange[input, answer] {
	return retry.Exchange[input, answer]{
		Build: func(in input) (*http.Request, error) {
			var body io.Reader = strings.NewReader(in.Body)
			if in.Stream != nil {
				body = retry.Stream(in.Stream)
			}
			req, err := http.NewRequest(http.MethodPost, address, body)
			if err == nil && in.Header != nil {
				req.Header = in.Header.Clone()
			}
			return req, err
		},
		Edit:  edit,
		Doer:  doer,
		Parse: parse,
	}
}

// step is what a server does with one request.
type step func(*http.Request) (*http.Response, error)

// reply answers with a status, header fields as "Name: value", and a body
// after an empty string.
func reply(status int, lines ...string) step {
	return func(req *http.Request) (*http.Response, error) {
		r := &http.Response{StatusCode: status, Header: http.Header{}, Request: req}
		body := ""
		for i, line := range lines {
			if line == "" {
				body = strings.Join(lines[i+1:], "\n")
				break
			}
			name, value, _ := strings.Cut(line, ": ")
			r.Header.Add(name, value)
		}
		r.Body = io.NopCloser(strings.NewReader(body))
		return r, nil
	}
}

// refuse answers as an idempotent server refuses.
func refuse(status int, code idempotency.Code, lines ...string) step {
	return reply(status, append(append([]string{"Content-Type: application/problem+json"}, lines...), "",
		`{"type":"`+problems+string(code)+`","title":"-","status":`+strconv.Itoa(status)+`,"detail":"because","code":"`+string(code)+`"}`)...)
}

func replayed(s step) step {
	return func(req *http.Request) (*http.Response, error) {
		r, err := s(req)
		r.Header.Set("Idempotent-Replayed", "true")
		return r, err
	}
}

var errBroken = errors.New("the line is broken")

func broken(*http.Request) (*http.Response, error) { return nil, errBroken }

// cut answers, and breaks off within the body.
func cut(status int, lines ...string) step {
	return func(req *http.Request) (*http.Response, error) {
		r, err := reply(status, lines...)(req)
		r.Body = io.NopCloser(io.MultiReader(r.Body, brokenReader{}))
		return r, err
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// seen is one request as a server sees it.
type seen struct {
	Key, Body string
	Length    int64
}

// server is a Doer that goes through its steps; the last one stays. It
// records what it is sent.
type server struct {
	mu       sync.Mutex
	steps    []step
	requests []seen
}

func serve(steps ...step) *server { return &server{steps: steps} }

func (s *server) Do(req *http.Request) (*http.Response, error) {
	got := seen{Key: strings.Join(slices.Concat(req.Header.Values("Idempotency-Key"), req.Header.Values("X-Order")), "+"), Length: req.ContentLength}
	if req.Body != nil {
		defer req.Body.Close()
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		got.Body = string(body)
	}
	return s.next(got)(req)
}

func (s *server) next(got seen) step {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, got)
	next := s.steps[0]
	if len(s.steps) > 1 {
		s.steps = s.steps[1:]
	}
	return next
}

// clock stands still between pauses, and records them.
type clock struct {
	now    time.Time
	pauses []time.Duration
}

func newClock() *clock { return &clock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

func (c *clock) option() retry.Option {
	return retry.WithClock(
		func() time.Time { return c.now },
		func(_ context.Context, d time.Duration) {
			c.pauses = append(c.pauses, d)
			c.now = c.now.Add(d)
		})
}

// backoff makes pauses that tell which retry they are of: 1 ms, 2 ms, 3 ms.
var backoff = retry.WithBackoff(func(retry int) time.Duration { return time.Duration(retry) * time.Millisecond })

// send makes one call of charge with the clock, the backoff above and options.
func send(ctx context.Context, c *clock, doer retry.Doer, opts ...retry.Option) (*answer, error) {
	return sendEdited(ctx, c, doer, nil, opts...)
}

func sendEdited(ctx context.Context, c *clock, doer retry.Doer, edit func(*http.Request) error, opts ...retry.Option) (*answer, error) {
	k := idempotency.MustParseKey[chargeOp](key)
	sender := retry.New(append([]retry.Option{c.option(), backoff}, opts...)...)
	return retry.Send(ctx, sender, k, idempotency.Seal(k, input{Body: "body"}), exchange("http://server/charges", doer, edit))
}

// failed returns a call's error.
func failed(t *testing.T, err error) *idempotency.CallError {
	t.Helper()
	var e *idempotency.CallError
	if !errors.As(err, &e) {
		t.Fatalf("%v is no *idempotency.CallError", err)
	}
	return e
}
