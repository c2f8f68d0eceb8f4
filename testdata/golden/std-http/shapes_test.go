package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
	"github.com/idemgen/idemgen/testdata/drive"
)

// shapes has every operation and answers with what it understood.
type shapes struct {
	runs atomic.Int32
	fail error // what the next handler returns
}

func (s *shapes) ran() int { return int(s.runs.Load()) }

func (s *shapes) CreatePayment(_ context.Context, _ struct{}, req CreatePaymentIdempotentRequest) (CreatePaymentResponseObject, error) {
	n := s.runs.Add(1)
	if s.fail != nil {
		return nil, s.fail
	}
	in := req.Input()
	id := uuid.NewSHA1(uuid.Nil, fmt.Append(nil, n))
	return CreatePayment201JSONResponse{
		Body:    Payment{Id: id, To: in.AccountId + in.Body.To, Amount: in.Body.Amount},
		Headers: CreatePayment201ResponseHeaders{Location: "/payments/" + id.String()},
	}, nil
}

func (s *shapes) GetPayment(_ context.Context, request GetPaymentRequestObject) (GetPaymentResponseObject, error) {
	s.runs.Add(1)
	return GetPayment200JSONResponse{Id: request.PaymentId}, nil
}

func (s *shapes) CancelPayment(_ context.Context, _ struct{}, _ CancelPaymentIdempotentRequest) (CancelPaymentResponseObject, error) {
	s.runs.Add(1)
	return CancelPayment204Response{}, nil
}

func (s *shapes) CloseAccount(_ context.Context, _ struct{}, req CloseAccountIdempotentRequest) (CloseAccountResponseObject, error) {
	n := s.runs.Add(1)
	in, reason := req.Input(), "no body"
	if in.Body != nil {
		reason = "no reason"
		if in.Body.Reason != nil {
			reason = *in.Body.Reason
		}
	}
	return CloseAccount200TextResponse(fmt.Sprintf("%d %s %s", n, in.AccountId, reason)), nil
}

func (s *shapes) PostRefunds(_ context.Context, _ struct{}, req PostRefundsIdempotentRequest) (PostRefundsResponseObject, error) {
	return PostRefunds201JSONResponse{Count: int(s.runs.Add(1)) * req.Input().Body.Amount}, nil
}

func (s *shapes) AddNote(_ context.Context, _ struct{}, req AddNoteIdempotentRequest) (AddNoteResponseObject, error) {
	return AddNote200TextResponse(fmt.Sprintf("%d %v %s", s.runs.Add(1), req.IdempotencyKey.IsZero(), req.Input().Body)), nil
}

func (s *shapes) PutDocument(_ context.Context, _ struct{}, req PutDocumentIdempotentRequest) (PutDocumentResponseObject, error) {
	s.runs.Add(1)
	b, err := io.ReadAll(req.Input().Body)
	if err != nil {
		return nil, err
	}
	slices.Reverse(b)
	return PutDocument200ApplicationoctetStreamResponse{Body: bytes.NewReader(b), ContentLength: int64(len(b))}, nil
}

func (s *shapes) SubmitForm(_ context.Context, _ struct{}, req SubmitFormIdempotentRequest) (SubmitFormResponseObject, error) {
	return SubmitForm200TextResponse(fmt.Sprintf("%d %s", s.runs.Add(1), req.Input().Body.Color)), nil
}

func (s *shapes) PostParts(_ context.Context, _ struct{}, req PostPartsIdempotentRequest) (PostPartsResponseObject, error) {
	n := s.runs.Add(1)
	parts, err := readParts(req.Input().MultipartReader())
	if err != nil {
		return nil, err
	}
	return PostParts200TextResponse(fmt.Sprintf("%d %s", n, parts)), nil
}

func (s *shapes) PostImage(_ context.Context, _ struct{}, req PostImageIdempotentRequest) (PostImageResponseObject, error) {
	b, err := io.ReadAll(req.Input().Body)
	if err != nil {
		return nil, err
	}
	return PostImage200TextResponse(fmt.Sprintf("%d %s %s", s.runs.Add(1), req.Input().ContentType, b)), nil
}

func (s *shapes) Upload(_ context.Context, _ struct{}, req UploadIdempotentRequest) (UploadResponseObject, error) {
	n, in := s.runs.Add(1), req.Input()
	var got string
	switch {
	case in.ApplicationJSONCharsetUTF8Body != nil:
		got = "json " + *in.ApplicationJSONCharsetUTF8Body.Text
	case in.FormdataBody != nil:
		got = "form " + *in.FormdataBody.Text
	case strings.HasPrefix(in.ContentType, "multipart/"):
		parts, err := readParts(in.MultipartReader())
		if err != nil {
			return nil, err
		}
		got = "parts " + parts
	case in.Body != nil:
		b, err := io.ReadAll(in.Body)
		if err != nil {
			return nil, err
		}
		got = "bytes " + string(b)
	default:
		got = "nothing"
	}
	return Upload200TextResponse(fmt.Sprintf("%d %s", n, got)), nil
}

func newHandler(s *shapes, opts ...idempotency.Option) http.Handler {
	return Handler(NewIdempotentHandler(s, memstore.New(), idempotency.Unscoped, opts...))
}

const id = "00000000-0000-0000-0000-000000000001"

// Every shape of request is understood and answered once.
//
// Covers GEN-24.
func TestShapes(t *testing.T) {
	t.Parallel()
	const textType = "text/plain"
	cookie := http.Header{"Cookie": {"session=1"}}
	trace := http.Header{"X-Trace": {"1"}}
	pay := func(path, body string, h http.Header) drive.Request {
		return drive.Request{Method: "POST", Path: path, ContentType: "application/json", Body: body, Header: h}
	}
	form := func(boundary, content string) drive.Request {
		return drive.Request{
			Method: "POST", Path: "/parts", ContentType: "multipart/form-data; boundary=" + boundary,
			Body: "--" + boundary + "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n" + content + "\r\n--" + boundary + "--\r\n",
		}
	}
	upload := func(r drive.Request) drive.Request { r.Path = "/uploads"; return r }
	for name, op := range map[string]drive.Operation{
		"json": {
			Request: pay("/accounts/a/payments?dry_run=true", `{"to":"b","amount":10}`, cookie),
			Same:    []drive.Request{pay("/accounts/a/payments?dry_run=true", ` {"amount":10, "to":"\u0062"}`, cookie)},
			Other: []drive.Request{
				pay("/accounts/a/payments?dry_run=true", `{"to":"b","amount":11}`, cookie),
				pay("/accounts/b/payments?dry_run=true", `{"to":"b","amount":10}`, cookie),
				pay("/accounts/a/payments", `{"to":"b","amount":10}`, cookie),
				pay("/accounts/a/payments?dry_run=true", `{"to":"b","amount":10}`, trace),
				pay("/accounts/a/payments?dry_run=true", `{"to":"b","amount":10}`, nil),
			},
			Status: 201,
		},
		"no body": {
			Request: drive.Request{Method: "DELETE", Path: "/payments/" + id},
			Other:   []drive.Request{{Method: "DELETE", Path: "/payments/" + id[:len(id)-1] + "2"}},
			Status:  204,
		},
		"absent body": {
			Request: drive.Request{Method: "POST", Path: "/accounts/a/close"},
			Other:   []drive.Request{pay("/accounts/a/close", `{}`, nil)},
			Status:  200, Body: "1 a no body",
		},
		"present body": {
			Request: pay("/accounts/a/close", `{"reason":"tired"}`, nil),
			Other:   []drive.Request{{Method: "POST", Path: "/accounts/a/close"}},
			Status:  200, Body: "1 a tired",
		},
		"no operationId": {
			Request: drive.Request{Method: "POST", Path: "/refunds", ContentType: "application/vnd.refund+json", Body: `{"amount":3}`},
			Same:    []drive.Request{{Method: "POST", Path: "/refunds", ContentType: "application/vnd.refund+json; charset=UTF-8", Body: ` {"amount" : 3}`}},
			Other:   []drive.Request{{Method: "POST", Path: "/refunds", ContentType: "application/vnd.refund+json", Body: `{"amount":4}`}},
			Status:  201, Body: "{\"count\":3}\n",
		},
		"text, optional key": {
			Request:  drive.Request{Method: "POST", Path: "/notes", ContentType: textType, Body: "hello"},
			Other:    []drive.Request{{Method: "POST", Path: "/notes", ContentType: textType, Body: "hello "}},
			Optional: true,
			Status:   200, Body: "1 false hello",
		},
		"bytes": {
			Request: drive.Request{Method: "PUT", Path: "/documents/d", ContentType: "application/octet-stream", Body: "\x00\xff\r\n1"},
			Other:   []drive.Request{{Method: "PUT", Path: "/documents/d", ContentType: "application/octet-stream", Body: "\x00\xff\r\n2"}},
			Status:  200, Body: "1\n\r\xff\x00",
		},
		"form": {
			Request: drive.Request{Method: "POST", Path: "/forms", ContentType: "application/x-www-form-urlencoded", Body: "color=red"},
			Other:   []drive.Request{{Method: "POST", Path: "/forms", ContentType: "application/x-www-form-urlencoded", Body: "color=blue"}},
			Status:  200, Body: "1 red",
		},
		"multipart": {
			Request: form("one", "data"),
			Same:    []drive.Request{form("two", "data")},
			Other:   []drive.Request{form("one", "date")},
			Status:  200, Body: "1 file/a=data",
		},
		"masked media type": {
			Request: drive.Request{Method: "POST", Path: "/images", ContentType: "image/png", Body: "pixels"},
			Other: []drive.Request{
				{Method: "POST", Path: "/images", ContentType: "image/gif", Body: "pixels"},
				{Method: "POST", Path: "/images", ContentType: "image/png", Body: "pixel"},
			},
			Status: 200, Body: "1 image/png pixels",
		},
		"several media types: json": {
			Request: upload(drive.Request{Method: "POST", ContentType: "application/json; charset=utf-8", Body: `{"text":"a"}`}),
			Other:   []drive.Request{upload(drive.Request{Method: "POST", ContentType: "application/octet-stream", Body: `{"text":"a"}`})},
			Status:  200, Body: "1 json a",
		},
		"several media types: form": {
			Request: upload(drive.Request{Method: "POST", ContentType: "application/x-www-form-urlencoded", Body: "text=a"}),
			Other:   []drive.Request{upload(drive.Request{Method: "POST", ContentType: "application/octet-stream", Body: "text=a"})},
			Status:  200, Body: "1 form a",
		},
		"several media types: bytes": {
			Request: upload(drive.Request{Method: "POST", ContentType: "application/octet-stream", Body: "text=a"}),
			Other:   []drive.Request{upload(form("one", "data"))},
			Status:  200, Body: "1 bytes text=a",
		},
		"several media types: multipart": {
			Request: upload(form("one", "data")),
			Same:    []drive.Request{upload(form("two", "data"))},
			Other:   []drive.Request{upload(form("two", "date"))},
			Status:  200, Body: "1 parts file/a=data",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := new(shapes)
			op.Runs = s.ran
			drive.Run(t, drive.Serve(t, newHandler(s)), op)
		})
	}
}

// Operations that the document does not mark are as oapi-codegen has them.
func TestUnmarked(t *testing.T) {
	t.Parallel()
	s := new(shapes)
	srv := httptest.NewServer(newHandler(s))
	t.Cleanup(srv.Close)
	for range 2 {
		got := drive.Send(t, srv.URL, drive.Request{Method: "GET", Path: "/payments/" + id}, "Idempotency-Key", "k", "k")
		if got.Status != 200 || !strings.Contains(got.Body, id) {
			t.Errorf("%d %s", got.Status, got.Body)
		}
	}
	if s.ran() != 2 {
		t.Errorf("ran %d times, want 2", s.ran())
	}
}

// oapi-codegen's own options and middlewares come through, the middlewares
// also for replays.
func TestWithStrictServer(t *testing.T) {
	t.Parallel()
	s := &shapes{fail: errors.New("out of paper")}
	var middleware atomic.Int32
	srv := httptest.NewServer(newHandler(s, WithStrictServer(
		StrictHTTPServerOptions{ResponseErrorHandlerFunc: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, "own: "+err.Error(), http.StatusTeapot)
		}},
		func(next StrictHandlerFunc, _ string) StrictHandlerFunc {
			return func(ctx context.Context, w http.ResponseWriter, r *http.Request, request any) (any, error) {
				middleware.Add(1)
				return next(ctx, w, r, request)
			}
		},
	)))
	t.Cleanup(srv.Close)
	pay := drive.Request{Method: "POST", Path: "/accounts/a/payments", ContentType: "application/json", Body: `{"to":"b","amount":1}`}

	if got := drive.Send(t, srv.URL, pay, "Idempotency-Key", "k"); got.Status != http.StatusTeapot || got.Body != "own: out of paper\n" {
		t.Errorf("error: %d %s", got.Status, got.Body)
	}
	s.fail = nil
	for i := range 2 {
		got := drive.Send(t, srv.URL, pay, "Idempotency-Key", "k")
		if replayed := got.Header.Get("Idempotent-Replayed") == "true"; got.Status != 201 || replayed != (i == 1) {
			t.Errorf("%d: %d, replayed %t", i, got.Status, replayed)
		}
	}
	if got := middleware.Load(); got != 3 {
		t.Errorf("the middleware ran %d times, want 3", got)
	}
	pay.Body = `{`
	if got := drive.Send(t, srv.URL, pay, "Idempotency-Key", "k2"); got.Status != http.StatusBadRequest {
		t.Errorf("request error: %d %s", got.Status, got.Body)
	}
}

// A request survives the program that made it.
func TestRequestAsJSON(t *testing.T) {
	t.Parallel()
	dry := true
	req := NewCreatePaymentIdempotentRequest(NewCreatePaymentIdempotencyKey(), CreatePaymentInput{
		AccountId: "a", Params: CreatePaymentParams{DryRun: &dry}, Body: NewPayment{To: "b", Amount: 3},
	})
	data, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	var again CreatePaymentIdempotentRequest
	if err := json.Unmarshal(data, &again); err != nil {
		t.Fatal(err)
	}
	if !again.Equal(req) {
		t.Errorf("%s is not equal to what it was made of", data)
	}
	if other := NewCreatePaymentIdempotentRequest(req.IdempotencyKey, CreatePaymentInput{}); other.Equal(req) {
		t.Error("equal to a request for something else")
	}
	if s := fmt.Sprintf("%v %+v", req, req); strings.Contains(s, "Amount") || !strings.Contains(s, req.IdempotencyKey.String()) {
		t.Errorf("printed as %s", s)
	}
	var refund PostRefundsIdempotentRequest
	if err := json.Unmarshal(data, &refund); err == nil {
		t.Error("read as a request of another operation")
	}
	if _, err := json.Marshal(NewPutDocumentIdempotentRequest(NewPutDocumentIdempotencyKey(), PutDocumentInput{})); err == nil || !strings.Contains(err.Error(), "stream") {
		t.Errorf("a request with a stream: %v", err)
	}
	if err := json.Unmarshal(data, new(PutDocumentIdempotentRequest)); err == nil {
		t.Error("a request with a stream was read")
	}
}

// MultipartReader says what is wrong with a body that has no parts, and with one
// that the server does not take.
func TestMultipartReader(t *testing.T) {
	t.Parallel()
	for contentType, want := range map[string]error{
		"text/plain":          http.ErrNotMultipart,
		"multipart/form-data": http.ErrMissingBoundary,
	} {
		in := PostPartsInput{Body: strings.NewReader(""), ContentType: contentType}
		if _, err := in.MultipartReader(); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", contentType, err, want)
		}
	}
	if _, err := (PostPartsInput{ContentType: "?;?"}).MultipartReader(); err == nil {
		t.Error("no error for what is no media type")
	}
	r := drive.Request{Method: "POST", Path: "/uploads", ContentType: "multipart/mixed; boundary=one", Body: "--one--\r\n"}
	got := drive.Send(t, drive.Serve(t, newHandler(new(shapes))), r, "Idempotency-Key", "k")
	if got.Status != http.StatusInternalServerError || !strings.Contains(got.Body, http.ErrNotMultipart.Error()) {
		t.Errorf("%d %s, want the handler's error", got.Status, got.Body)
	}
}

// A browser may send the key across origins and read what answers add.
//
// Covers PRO-12.
func TestPreflight(t *testing.T) {
	t.Parallel()
	handler := newHandler(new(shapes))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "https://shop.example")
		w.Header().Set("Access-Control-Expose-Headers", strings.Join(IdempotencyResponseHeaders(), ", "))
		if r.Method == http.MethodOptions {
			w.Header().Set("Access-Control-Allow-Headers", strings.Join(IdempotencyRequestHeaders(), ", "))
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	preflight := drive.Send(t, srv.URL, drive.Request{Method: "OPTIONS", Path: "/accounts/a/payments", Header: http.Header{
		"Origin": {"https://shop.example"}, "Access-Control-Request-Method": {"POST"}, "Access-Control-Request-Headers": {"idempotency-key"},
	}}, "")
	allowed := strings.Split(preflight.Header.Get("Access-Control-Allow-Headers"), ", ")
	pay := drive.Request{Method: "POST", Path: "/accounts/a/payments", ContentType: "application/json", Body: `{"to":"b","amount":1}`}
	var replay drive.Answer
	for range 2 {
		replay = drive.Send(t, srv.URL, pay, allowed[0], "k")
	}
	exposed := strings.Split(replay.Header.Get("Access-Control-Expose-Headers"), ", ")
	if replay.Header.Get("Idempotent-Replayed") != "true" || !slices.Contains(exposed, "Idempotent-Replayed") || !slices.Contains(exposed, "Retry-After") {
		t.Errorf("allowed %q, exposed %q, replay %v", allowed, exposed, replay.Header)
	}
}

// The operation in a record is the document's name, not Go's.
//
// Covers GEN-03.
func TestOperationIDs(t *testing.T) {
	t.Parallel()
	for want, op := range map[string]*idempotency.Operation{
		"createPayment": CreatePaymentOp{}.Operation(),
		"POST /refunds": PostRefundsOp{}.Operation(),
	} {
		if op.ID != want {
			t.Errorf("%q, want %q", op.ID, want)
		}
	}
}
