package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/testdata/drive"
)

// This file is the same for every server without a strict one; the file beside
// it says how each writes the answers.

// service answers with what it understood.
type service struct {
	*drive.Bank
	runs atomic.Int32
}

// ran counts a run.
func (s *service) ran() int {
	s.Ran()
	return int(s.runs.Add(1))
}

// answer is what a handler writes.
type answer struct {
	status int
	body   string // "" for none
	header http.Header
}

func text(format string, args ...any) answer {
	return answer{status: 200, body: fmt.Sprintf(format, args...), header: http.Header{"Content-Type": {"text/plain"}}}
}

const busy = "a busy one"

func (s *service) createPayment(ctx context.Context, raw io.Reader, req CreatePaymentIdempotentRequest) (answer, error) {
	n, in := s.runs.Add(1), req.Input()
	location, err := s.Pay(ctx, in.Body.To, in.Body.Amount)
	if err != nil {
		return answer{}, err
	}
	if in.Body.To == busy && n == 1 {
		return answer{status: http.StatusServiceUnavailable, body: busy}, nil
	}
	var again NewPayment
	if err := json.NewDecoder(raw).Decode(&again); err != nil || again != in.Body {
		return answer{}, fmt.Errorf("the body that was not decoded is %v, want %v, %w", again, in.Body, err)
	}
	next, err := idempotency.Derive[AddNoteOp](ctx, "note")
	if err != nil {
		return answer{}, err
	}
	body, err := json.Marshal(Payment{To: in.AccountId + in.Body.To, Amount: in.Body.Amount})
	return answer{
		status: 201,
		body:   string(body),
		header: http.Header{"Content-Type": {"application/json"}, "Location": {location}, "X-Next": {next.String()}, "X-Twice": {"a", "b"}},
	}, err
}

func (s *service) cancelPayment(CancelPaymentIdempotentRequest) answer {
	s.ran()
	return answer{status: 204}
}

func (s *service) getPayment(id uuid.UUID) answer {
	s.ran()
	return text("%s", id)
}

func (s *service) closeAccount(req CloseAccountIdempotentRequest) answer {
	n, in, reason := s.ran(), req.Input(), "no body"
	if in.Body != nil {
		reason = "no reason"
		if in.Body.Reason != nil {
			reason = *in.Body.Reason
		}
	}
	return text("%d %s %s", n, in.AccountId, reason)
}

func (s *service) postRefunds(req PostRefundsIdempotentRequest) answer {
	return text("%d %d", s.ran(), req.Input().Body.Amount)
}

func (s *service) addNote(req AddNoteIdempotentRequest) answer {
	return text("%d %v %s", s.ran(), req.IdempotencyKey.IsZero(), req.Input().Body)
}

func (s *service) putDocument(req PutDocumentIdempotentRequest) answer {
	s.ran()
	b, err := io.ReadAll(req.Input().Body)
	if err != nil {
		return text("%v", err)
	}
	return answer{status: 200, body: req.Input().Name + string(b), header: http.Header{"Content-Type": {"application/octet-stream"}}}
}

func (s *service) submitForm(req SubmitFormIdempotentRequest) answer {
	return text("%d %s", s.ran(), req.Input().Body.Color)
}

func (s *service) postParts(req PostPartsIdempotentRequest) answer {
	n := s.ran()
	r, err := req.Input().MultipartReader()
	if err != nil {
		return text("%v", err)
	}
	part, err := r.NextPart()
	if err != nil {
		return text("%v", err)
	}
	b, err := io.ReadAll(part)
	return text("%d %s %s %v", n, part.FileName(), b, err)
}

func (s *service) postImage(req PostImageIdempotentRequest) answer {
	n := s.ran()
	b, err := io.ReadAll(req.Input().Body)
	return text("%d %s %s %v", n, req.Input().ContentType, b, err)
}

func (s *service) upload(req UploadIdempotentRequest) answer {
	n, in := s.ran(), req.Input()
	switch {
	case in.ApplicationJSONCharsetUTF8Body != nil:
		return text("%d json %s", n, *in.ApplicationJSONCharsetUTF8Body.Text)
	case in.FormdataBody != nil:
		return text("%d form %s", n, *in.FormdataBody.Text)
	case in.Body != nil:
		b, err := io.ReadAll(in.Body)
		return text("%d bytes %s %v", n, b, err)
	}
	return text("%d nothing", n)
}

// Every target promises a client the same.
func TestBehaviour(t *testing.T) {
	t.Parallel()
	drive.Behaviour(t, drive.Target{
		Serve: func(t *testing.T, bank *drive.Bank, opts ...idempotency.Option) string {
			t.Helper()
			return serve(t, &service{Bank: bank}, opts...)
		},
		Cancels: cancels,
	})
}

// started serves a new service.
func started(t *testing.T) (*service, string) {
	t.Helper()
	s := &service{Bank: new(drive.Bank)}
	return s, serve(t, s)
}

func request(method, path, contentType, body string) drive.Request {
	return drive.Request{Method: method, Path: path, ContentType: contentType, Body: body, Header: http.Header{"X-User": {"alice"}}}
}

func payment(body string) drive.Request {
	return request("POST", "/accounts/a/payments?dry_run=true", "application/json", body)
}

const (
	id        = "00000000-0000-0000-0000-000000000001"
	keyHeader = "Idempotency-Key"
)

// Every shape of request is understood and answered once.
func TestShapes(t *testing.T) {
	t.Parallel()
	form := func(path, boundary, content string) drive.Request {
		return request("POST", path, "multipart/form-data; boundary="+boundary,
			"--"+boundary+"\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n"+content+"\r\n--"+boundary+"--\r\n")
	}
	with := func(r drive.Request, name, value string) drive.Request {
		r.Header = http.Header{"X-User": r.Header["X-User"], name: {value}}
		return r
	}
	for name, op := range map[string]drive.Operation{
		"json": {
			Request: payment(`{"to":"b","amount":1}`),
			Same:    []drive.Request{payment(`{ "amount": 1, "to": "b" }`)},
			Other: []drive.Request{
				payment(`{"to":"b","amount":2}`),
				request("POST", "/accounts/a/payments", "application/json", `{"to":"b","amount":1}`),
				request("POST", "/accounts/b/payments?dry_run=true", "application/json", `{"to":"b","amount":1}`),
				with(payment(`{"to":"b","amount":1}`), "X-Trace", "1"),
				with(payment(`{"to":"b","amount":1}`), "Cookie", "session=1"),
			},
			Status: 201,
		},
		"absent body": {
			Request: request("POST", "/accounts/a/close", "", ""),
			Other:   []drive.Request{request("POST", "/accounts/a/close", "application/json", `{}`)},
			Status:  200, Body: "1 a no body",
		},
		"present body": {
			Request: request("POST", "/accounts/a/close", "application/json", `{"reason":"tired"}`),
			Other:   []drive.Request{request("POST", "/accounts/a/close", "", "")},
			Status:  200, Body: "1 a tired",
		},
		"no operationId": {
			Request: request("POST", "/refunds", "application/vnd.refund+json", `{"amount":3}`),
			Same:    []drive.Request{request("POST", "/refunds", "application/vnd.refund+json; charset=UTF-8", ` {"amount" : 3}`)},
			Other:   []drive.Request{request("POST", "/refunds", "application/vnd.refund+json", `{"amount":4}`)},
			Status:  200, Body: "1 3",
		},
		"text, optional key": {
			Request:  request("POST", "/notes", "text/plain", "hello"),
			Other:    []drive.Request{request("POST", "/notes", "text/plain", "hello ")},
			Optional: true,
			Status:   200, Body: "1 false hello",
		},
		"form": {
			Request: request("POST", "/forms", "application/x-www-form-urlencoded", "color=red"),
			Other:   []drive.Request{request("POST", "/forms", "application/x-www-form-urlencoded", "color=blue")},
			Status:  200, Body: "1 red",
		},
		"multipart": {
			Request: form("/parts", "one", "data"),
			Same:    []drive.Request{form("/parts", "two", "data")},
			Other:   []drive.Request{form("/parts", "one", "date")},
			Status:  200, Body: "1 a data <nil>",
		},
		"masked media type": {
			Request: request("POST", "/images", "image/png", "pixels"),
			Other:   []drive.Request{request("POST", "/images", "image/gif", "pixels")},
			Status:  200, Body: "1 image/png pixels <nil>",
		},
		"several media types: json": {
			Request: request("POST", "/uploads", "application/json; charset=utf-8", `{"text":"a"}`),
			Other:   []drive.Request{request("POST", "/uploads", "application/octet-stream", `{"text":"a"}`)},
			Status:  200, Body: "1 json a",
		},
		"several media types: form": {
			Request: request("POST", "/uploads", "application/x-www-form-urlencoded", "text=a"),
			Other:   []drive.Request{request("POST", "/uploads", "application/octet-stream", "text=a")},
			Status:  200, Body: "1 form a",
		},
		"several media types: bytes": {
			Request: request("POST", "/uploads", "application/octet-stream", "text=a"),
			Other:   []drive.Request{form("/uploads", "one", "data")},
			Status:  200, Body: "1 bytes text=a <nil>",
		},
		"a media type that is not declared": {
			Request: request("POST", "/uploads", "text/csv", "a,b"),
			Other:   []drive.Request{request("POST", "/uploads", "text/csv", "a,c")},
			Status:  200, Body: "1 nothing",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, url := started(t)
			op.Runs = func() int { return int(s.runs.Load()) }
			drive.Run(t, url, op)
		})
	}
}

// Operations that the document does not mark are as oapi-codegen has them.
func TestUnmarked(t *testing.T) {
	t.Parallel()
	s, url := started(t)
	for range 2 {
		if got := drive.Send(t, url, request("GET", "/payments/"+id, "", ""), keyHeader, "k", "k"); got.Status != 200 || got.Body != id {
			t.Errorf("%d %s", got.Status, got.Body)
		}
	}
	if runs := s.runs.Load(); runs != 2 {
		t.Errorf("%d runs, want 2", runs)
	}
}

// A body that does not decode never reaches the handler, and the key is free.
func TestBadBodies(t *testing.T) {
	t.Parallel()
	s, url := started(t)
	for _, body := range []string{``, `{"to":`, `{"to":"b","amount":"1"}`, `{"to":"b","amount":1}{}`} {
		drive.Refused(t, body, drive.Send(t, url, payment(body), keyHeader, "k"), 400, "body_invalid")
	}
	drive.Refused(t, "form", drive.Send(t, url, request("POST", "/forms", "application/x-www-form-urlencoded", "color=%zz"), keyHeader, "k"), 400, "body_invalid")
	if runs := s.runs.Load(); runs != 0 {
		t.Errorf("%d runs", runs)
	}
	if got := drive.Send(t, url, payment(`{"to":"b","amount":1}`), keyHeader, "k"); got.Status != 201 {
		t.Errorf("%d %s", got.Status, got.Body)
	}
}

// Each caller's handler derives keys of its own, and a replay has the first ones.
func TestDerivedKeys(t *testing.T) {
	t.Parallel()
	_, url := started(t)
	var next []string
	r := payment(`{"to":"b","amount":1}`)
	for _, user := range []string{"alice", "bob", "alice"} {
		r.Header = http.Header{"X-User": {user}}
		next = append(next, drive.Send(t, url, r, keyHeader, "k").Header.Get("X-Next"))
	}
	if next[0] == "" || next[0] == next[1] || next[0] != next[2] {
		t.Errorf("derived keys: %q", next)
	}
}

// After an answer that is released, the key is free.
func TestReleased(t *testing.T) {
	t.Parallel()
	s, url := started(t)
	for _, want := range []int{503, 201, 201} {
		if got := drive.Send(t, url, payment(`{"to":"`+busy+`","amount":1}`), keyHeader, "k"); got.Status != want || (want == 503) != (got.Body == busy) {
			t.Errorf("%d %s, want %d", got.Status, got.Body, want)
		}
	}
	if runs := s.runs.Load(); runs != 2 {
		t.Errorf("%d runs, want 2", runs)
	}
}
