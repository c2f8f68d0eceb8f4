package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idemgen/idemgen/testdata/drive"
)

// server has a few of the operations; the std-http case has them all. This file
// is the same for every other server and the older versions of oapi-codegen.
type server struct {
	IdempotentServer[struct{}]
	runs atomic.Int32
	gone chan error // how the contexts of the runs ended whose caller is awaited
}

// userKey is where the middleware of newHandler puts the caller. Frameworks
// have values under names.
var userKey any = "user"

// byUser is the scope of that caller.
func byUser(ctx context.Context, _ http.Header) (string, error) {
	user, _ := ctx.Value(userKey).(string)
	return user, nil
}

func (s *server) CreatePayment(ctx context.Context, _ struct{}, req CreatePaymentIdempotentRequest) (CreatePaymentResponseObject, error) {
	runs := s.runs.Add(1)
	in := req.Input()
	switch {
	case in.Body.Amount < 0:
		return nil, errors.New("a negative amount")
	case in.Body.To == "nobody" && runs == 1:
		panic(http.ErrAbortHandler)
	case in.Body.To == "the late":
		s.gone <- nil
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Second): // the test has failed
		}
		s.gone <- ctx.Err()
		return nil, ctx.Err()
	case ctx.Value("nothing") != nil:
		return nil, errors.New("a value that nobody has set")
	}
	return CreatePayment201JSONResponse{
		Body:    Payment{To: in.AccountId + in.Body.To, Amount: in.Body.Amount},
		Headers: CreatePayment201ResponseHeaders{Location: fmt.Sprint("/", ctx.Value(userKey), "/payments/1")},
	}, nil
}

func (s *server) CancelPayment(context.Context, struct{}, CancelPaymentIdempotentRequest) (CancelPaymentResponseObject, error) {
	s.runs.Add(1)
	return CancelPayment204Response{}, nil
}

func (s *server) PutDocument(_ context.Context, _ struct{}, req PutDocumentIdempotentRequest) (PutDocumentResponseObject, error) {
	s.runs.Add(1)
	b, err := io.ReadAll(req.Input().Body)
	body := req.Input().Name + string(b)
	return PutDocument200ApplicationoctetStreamResponse{Body: strings.NewReader(body), ContentLength: int64(len(body))}, err
}

func payment(body string) drive.Request {
	return drive.Request{
		Method: "POST", Path: "/accounts/a/payments?dry_run=true", ContentType: "application/json", Body: body,
		Header: http.Header{"X-User": {"alice"}},
	}
}

func TestBehaviour(t *testing.T) {
	t.Parallel()
	cancel := func(id string) drive.Request {
		return drive.Request{Method: "DELETE", Path: "/payments/" + id, Header: http.Header{"X-User": {"alice"}}}
	}
	document := func(body string) drive.Request {
		return drive.Request{Method: "PUT", Path: "/documents/d", ContentType: "application/octet-stream", Body: body, Header: http.Header{"X-User": {"alice"}}}
	}
	for name, op := range map[string]drive.Operation{
		"json": {
			Request: payment(`{"to":"b","amount":1}`),
			Same:    []drive.Request{payment(`{ "amount": 1, "to": "b" }`)},
			Other:   []drive.Request{payment(`{"to":"b","amount":2}`)},
			Status:  201,
		},
		"no body": {
			Request: cancel("00000000-0000-0000-0000-000000000001"),
			Other:   []drive.Request{cancel("00000000-0000-0000-0000-000000000002")},
			Status:  204,
		},
		"bytes": {
			Request: document("\x00\xff"),
			Other:   []drive.Request{document("\x00\xfe")},
			Status:  200, Body: "d\x00\xff",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := new(server)
			op.Runs = func() int { return int(s.runs.Load()) }
			drive.Run(t, newHandler(s), op)
		})
	}
}

// Errors of the decoder and of the handler go to the server, which answers each
// once.
func TestErrors(t *testing.T) {
	t.Parallel()
	for name, opts := range strictServers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(newHandler(new(server), opts...))
			t.Cleanup(srv.Close)
			for body, status := range map[string]int{`{"to":"b","amount":-1}`: 500, `{"to":`: 400} {
				got := drive.Send(t, srv, payment(body), "Idempotency-Key", "k")
				if got.Status != status || strings.Count(got.Body, "\n") > 1 {
					t.Errorf("%s: %d %q, want one answer of %d", body, got.Status, got.Body, status)
				}
			}
		})
	}
}

// What a middleware says of the caller is seen by the scope and by handlers.
func TestCallers(t *testing.T) {
	t.Parallel()
	s := new(server)
	srv := httptest.NewServer(newHandler(s))
	t.Cleanup(srv.Close)
	r := payment(`{"to":"b","amount":1}`)
	for _, user := range []string{"alice", "bob", "alice"} {
		r.Header = http.Header{"X-User": {user}}
		got := drive.Send(t, srv, r, "Idempotency-Key", "k")
		if want := "/" + user + "/payments/1"; got.Status != 201 || got.Header.Get("Location") != want {
			t.Errorf("%s: %d %s at %q, want %q", user, got.Status, got.Body, got.Header.Get("Location"), want)
		}
	}
	r.Header = nil
	drive.Refused(t, "nobody", drive.Send(t, srv, r, "Idempotency-Key", "k"), 401, "scope_missing")
	if runs := s.runs.Load(); runs != 2 {
		t.Errorf("%d runs, want 2", runs)
	}
}

// After a panic the key is free.
func TestPanic(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(newHandler(new(server)))
	t.Cleanup(srv.Close)
	for _, status := range []int{500, 201} {
		if got := drive.Send(t, srv, payment(`{"to":"nobody","amount":1}`), "Idempotency-Key", "k"); got.Status != status {
			t.Errorf("%d %s, want %d", got.Status, got.Body, status)
		}
	}
}

// The handler's context ends when the caller goes.
func TestCallerGone(t *testing.T) {
	t.Parallel()
	s := &server{gone: make(chan error, 2)}
	srv := httptest.NewServer(newHandler(s))
	t.Cleanup(srv.Close)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-s.gone
		cancel()
	}()
	r := payment("")
	req, err := http.NewRequestWithContext(ctx, r.Method, srv.URL+r.Path, strings.NewReader(`{"to":"the late","amount":1}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"X-User": {"alice"}, "Content-Type": {r.ContentType}, "Idempotency-Key": {"k"}}
	if resp, err := srv.Client().Do(req); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v, %v", resp, err)
	}
	if err := <-s.gone; !errors.Is(err, context.Canceled) {
		t.Errorf("the handler's context: %v", err)
	}
}
