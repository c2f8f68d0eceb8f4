package api

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
	"github.com/idemgen/idemgen/runtime/retry"
)

// request is one request as it came over the wire.
type request struct{ key, body string }

// fault is what a proxy does with a request instead of passing it on.
type fault func(p *proxy, client net.Conn, req *http.Request)

// proxy is an HTTP proxy before a real server. Each request meets the next of
// its faults, and passes once there are none left.
type proxy struct {
	address, upstream string

	mu     sync.Mutex
	faults []fault
	seen   []request
}

// newProxy starts a proxy before a handler.
func newProxy(t *testing.T, handler http.Handler, faults ...fault) *proxy {
	t.Helper()
	upstream := httptest.NewServer(handler)
	t.Cleanup(upstream.Close)
	p := &proxy{upstream: upstream.Listener.Addr().String(), faults: faults}
	p.address = "http://" + listen(t, p.serve)
	return p
}

// listen accepts connections on loopback until the test ends.
func listen(t *testing.T, serve func(net.Conn)) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				serve(conn)
			})
		}
	})
	t.Cleanup(func() { listener.Close(); wg.Wait() })
	return listener.Addr().String()
}

func (p *proxy) serve(client net.Conn) {
	reader := bufio.NewReader(client)
	for {
		req, err := http.ReadRequest(reader)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
		if next := p.next(request{strings.Join(req.Header.Values("Idempotency-Key"), "+"), string(body)}); next != nil {
			next(p, client, req)
			return
		}
		client.Write(p.forward(req))
	}
}

func (p *proxy) next(r request) fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, r)
	if len(p.seen) > len(p.faults) {
		return nil
	}
	return p.faults[len(p.seen)-1]
}

func (p *proxy) requests() []request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.seen)
}

// forward has the server execute a request, and returns its answer.
func (p *proxy) forward(req *http.Request) []byte {
	upstream, err := net.Dial("tcp", p.upstream)
	if err != nil {
		return nil
	}
	defer upstream.Close()
	if err := req.Write(upstream); err != nil {
		return nil
	}
	resp, err := http.ReadResponse(bufio.NewReader(upstream), req)
	if err != nil {
		return nil
	}
	answer, err := httputil.DumpResponse(resp, true)
	if err != nil {
		return nil
	}
	return answer
}

// The faults. Those called "after" let the server execute the request first.
var (
	closeBefore fault = func(*proxy, net.Conn, *http.Request) {}
	closeAfter  fault = func(p *proxy, _ net.Conn, req *http.Request) { p.forward(req) }
	hang        fault = func(_ *proxy, client net.Conn, _ *http.Request) { io.Copy(io.Discard, client) }
	hangAfter   fault = func(p *proxy, client net.Conn, req *http.Request) { p.forward(req); io.Copy(io.Discard, client) }
	// cutAfter ends the connection before the Content-Length is reached.
	cutAfter fault = func(p *proxy, client net.Conn, req *http.Request) {
		answer := p.forward(req)
		client.Write(answer[:len(answer)-5])
	}
	cutHeadersAfter fault = func(p *proxy, client net.Conn, req *http.Request) { client.Write(p.forward(req)[:20]) }
	// cutChunksAfter ends it before the last chunk.
	cutChunksAfter = afterwards("HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"id\"\r\n")
	// cutOpenAfter sends half the JSON to a client that cannot know its length.
	cutOpenAfter         = afterwards("HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n{\"id\":\"0000")
	emptyAfter           = afterwards("HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
	noGzipAfter          = afterwards("HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nConnection: close\r\nContent-Length: 9\r\n\r\nnot gzip!")
	otherTypeAfter       = afterwards("HTTP/1.1 201 Created\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: 5\r\n\r\n<html")
	garbage              = answerWith("SSH-2.0-OpenSSH_9.6\r\n\r\n")
	withoutKey     fault = func(p *proxy, client net.Conn, req *http.Request) {
		req.Header.Del("Idempotency-Key")
		client.Write(p.forward(req))
	}
)

func answerWith(text string) fault {
	return func(_ *proxy, client net.Conn, _ *http.Request) { io.WriteString(client, text) }
}

func afterwards(text string) fault {
	return func(p *proxy, client net.Conn, req *http.Request) {
		p.forward(req)
		io.WriteString(client, text)
	}
}

// status answers without the server, and says that the connection ends: a client
// that used it once more could not tell what became of that request.
func status(code int, lines ...string) fault {
	header := strings.Join(append(lines, "Connection: close", "Content-Length: 4"), "\r\n")
	return answerWith(fmt.Sprintf("HTTP/1.1 %d %s\r\n%s\r\n\r\ntext", code, http.StatusText(code), header))
}

// testClock stands still between pauses, records them, and does what its test
// wants in them.
type testClock struct {
	now    time.Time
	pauses []time.Duration
	during func()
}

func newTestClock() *testClock { return &testClock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

// options set the clock, and pauses of 1 ms, 2 ms and so on beside what the
// server asks for.
func (c *testClock) options(more ...retry.Option) []retry.Option {
	return append([]retry.Option{
		retry.WithBackoff(func(retry int) time.Duration { return time.Duration(retry) * time.Millisecond }),
		retry.WithClock(func() time.Time { return c.now }, func(_ context.Context, d time.Duration) {
			c.pauses = append(c.pauses, d)
			c.now = c.now.Add(d)
			if c.during != nil {
				c.during()
			}
		}),
	}, more...)
}

// newClient returns a client with connections of its own.
func newClient(t *testing.T, address string, opts ...retry.Option) IdempotentClient {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	client, err := NewIdempotentClient(address, append([]retry.Option{WithClientOptions(WithHTTPClient(&http.Client{Transport: transport}))}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// payment is a request to createPayment under a new key.
func payment() CreatePaymentIdempotentRequest {
	return NewCreatePaymentIdempotentRequest(NewCreatePaymentIdempotencyKey(), CreatePaymentInput{
		AccountId: "a", Body: NewPayment{To: "b", Amount: 3},
	})
}

const paymentBody = `{"amount":3,"to":"b"}`

// callError returns a call's error.
func callError(t *testing.T, err error) *idempotency.CallError {
	t.Helper()
	var e *idempotency.CallError
	if !errors.As(err, &e) {
		t.Fatalf("%v is no *idempotency.CallError", err)
	}
	return e
}

// The generated client before the generated server, with each fault of the wire
// between them: how often it is sent, after which pauses, and what the caller
// learns. Whatever happens, all requests are alike and the payment is made once.
//
// Covers CLI-01, CLI-05, CLI-06 and CLI-16.
func TestFaults(t *testing.T) {
	t.Parallel()
	const ms, second = time.Millisecond, time.Second
	for name, c := range map[string]struct {
		faults   []fault
		opts     []retry.Option
		attempts int
		pauses   []time.Duration
		effects  int

		// The answer,
		status   int // 0 for an error
		replayed bool
		// or the error.
		unknown bool
		code    idempotency.Code
		is      error
		text    string
	}{
		"no fault": {attempts: 1, effects: 1, status: 201},

		"closed before processing":    {faults: []fault{closeBefore}, attempts: 2, pauses: []time.Duration{ms}, effects: 1, status: 201},
		"closed after processing":     {faults: []fault{closeAfter}, attempts: 2, pauses: []time.Duration{ms}, effects: 1, status: 201, replayed: true},
		"closed within the header":    {faults: []fault{cutHeadersAfter}, attempts: 2, pauses: []time.Duration{ms}, effects: 1, status: 201, replayed: true},
		"truncated 201":               {faults: []fault{cutAfter}, attempts: 2, pauses: []time.Duration{ms}, effects: 1, status: 201, replayed: true},
		"truncated chunks":            {faults: []fault{cutChunksAfter}, attempts: 2, pauses: []time.Duration{ms}, effects: 1, status: 201, replayed: true},
		"truncated, without a length": {faults: []fault{cutOpenAfter}, attempts: 2, pauses: []time.Duration{ms}, effects: 1, status: 201, replayed: true},
		"empty 201":                   {faults: []fault{emptyAfter}, attempts: 2, pauses: []time.Duration{ms}, effects: 1, status: 201, replayed: true},
		"broken gzip":                 {faults: []fault{noGzipAfter}, attempts: 2, pauses: []time.Duration{ms}, effects: 1, status: 201, replayed: true},
		"no HTTP":                     {faults: []fault{garbage}, attempts: 2, pauses: []time.Duration{ms}, effects: 1, status: 201},
		"three faults in a row": {
			faults: []fault{closeAfter, cutAfter, cutOpenAfter}, attempts: 4, pauses: []time.Duration{ms, 2 * ms, 3 * ms},
			effects: 1, status: 201, replayed: true,
		},
		"always closed after processing": {
			faults: []fault{closeAfter, closeAfter, closeAfter, closeAfter}, attempts: 4, pauses: []time.Duration{ms, 2 * ms, 3 * ms},
			effects: 1, unknown: true, is: io.EOF, text: "call it again with the same request to learn its outcome",
		},
		"always truncated": {
			faults: []fault{cutAfter, cutAfter, cutAfter, cutAfter}, attempts: 4, pauses: []time.Duration{ms, 2 * ms, 3 * ms},
			effects: 1, unknown: true, is: io.ErrUnexpectedEOF, text: "the server answered 201 Created, which broke off after",
		},
		"always half a JSON": {
			faults: []fault{cutOpenAfter, cutOpenAfter, cutOpenAfter, cutOpenAfter}, attempts: 4, pauses: []time.Duration{ms, 2 * ms, 3 * ms},
			effects: 1, unknown: true, text: "the server answered 201 Created, and the answer cannot be read",
		},
		"another media type": {faults: []fault{otherTypeAfter}, attempts: 1, effects: 1, status: 201}, // with no JSON201: see below

		"hanging attempt":                  {faults: []fault{hang}, opts: []retry.Option{retry.WithAttemptTimeout(2 * second)}, attempts: 2, pauses: []time.Duration{ms}, effects: 1, status: 201},
		"hanging attempt after processing": {faults: []fault{hangAfter}, opts: []retry.Option{retry.WithAttemptTimeout(2 * second)}, attempts: 2, pauses: []time.Duration{ms}, effects: 1, status: 201, replayed: true},
		"always hanging": {
			faults: []fault{hang, hang}, opts: []retry.Option{retry.WithAttemptTimeout(second), retry.WithAttempts(2)}, attempts: 2, pauses: []time.Duration{ms},
			unknown: true, text: "the attempt took longer than 1s",
		},

		"503":          {faults: []fault{status(503)}, attempts: 2, pauses: []time.Duration{ms}, effects: 1, status: 201},
		"503, seconds": {faults: []fault{status(503, "Retry-After: 7")}, attempts: 2, pauses: []time.Duration{7*second + ms}, effects: 1, status: 201},
		"503, a date": {
			faults:   []fault{status(503, "Retry-After: Fri, 02 Jan 2026 03:04:17 GMT")},
			attempts: 2, pauses: []time.Duration{12*second + ms}, effects: 1, status: 201,
		},
		"503, a date of another clock": {
			faults:   []fault{status(503, "Date: Thu, 01 Jan 2026 00:00:00 GMT", "Retry-After: Thu, 01 Jan 2026 00:00:05 GMT")},
			attempts: 2, pauses: []time.Duration{5*second + ms}, effects: 1, status: 201,
		},
		"503, a date that has passed": {
			faults:   []fault{status(503, "Retry-After: Fri, 02 Jan 2026 03:04:00 GMT")},
			attempts: 2, pauses: []time.Duration{ms}, effects: 1, status: 201,
		},
		"always 503": {
			faults: []fault{status(503), status(503), status(503), status(503)}, attempts: 4, pauses: []time.Duration{ms, 2 * ms, 3 * ms},
			unknown: true, is: idempotency.ErrOutcomeUnknown, text: "the server answered 503 Service Unavailable; 4 attempts were made",
		},
		"always throttled": {
			faults: []fault{status(429), status(429), status(429), status(429)}, attempts: 4, pauses: []time.Duration{ms, 2 * ms, 3 * ms},
			text: "the server answered 429 Too Many Requests; 4 attempts were made",
		},
		"a long Retry-After": {
			faults: []fault{status(503, "Retry-After: 86400")}, attempts: 1, unknown: true, text: "asks to wait 24h0m0s, which is more than the client waits",
		},
		"one attempt": {
			faults: []fault{closeAfter}, opts: []retry.Option{retry.WithAttempts(1)}, attempts: 1, effects: 1, unknown: true, is: io.EOF,
		},
		"a proxy that drops the key": {
			faults: []fault{withoutKey}, attempts: 1, code: idempotency.CodeKeyMissing, text: "the server answered 400 Bad Request, key_missing",
		},
		"a proxy's own 401 is an answer": {faults: []fault{status(401)}, attempts: 1, status: 401},
		"a proxy's own 400 is an answer": {faults: []fault{status(400)}, attempts: 1, status: 400},
		"a business 409 is an answer":    {faults: []fault{status(409)}, attempts: 1, status: 409},
		"409 of another server": {
			faults: []fault{status(409, "Retry-After: 2"), status(409, "Retry-After: 2")}, attempts: 3,
			pauses: []time.Duration{2*second + ms, 2*second + 2*ms}, effects: 1, status: 201,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, clock, req := new(shapes), newTestClock(), payment()
			p := newProxy(t, newHandler(s), c.faults...)
			got, err := newClient(t, p.address, clock.options(c.opts...)...).CreatePayment(t.Context(), req)

			seen := p.requests()
			if want := slices.Repeat([]request{{req.IdempotencyKey.String(), paymentBody}}, c.attempts); !slices.Equal(seen, want) {
				t.Errorf("requests %q\nwant %q", seen, want)
			}
			if !slices.Equal(clock.pauses, c.pauses) {
				t.Errorf("pauses %v, want %v", clock.pauses, c.pauses)
			}
			if s.ran() != c.effects {
				t.Errorf("executed %d times, want %d", s.ran(), c.effects)
			}
			if c.status != 0 {
				if err != nil || got.StatusCode() != c.status || got.Replayed() != c.replayed {
					t.Errorf("%+v, %v", got, err)
				}
				return
			}
			e := callError(t, err)
			if e.Operation != "createPayment" || e.Key != req.IdempotencyKey.String() || e.Attempts != c.attempts || e.OutcomeUnknown != c.unknown {
				t.Errorf("%+v", e)
			}
			if (e.Problem == nil) != (c.code == "") || e.Problem != nil && e.Problem.Code != c.code {
				t.Errorf("problem %+v, want %q", e.Problem, c.code)
			}
			if c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v\nis not %v, or lacks %q", err, c.is, c.text)
			}
		})
	}
}

// A 201 of a media type that the document does not name is no error: what came
// is there, and nothing is decoded.
//
// Covers CLI-16.
func TestOtherMediaType(t *testing.T) {
	t.Parallel()
	p := newProxy(t, newHandler(new(shapes)), otherTypeAfter)
	client, req := newClient(t, p.address), payment()
	got, err := client.CreatePayment(t.Context(), req)
	if err != nil || got.StatusCode() != 201 || got.JSON201 != nil || string(got.Body) != "<html" {
		t.Fatalf("%+v, %v", got, err)
	}
	if again, err := client.CreatePayment(t.Context(), req); err != nil || again.JSON201 == nil || !again.Replayed() {
		t.Errorf("the same request again: %+v, %v", again, err)
	}
}

// holding is a server whose payments wait.
type holding struct {
	shapes
	began, release chan struct{}
}

func (s *holding) CreatePayment(ctx context.Context, tx struct{}, req CreatePaymentIdempotentRequest) (CreatePaymentResponseObject, error) {
	close(s.began)
	<-s.release
	return s.shapes.CreatePayment(ctx, tx, req)
}

// An attempt that is lost while the server still runs it is waited for: 409,
// Retry-After, and then its answer.
//
// Covers CLI-05.
func TestInFlight(t *testing.T) {
	t.Parallel()
	for name, finishes := range map[string]bool{"finishes": true, "does not finish in time": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &holding{began: make(chan struct{}), release: make(chan struct{})}
			done := make(chan struct{})
			lost := func(p *proxy, _ net.Conn, req *http.Request) {
				go func() { p.forward(req); close(done) }()
				<-s.began
			}
			p := newProxy(t, Handler(NewIdempotentHandler(s, memstore.New(), idempotency.Unscoped)), lost)
			clock := newTestClock()
			clock.during = func() {
				if finishes && len(clock.pauses) == 3 {
					close(s.release)
					<-done
				}
			}
			client, req := newClient(t, p.address, clock.options(retry.WithInFlightWait(10*time.Second))...), payment()
			got, err := client.CreatePayment(t.Context(), req)
			const ms, second = time.Millisecond, time.Second
			if finishes {
				if err != nil || got.StatusCode() != 201 || !got.Replayed() || s.ran() != 1 {
					t.Errorf("%+v, %v, executed %d times", got, err, s.ran())
				}
				if want := []time.Duration{ms, second + 2*ms, second + 3*ms}; !slices.Equal(clock.pauses, want) {
					t.Errorf("pauses %v, want %v", clock.pauses, want)
				}
				return
			}
			e := callError(t, err)
			if !errors.Is(err, idempotency.ErrInFlight) || !e.OutcomeUnknown || e.Attempts != 11 || e.Key != req.IdempotencyKey.String() {
				t.Errorf("%v", err)
			}
			close(s.release)
			<-done
			// The documented step: the same request again.
			if got, err := client.CreatePayment(t.Context(), req); err != nil || !got.Replayed() || s.ran() != 1 {
				t.Errorf("%+v, %v, executed %d times", got, err, s.ran())
			}
		})
	}
}

// Refusals that nothing can change are told at once.
//
// Covers CLI-06.
func TestRefusals(t *testing.T) {
	t.Parallel()
	nobody := func(context.Context, http.Header) (string, error) { return "", nil }
	failing := func(context.Context, http.Header) (string, error) { return "", errors.New("no directory") }
	for name, c := range map[string]struct {
		scope idempotency.Scope
		opts  []idempotency.Option
		used  bool // the key, for another payment
		code  idempotency.Code
		text  string
	}{
		"mismatch":       {scope: idempotency.Unscoped, used: true, code: idempotency.CodeMismatch, text: "the server answered 422 Unprocessable Entity, mismatch"},
		"401":            {scope: nobody, code: idempotency.CodeScopeMissing, text: "the server answered 401 Unauthorized, scope_missing"},
		"500":            {scope: failing, code: idempotency.CodeInternal, text: "the server answered 500 Internal Server Error, internal"},
		"body too large": {scope: idempotency.Unscoped, opts: []idempotency.Option{idempotency.WithRequestLimit(3)}, code: idempotency.CodeBodyTooLarge, text: "413"},
		"answer too large": {
			scope: idempotency.Unscoped, opts: []idempotency.Option{idempotency.WithResponseLimit(3)}, code: idempotency.CodeResponseTooLarge, text: "500",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := new(shapes)
			p := newProxy(t, Handler(NewIdempotentHandler(s, memstore.New(), c.scope, c.opts...)))
			client, req := newClient(t, p.address), payment()
			if c.used {
				if _, err := client.CreatePayment(t.Context(), NewCreatePaymentIdempotentRequest(req.IdempotencyKey, CreatePaymentInput{AccountId: "a"})); err != nil {
					t.Fatal(err)
				}
			}
			before := len(p.requests())
			_, err := client.CreatePayment(t.Context(), req)
			e := callError(t, err)
			if len(p.requests())-before != 1 || e.Attempts != 1 || e.OutcomeUnknown || e.Problem == nil || e.Problem.Code != c.code || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%d requests, %v, %+v", len(p.requests())-before, err, e.Problem)
			}
			if !errors.Is(err, &idempotency.Error{Code: c.code}) {
				t.Errorf("%v does not match %s", err, c.code)
			}
		})
	}
}

// Where no connection comes about, nothing can have been executed.
func TestNoConnection(t *testing.T) { //nolint:tparallel // the cases count what one server executes
	t.Parallel()
	s := new(shapes)
	secure := httptest.NewUnstartedServer(newHandler(s))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes are cut on purpose
	secure.StartTLS()
	t.Cleanup(secure.Close)
	// cutHandshakes ends n TLS handshakes half-way, and passes bytes on from
	// then on.
	cutHandshakes := func(n int) string {
		var mu sync.Mutex
		return "https://" + listen(t, func(client net.Conn) {
			mu.Lock()
			n--
			cut := n >= 0
			mu.Unlock()
			if cut {
				client.Read(make([]byte, 16))
				return
			}
			upstream, err := net.Dial("tcp", secure.Listener.Addr().String())
			if err != nil {
				return
			}
			defer upstream.Close()
			go func() { io.Copy(upstream, client); upstream.Close() }()
			io.Copy(client, upstream)
		})
	}
	trusting := secure.Client().Transport.(*http.Transport).TLSClientConfig
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	noResolver := &net.Dialer{Resolver: &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("no name server")
	}}}
	var dns *net.DNSError
	var certificate x509.UnknownAuthorityError
	for name, c := range map[string]struct {
		address   string
		transport *http.Transport
		attempts  int
		succeeds  bool
		is        error
		as        any
	}{
		"refused":                {"http://" + closed.Addr().String(), &http.Transport{}, 4, false, syscall.ECONNREFUSED, nil},
		"no name":                {"http://shop.invalid", &http.Transport{DialContext: noResolver.DialContext}, 4, false, nil, &dns},
		"handshake cut":          {cutHandshakes(2), &http.Transport{TLSClientConfig: trusting}, 3, true, nil, nil},
		"handshake always cut":   {cutHandshakes(99), &http.Transport{TLSClientConfig: trusting}, 4, false, nil, nil},
		"certificate of another": {secure.URL, &http.Transport{TLSClientConfig: &tls.Config{RootCAs: x509.NewCertPool()}}, 1, false, nil, &certificate},
		"a proxy refuses":        {"http://shop.invalid", &http.Transport{Proxy: http.ProxyURL(mustURL("http://" + closed.Addr().String()))}, 4, false, syscall.ECONNREFUSED, nil},
	} {
		t.Run(name, func(t *testing.T) {
			clock := newTestClock()
			t.Cleanup(c.transport.CloseIdleConnections)
			before := s.ran()
			var attempts []retry.Attempt
			client, err := NewIdempotentClient(c.address, clock.options(
				WithClientOptions(WithHTTPClient(&http.Client{Transport: c.transport})),
				retry.WithObserver(func(_ context.Context, a retry.Attempt) { attempts = append(attempts, a) }))...)
			if err != nil {
				t.Fatal(err)
			}
			got, err := client.CreatePayment(t.Context(), payment())
			if len(attempts) != c.attempts || len(clock.pauses) != c.attempts-1 {
				t.Errorf("%d attempts, want %d; pauses %v", len(attempts), c.attempts, clock.pauses)
			}
			for _, a := range attempts[:len(attempts)-1] {
				if a.Sent != 0 || a.Err == nil {
					t.Errorf("%+v", a)
				}
			}
			if c.succeeds {
				if err != nil || got.Replayed() || s.ran() != before+1 {
					t.Errorf("%+v, %v, executed %d times", got, err, s.ran()-before)
				}
				return
			}
			if e := callError(t, err); e.OutcomeUnknown || e.Attempts != c.attempts || s.ran() != before {
				t.Errorf("%v", err)
			}
			if c.is != nil && !errors.Is(err, c.is) || c.as != nil && !errors.As(err, c.as) {
				t.Errorf("%v is not %v %T", err, c.is, c.as)
			}
		})
	}
}

// A redirect is not followed: neither key nor body reach the other host.
//
// Covers CLI-14.
func TestRedirects(t *testing.T) {
	t.Parallel()
	for code, unknown := range map[int]bool{301: true, 302: true, 307: false, 308: false} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			t.Parallel()
			other := newProxy(t, newHandler(new(shapes)))
			moved := status(code, "Location: "+other.address+"/accounts/a/payments")
			p := newProxy(t, newHandler(new(shapes)), moved, moved)
			_, err := newClient(t, p.address).CreatePayment(t.Context(), payment())
			e := callError(t, err)
			if e.Attempts != 1 || e.OutcomeUnknown != unknown || e.Response.StatusCode != code || !strings.Contains(err.Error(), "to "+other.address+"/accounts/a/payments, which is not followed") {
				t.Errorf("%v", err)
			}
			if len(p.requests()) != 1 || len(other.requests()) != 0 {
				t.Errorf("%d requests here, %q there", len(p.requests()), other.requests())
			}

			// A doer that follows them is found out.
			transport := &http.Transport{}
			t.Cleanup(transport.CloseIdleConnections)
			follows := &http.Client{Transport: transport}
			client, err := NewIdempotentClient(p.address, WithClientOptions(WithHTTPClient(doerFunc(follows.Do))))
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.CreatePayment(t.Context(), payment())
			if e := callError(t, err); e.Attempts != 1 || !e.OutcomeUnknown || !strings.Contains(err.Error(), "the client's doer has followed a redirect to "+other.address) {
				t.Errorf("%v", err)
			}
			if len(p.requests()) != 2 || len(other.requests()) != 1 {
				t.Errorf("%d requests here, %q there", len(p.requests()), other.requests())
			}
		})
	}
	t.Run("303 says where the result is", func(t *testing.T) {
		t.Parallel()
		other := newProxy(t, newHandler(new(shapes)))
		p := newProxy(t, newHandler(new(shapes)), status(303, "Location: "+other.address+"/payments/1"))
		got, err := newClient(t, p.address).CreatePayment(t.Context(), payment())
		if err != nil || got.StatusCode() != 303 || got.HTTPResponse.Header.Get("Location") != other.address+"/payments/1" || len(other.requests()) != 0 {
			t.Errorf("%+v, %v, %q", got, err, other.requests())
		}
	})
}

// A caller who gives up during a pause is answered at once, and told that the
// outcome is unknown.
//
// Covers CLI-09.
func TestCancelledPause(t *testing.T) {
	t.Parallel()
	s := new(shapes)
	p := newProxy(t, newHandler(s), closeAfter)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the customer has gone")
	client := newClient(t, p.address,
		retry.WithBackoff(func(int) time.Duration { return time.Hour }),
		retry.WithObserver(func(context.Context, retry.Attempt) { go cancel(gone) }))
	req := payment()
	_, err := client.CreatePayment(ctx, req)
	e := callError(t, err)
	if !errors.Is(err, context.Canceled) || !errors.Is(err, gone) || !errors.Is(err, io.EOF) || !errors.Is(err, idempotency.ErrOutcomeUnknown) || e.Attempts != 1 {
		t.Errorf("%v", err)
	}
	if got, err := client.CreatePayment(t.Context(), req); err != nil || !got.Replayed() || s.ran() != 1 {
		t.Errorf("the same request again: %+v, %v, executed %d times", got, err, s.ran())
	}
}
