package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/retry"
)

type doerFunc func(*http.Request) (*http.Response, error)

func (f doerFunc) Do(req *http.Request) (*http.Response, error) { return f(req) }

func mustURL(s string) *url.URL {
	u, err := url.Parse(s)
	if err != nil {
		panic(err)
	}
	return u
}

// observe appends what an observer is told to a list.
func observe(to *[]retry.Attempt) retry.Option {
	return retry.WithObserver(func(_ context.Context, a retry.Attempt) { *to = append(*to, a) })
}

// net/http sends a keyed request again by itself when a connection that was
// used before breaks: three requests for two calls, and each payment is made
// once.
//
// Covers CLI-15.
func TestTransportSendsAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault    fault
		replayed bool
	}{
		"closed before processing": {closeBefore, false},
		"closed after processing":  {closeAfter, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := new(shapes)
			p := newProxy(t, newHandler(s), nil, c.fault)
			var attempts []retry.Attempt
			client := newClient(t, p.address, observe(&attempts))
			first, second := payment(), payment()
			if _, err := client.CreatePayment(t.Context(), first); err != nil {
				t.Fatal(err)
			}
			got, err := client.CreatePayment(t.Context(), second)
			if err != nil || got.StatusCode() != 201 || got.Replayed() != c.replayed {
				t.Errorf("%+v, %v", got, err)
			}
			again := request{second.IdempotencyKey.String(), paymentBody}
			if want := []request{{first.IdempotencyKey.String(), paymentBody}, again, again}; !slices.Equal(p.requests(), want) {
				t.Errorf("%q, want %q", p.requests(), want)
			}
			if len(attempts) != 2 || attempts[0].Sent != 1 || attempts[1].Sent != 2 || attempts[1].Number != 1 {
				t.Errorf("%+v", attempts)
			}
			if s.ran() != 2 {
				t.Errorf("executed %d times, want once for each call", s.ran())
			}
		})
	}
}

// The same over HTTP/2, where a broken stream is told apart from a broken
// connection and is the loop's to repeat.
func TestHTTP2(t *testing.T) {
	t.Parallel()
	s := new(shapes)
	handler := newHandler(s)
	var requests atomic.Int32
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == 1 {
			handler.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		handler.ServeHTTP(w, r)
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	var attempts []retry.Attempt
	client, err := NewIdempotentClient(srv.URL, newTestClock().options(WithClientOptions(WithHTTPClient(srv.Client())), observe(&attempts))...)
	if err != nil {
		t.Fatal(err)
	}
	got, err := client.CreatePayment(t.Context(), payment())
	if err != nil || got.HTTPResponse.ProtoMajor != 2 || !got.Replayed() || s.ran() != 1 || requests.Load() != 2 {
		t.Errorf("%+v, %v, executed %d times in %d requests", got, err, s.ran(), requests.Load())
	}
	if len(attempts) != 2 || attempts[0].Sent != 1 || attempts[1].Sent != 1 {
		t.Errorf("%+v", attempts)
	}
}

// A caller who repeats a call that repeats itself multiplies the requests, and
// not the payments.
//
// Covers CLI-15.
func TestStackedRetries(t *testing.T) {
	t.Parallel()
	s := new(shapes)
	p := newProxy(t, newHandler(s), slices.Repeat([]fault{closeAfter}, 12)...)
	var attempts []retry.Attempt
	client := newClient(t, p.address, newTestClock().options(observe(&attempts))...)
	req := payment()
	for range 3 {
		if _, err := client.CreatePayment(t.Context(), req); !errors.Is(err, idempotency.ErrOutcomeUnknown) {
			t.Error(err)
		}
	}
	if want := slices.Repeat([]request{{req.IdempotencyKey.String(), paymentBody}}, 12); !slices.Equal(p.requests(), want) {
		t.Errorf("%q", p.requests())
	}
	if got, err := client.CreatePayment(t.Context(), req); err != nil || !got.Replayed() || s.ran() != 1 {
		t.Errorf("%+v, %v, executed %d times", got, err, s.ran())
	}
	for i, a := range attempts[:12] {
		if a.Number != i%4+1 || a.Final != (a.Number == 4) {
			t.Errorf("%d: %+v", i, a)
		}
	}
}

// Ten thousand calls that fail leave nothing behind: no goroutine, no
// connection. It runs alone, since it counts those of the process.
//
// Covers CLI-17.
func TestNothingIsLeftBehind(t *testing.T) { //nolint:paralleltest // see above
	var n atomic.Int64
	text := strings.Repeat("out of order ", 50)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch n.Add(1) % 100 {
		case 0: // cut within the body
			w.Header().Set("Content-Length", "1000")
			w.WriteHeader(http.StatusCreated)
			io.WriteString(w, text)
		case 1: // more than is read of an error
			w.WriteHeader(http.StatusInternalServerError)
			w.Write(make([]byte, 1<<20+1<<16))
		case 2:
			http.Redirect(w, r, "http://elsewhere.invalid", http.StatusTemporaryRedirect)
		default:
			http.Error(w, text, http.StatusServiceUnavailable)
		}
	}))
	defer srv.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client, err := NewIdempotentClient(srv.URL, WithClientOptions(WithHTTPClient(&http.Client{Transport: transport})),
		retry.WithAttempts(2), retry.WithBackoff(func(int) time.Duration { return 0 }))
	if err != nil {
		t.Fatal(err)
	}
	calls := func(n int) {
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range n / 4 {
					if _, err := client.CreatePayment(t.Context(), payment()); err == nil {
						t.Error("a call has succeeded")
					}
				}
			})
		}
		wg.Wait()
	}
	calls(100)
	before := counted(t)
	calls(10_000)
	var after counts
	for deadline := time.Now().Add(30 * time.Second); ; {
		after = counted(t)
		if after.goroutines <= before.goroutines+20 && after.files <= before.files+20 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("after 10,000 calls %+v, before them %+v", after, before)
		}
		runtime.Gosched()
	}
	t.Logf("after 10,000 calls %+v, before them %+v", after, before)
}

type counts struct{ goroutines, files int }

func counted(t *testing.T) counts {
	t.Helper()
	c := counts{goroutines: runtime.NumGoroutine()}
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Logf("open files are not counted: %v", err) // not on Linux
	}
	c.files = len(files)
	return c
}

// sentBy records what a call sends: the request as it goes over the wire.
func sentBy(t *testing.T, call func(HttpRequestDoer)) (requests []string) {
	t.Helper()
	call(doerFunc(func(req *http.Request) (*http.Response, error) {
		dump, err := httputil.DumpRequestOut(req, true)
		if err != nil {
			t.Error(err)
		}
		requests = append(requests, string(dump))
		return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody}, nil
	}))
	return requests
}

// A marked operation sends what oapi-codegen's client sends, and the key; an
// unmarked one sends the same, once.
func TestRequestsAreThoseOfOapiCodegen(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	const address = "http://shop.example/v1"
	yes, trace, session, text := true, "t", "s", "text"
	params := CreatePaymentParams{DryRun: &yes, XTrace: &trace, Session: &session}
	body := NewPayment{To: "b", Amount: 1 << 60}
	payment := uuid.MustParse(id)
	data := func() io.Reader { return strings.NewReader("\x00\xffdata") }
	for name, c := range map[string]struct {
		marked bool
		ours   func(IdempotentClient)
		theirs func(*Client)
	}{
		"unmarked": {
			false,
			func(c IdempotentClient) { c.GetPaymentWithResponse(ctx, payment) },
			func(c *Client) { c.GetPayment(ctx, payment) },
		},
		"json and parameters": {
			true,
			func(c IdempotentClient) {
				c.CreatePayment(ctx, NewCreatePaymentIdempotentRequest(idempotency.MustParseKey[CreatePaymentOp]("k"), CreatePaymentInput{AccountId: "a/b", Params: params, Body: body}))
			},
			func(c *Client) { c.CreatePayment(ctx, "a/b", &params, body) },
		},
		"no body": {
			true,
			func(c IdempotentClient) {
				c.CancelPayment(ctx, NewCancelPaymentIdempotentRequest(idempotency.MustParseKey[CancelPaymentOp]("k"), CancelPaymentInput{PaymentId: payment}))
			},
			func(c *Client) { c.CancelPayment(ctx, payment) },
		},
		"an optional body": {
			true,
			func(c IdempotentClient) {
				c.CloseAccount(ctx, NewCloseAccountIdempotentRequest(idempotency.MustParseKey[CloseAccountOp]("k"), CloseAccountInput{AccountId: "a", Body: &CloseAccountJSONRequestBody{Reason: &text}}))
			},
			func(c *Client) { c.CloseAccount(ctx, "a", CloseAccountJSONRequestBody{Reason: &text}) },
		},
		"bytes": {
			true,
			func(c IdempotentClient) {
				c.PutDocument(ctx, NewPutDocumentIdempotentRequest(idempotency.MustParseKey[PutDocumentOp]("k"), PutDocumentInput{Name: "n", Body: data()}))
			},
			func(c *Client) { c.PutDocumentWithBody(ctx, "n", "application/octet-stream", data()) },
		},
		"no bytes": {
			true,
			func(c IdempotentClient) {
				c.PutDocument(ctx, NewPutDocumentIdempotentRequest(idempotency.MustParseKey[PutDocumentOp]("k"), PutDocumentInput{Name: "n", Body: bytes.NewReader(nil)}))
			},
			func(c *Client) { c.PutDocumentWithBody(ctx, "n", "application/octet-stream", bytes.NewReader(nil)) },
		},
		"form": {
			true,
			func(c IdempotentClient) {
				c.SubmitForm(ctx, NewSubmitFormIdempotentRequest(idempotency.MustParseKey[SubmitFormOp]("k"), SubmitFormInput{Body: SubmitFormFormdataRequestBody{Color: "red & blue"}}))
			},
			func(c *Client) { c.SubmitFormWithFormdataBody(ctx, SubmitFormFormdataRequestBody{Color: "red & blue"}) },
		},
		"text": {
			true,
			func(c IdempotentClient) {
				c.AddNote(ctx, NewAddNoteIdempotentRequest(idempotency.MustParseKey[AddNoteOp]("k"), AddNoteInput{Body: "note"}))
			},
			func(c *Client) { c.AddNoteWithTextBody(ctx, "note") },
		},
		"parts": {
			true,
			func(c IdempotentClient) {
				c.PostParts(ctx, NewPostPartsIdempotentRequest(idempotency.MustParseKey[PostPartsOp]("k"), PostPartsInput{Body: data(), ContentType: "multipart/form-data; boundary=x"}))
			},
			func(c *Client) { c.PostPartsWithBody(ctx, "multipart/form-data; boundary=x", data()) },
		},
		"an image": {
			true,
			func(c IdempotentClient) {
				c.PostImage(ctx, NewPostImageIdempotentRequest(idempotency.MustParseKey[PostImageOp]("k"), PostImageInput{Body: data(), ContentType: "image/png"}))
			},
			func(c *Client) { c.PostImageWithBody(ctx, "image/png", data()) },
		},
		"json of several": {
			true,
			func(c IdempotentClient) {
				c.Upload(ctx, NewUploadIdempotentRequest(idempotency.MustParseKey[UploadOp]("k"), UploadInput{ApplicationJSONCharsetUTF8Body: &UploadApplicationJSONCharsetUTF8RequestBody{Text: &text}}))
			},
			func(c *Client) {
				c.UploadWithApplicationJSONCharsetUTF8Body(ctx, UploadApplicationJSONCharsetUTF8RequestBody{Text: &text})
			},
		},
		"form of several": {
			true,
			func(c IdempotentClient) {
				c.Upload(ctx, NewUploadIdempotentRequest(idempotency.MustParseKey[UploadOp]("k"), UploadInput{FormdataBody: &UploadFormdataRequestBody{Text: &text}}))
			},
			func(c *Client) { c.UploadWithFormdataBody(ctx, UploadFormdataRequestBody{Text: &text}) },
		},
		"bytes of several": {
			true,
			func(c IdempotentClient) {
				c.Upload(ctx, NewUploadIdempotentRequest(idempotency.MustParseKey[UploadOp]("k"), UploadInput{Body: data(), ContentType: "application/octet-stream"}))
			},
			func(c *Client) { c.UploadWithBody(ctx, "application/octet-stream", data()) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			theirs := sentBy(t, func(doer HttpRequestDoer) {
				client, err := NewClient(address, WithHTTPClient(doer))
				if err != nil {
					t.Fatal(err)
				}
				if c.marked {
					client.RequestEditors = []RequestEditorFn{func(_ context.Context, r *http.Request) error { r.Header.Set("Idempotency-Key", "k"); return nil }}
				}
				c.theirs(client)
			})
			ours := sentBy(t, func(doer HttpRequestDoer) {
				client, err := NewIdempotentClient(address, newTestClock().options(WithClientOptions(WithHTTPClient(doer)))...)
				if err != nil {
					t.Fatal(err)
				}
				c.ours(client)
			})
			want := theirs
			if c.marked {
				want = slices.Repeat(theirs, 4)
			}
			if len(theirs) != 1 || !slices.Equal(ours, want) {
				t.Errorf("%d requests %q\nwant %d of %q", len(ours), ours, len(want), theirs)
			}
		})
	}
}

// Options of oapi-codegen's client add up, an address can have a path, and a
// call's own editors run after the client's, for each attempt.
func TestClientOptions(t *testing.T) {
	t.Parallel()
	s := new(shapes)
	mux := http.NewServeMux()
	mux.Handle("/v1/", http.StripPrefix("/v1", newHandler(s)))
	p := newProxy(t, mux, status(503))
	var order []string
	editor := func(name string) RequestEditorFn {
		return func(_ context.Context, r *http.Request) error {
			order = append(order, name+" "+r.URL.Path)
			return nil
		}
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	for _, address := range []string{p.address + "/v1", p.address + "/v1/"} {
		order = nil
		client, err := NewIdempotentClient(address, newTestClock().options(
			WithClientOptions(WithRequestEditorFn(editor("first"))),
			WithClientOptions(WithHTTPClient(&http.Client{Transport: transport}), WithRequestEditorFn(editor("second"))))...)
		if err != nil {
			t.Fatal(err)
		}
		before := len(p.requests())
		if got, err := client.CreatePayment(t.Context(), payment(), editor("call")); err != nil || got.StatusCode() != 201 {
			t.Fatalf("%+v, %v", got, err)
		}
		const path = " /v1/accounts/a/payments"
		if want := slices.Repeat([]string{"first" + path, "second" + path, "call" + path}, len(p.requests())-before); !slices.Equal(order, want) {
			t.Errorf("%q, want %q", order, want)
		}
	}
	if len(p.requests()) != 3 {
		t.Errorf("%d requests, want two and one", len(p.requests()))
	}
	if _, err := NewIdempotentClient("http://shop.example", WithClientOptions(func(*Client) error { return errors.New("no") })); err == nil {
		t.Error("an option's error is lost")
	}
	if _, err := mustClient(t, "shop.example:80").CreatePayment(t.Context(), payment()); callError(t, err).Attempts != 0 {
		t.Errorf("an address without a scheme: %v", err)
	}
}

func mustClient(t *testing.T, address string) IdempotentClient {
	t.Helper()
	client, err := NewIdempotentClient(address)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// Cookies of one attempt are in the next, and a body waits for 100 Continue.
func TestJarAndExpect(t *testing.T) {
	t.Parallel()
	handler := newHandler(new(shapes))
	var mu sync.Mutex
	var seen []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		cookies := r.Header.Get("Cookie")
		seen = append(seen, r.Header.Get("Expect")+" "+cookies)
		if cookies == "" {
			http.SetCookie(w, &http.Cookie{Name: "node", Value: "1"})
			w.WriteHeader(http.StatusServiceUnavailable) // without reading the body
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{ExpectContinueTimeout: time.Hour}
	t.Cleanup(transport.CloseIdleConnections)
	client, err := NewIdempotentClient(srv.URL, newTestClock().options(WithClientOptions(WithHTTPClient(&http.Client{Transport: transport, Jar: jar})))...)
	if err != nil {
		t.Fatal(err)
	}
	got, err := client.CreatePayment(t.Context(), payment(), func(_ context.Context, r *http.Request) error {
		r.Header.Set("Expect", "100-continue")
		return nil
	})
	if err != nil || got.StatusCode() != 201 {
		t.Errorf("%+v, %v", got, err)
	}
	if want := []string{"100-continue ", "100-continue node=1"}; !slices.Equal(seen, want) {
		t.Errorf("%q, want %q", seen, want)
	}
}

// Requests without key or input, and bodies that are missing, too many or not
// to be read again, are refused before anything is sent.
func TestRefusedBeforeSending(t *testing.T) {
	t.Parallel()
	p := newProxy(t, newHandler(new(shapes)))
	client := newClient(t, p.address)
	ctx := t.Context()
	key := NewUploadIdempotencyKey()
	upload := func(in UploadInput) error {
		_, err := client.Upload(ctx, NewUploadIdempotentRequest(key, in))
		return err
	}
	pay := func(req CreatePaymentIdempotentRequest) error {
		_, err := client.CreatePayment(ctx, req)
		return err
	}
	var request UploadFormdataRequestBody
	for want, err := range map[string]error{
		"key_missing":               pay(NewCreatePaymentIdempotentRequest(CreatePaymentIdempotencyKey{}, CreatePaymentInput{})),
		"the request has no input":  pay(CreatePaymentIdempotentRequest{IdempotencyKey: NewCreatePaymentIdempotencyKey()}),
		"the input has no body":     upload(UploadInput{}),
		"the input has 2 bodies":    upload(UploadInput{FormdataBody: &request, Body: strings.NewReader("a")}),
		"and no ContentType":        upload(UploadInput{Body: strings.NewReader("a")}),
		"cannot be read again":      upload(UploadInput{ContentType: "text/plain", Body: io.MultiReader()}),
		"second attempt: it is nil": upload(UploadInput{ContentType: "text/plain", Body: (*bytes.Reader)(nil)}),
	} {
		if e := callError(t, err); e.Attempts != 0 || e.OutcomeUnknown || !strings.Contains(err.Error(), want) || !strings.HasSuffix(err.Error(), "; nothing was sent") {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if len(p.requests()) != 0 {
		t.Errorf("%q was sent", p.requests())
	}
}

// An operation whose key is optional is sent once without one.
func TestUnprotectedRequest(t *testing.T) {
	t.Parallel()
	s := new(shapes)
	p := newProxy(t, newHandler(s), closeAfter)
	client := newClient(t, p.address, newTestClock().options()...)
	_, err := client.AddNote(t.Context(), NewAddNoteUnprotectedRequest(AddNoteInput{Body: "note"}))
	if e := callError(t, err); e.Attempts != 1 || !e.OutcomeUnknown || e.Key != "" || s.ran() != 1 || len(p.requests()) != 1 {
		t.Errorf("%v, executed %d times", err, s.ran())
	}
}

// plain is the same API without idempotency: a strict server of oapi-codegen.
type plain struct {
	StrictServerInterface
	runs atomic.Int32
}

func (s *plain) CreatePayment(_ context.Context, request CreatePaymentRequestObject) (CreatePaymentResponseObject, error) {
	s.runs.Add(1)
	return CreatePayment201JSONResponse{Body: Payment{To: request.Body.To}, Headers: CreatePayment201ResponseHeaders{Location: "/payments/1"}}, nil
}

// A server that knows nothing of keys executes every attempt, and never says
// that an answer is a replay.
func TestServerWithoutIdempotency(t *testing.T) {
	t.Parallel()
	s := new(plain)
	p := newProxy(t, Handler(NewStrictHandler(s, nil)), closeAfter)
	got, err := newClient(t, p.address, newTestClock().options()...).CreatePayment(t.Context(), payment())
	if err != nil || got.StatusCode() != 201 || got.Replayed() || s.runs.Load() != 2 {
		t.Errorf("%+v, %v, executed %d times", got, err, s.runs.Load())
	}
	p = newProxy(t, Handler(NewStrictHandler(s, nil)), closeAfter)
	_, err = newClient(t, p.address, newTestClock().options(retry.WithAttempts(1))...).CreatePayment(t.Context(), payment())
	if callError(t, err); s.runs.Load() != 3 {
		t.Errorf("%v, executed %d times", err, s.runs.Load())
	}
}

// stub stands in for the client in tests of its users.
type stub struct{ IdempotentClient }

func (stub) CreatePayment(_ context.Context, req CreatePaymentIdempotentRequest, _ ...RequestEditorFn) (*CreatePaymentResponse, error) {
	return &CreatePaymentResponse{JSON201: &Payment{To: req.Input().Body.To}}, nil
}

func TestStub(t *testing.T) {
	t.Parallel()
	var client IdempotentClient = stub{}
	got, err := client.CreatePayment(t.Context(), payment())
	if err != nil || got.JSON201.To != "b" || got.Replayed() || got.StatusCode() != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// One client makes many calls at a time, each under its own key.
//
// Covers CLI-02.
func TestConcurrentCalls(t *testing.T) {
	t.Parallel()
	s := new(shapes)
	p := newProxy(t, newHandler(s), slices.Repeat([]fault{closeAfter, nil, cutAfter}, 10)...)
	client := newClient(t, p.address, retry.WithBackoff(func(int) time.Duration { return 0 }), retry.WithAttempts(31))
	var wg sync.WaitGroup
	ids := make([]uuid.UUID, 30)
	for i := range ids {
		wg.Go(func() {
			got, err := client.CreatePayment(t.Context(), payment())
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = got.JSON201.Id
		})
	}
	wg.Wait()
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	if s.ran() != 30 || len(slices.Compact(ids)) != 30 {
		t.Errorf("executed %d times, %d payments", s.ran(), len(slices.Compact(ids)))
	}
}

// BenchmarkClient compares a call with oapi-codegen's own, without a network.
func BenchmarkClient(b *testing.B) {
	body := []byte(`{"id":"` + id + `","to":"b","amount":3}`)
	doer := WithHTTPClient(doerFunc(func(req *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: http.StatusCreated, Body: io.NopCloser(bytes.NewReader(body)), Request: req,
			Header: http.Header{"Content-Type": {"application/json"}, "Location": {"/payments/1"}},
		}, nil
	}))
	req := payment()
	in := req.Input()
	b.Run("oapi-codegen", func(b *testing.B) {
		client, err := NewClientWithResponses("http://shop.example", doer)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			if _, err := client.CreatePaymentWithResponse(b.Context(), in.AccountId, &in.Params, in.Body); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("idemgen", func(b *testing.B) {
		client, err := NewIdempotentClient("http://shop.example", WithClientOptions(doer))
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			if _, err := client.CreatePayment(b.Context(), req); err != nil {
				b.Fatal(err)
			}
		}
	})
}
