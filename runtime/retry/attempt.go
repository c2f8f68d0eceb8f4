package retry

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// result is what became of an attempt. Its err is nil if it gave the
// operation's answer.
type result struct {
	response *http.Response // nil if none came; its body is in memory
	problem  *idempotency.Problem
	sent     int  // as Attempt.Sent
	effect   bool // the operation can have been executed, and its answer is not known
	again    bool // another attempt makes sense
	inFlight bool // because the request is being executed
	err      error
}

// attempt sends the request once and reads the answer whole.
func (c *call) attempt(ctx context.Context, parse func(*http.Response) error) result {
	if limit := c.sender.attemptTimeout; limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, timeoutError(limit))
		defer cancel()
	}
	var trace connTrace
	request := c.request.Clone(httptrace.WithClientTrace(ctx, trace.hooks()))
	if request.GetBody != nil {
		body, err := request.GetBody()
		if err != nil {
			return result{err: fmt.Errorf("the body cannot be read: %w", err)}
		}
		request.Body = body
	}
	if c.edit != nil {
		body := request.Body
		if err := c.edit(request); err != nil {
			return result{err: fmt.Errorf("a request editor: %w", err)}
		}
		if request.Body != body {
			request.GetBody = nil // net/http would send the old body again
			if c.inBody != nil {
				if err := c.inBody.check(request); err != nil {
					return result{err: fmt.Errorf("a request editor has changed the body: %w", err)}
				}
			}
		}
		if got := request.Header.Values(c.header); c.header != "" && c.key != "" && (len(got) != 1 || got[0] != c.key) {
			return result{err: fmt.Errorf("a request editor has changed the header %s, which holds the key", c.header)}
		}
	}
	if name := unsendable(request.Header); name != "" {
		return result{err: fmt.Errorf("the header %s holds a control character, such as a line break at the end of a token, and cannot be sent", name)}
	}
	response, err := c.doer.Do(request)
	if err != nil {
		// An answer beside the error: redirects were followed, and one too many.
		return result{sent: trace.sent(), effect: !trace.nothing(), again: response == nil && !isPermanent(err), err: timedOut(ctx, err)}
	}
	body, err := readBody(response)
	r := judge(response, body, err, parse)
	r.sent = trace.sent()
	if r.sent > 1 {
		r.effect = true // of the request that net/http sent first; this answer is that of its second
	}
	if err != nil {
		r.err = timedOut(ctx, r.err)
	}
	return r
}

// unsendable returns the name of a header with a value that net/http refuses
// (RFC 9110 section 5.5), or "". Its refusal would look like an error of the
// transport, after which another attempt makes sense.
func unsendable(h http.Header) string {
	control := func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
	for name, values := range h {
		for _, value := range values {
			if strings.ContainsFunc(value, control) {
				return name
			}
		}
	}
	return ""
}

// timeoutError is the cause with which an attempt's context ends.
type timeoutError time.Duration

func (e timeoutError) Error() string {
	return fmt.Sprintf("the attempt took longer than %v", time.Duration(e))
}

// Is makes it match the error of a context whose deadline has passed.
func (timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// Timeout makes a [net/url.Error] around it say that it is one.
func (timeoutError) Timeout() bool { return true }

// timedOut says so of an error that the attempt's own timeout has caused, and
// that does not say it by itself, as those of net/http do.
func timedOut(ctx context.Context, err error) error {
	var timeout timeoutError
	if errors.As(context.Cause(ctx), &timeout) && !errors.Is(err, timeout) {
		return fmt.Errorf("%w: %w", timeout, err)
	}
	return err
}

// isPermanent reports whether sending again to this address cannot help: the
// server is not who it should be.
func isPermanent(err error) bool {
	var certificate *tls.CertificateVerificationError
	return errors.As(err, &certificate)
}

// errorBodyLimit is how much is read of an answer that is no result, in bytes.
const errorBodyLimit = 1 << 20

// readBody reads an answer's body into memory and closes it, which frees the
// connection. It returns what it has read, also when it returns an error.
func readBody(r *http.Response) ([]byte, error) {
	if r.Body == nil { // a doer that is none of net/http
		r.Body = http.NoBody
	}
	reader := io.Reader(r.Body)
	switch {
	case r.StatusCode == http.StatusSwitchingProtocols: // the bare connection, which no context ends
		reader = http.NoBody
	case isTransient(r.StatusCode) && !Replayed(r):
		reader = io.LimitReader(reader, errorBodyLimit)
	}
	defer r.Body.Close() // its error says nothing of what was read
	body, err := io.ReadAll(reader)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return body, err
}

// judge says what an answer means. readErr is set if its body broke off.
func judge(response *http.Response, body []byte, readErr error, parse func(*http.Response) error) result {
	r := result{response: response}
	status := response.StatusCode
	replayed := Replayed(response)
	switch {
	case status == http.StatusSwitchingProtocols:
		r.effect = true
		r.err = fmt.Errorf("%s, which the client has not asked for", answered(status))
		return r
	case readErr != nil:
		r.effect, r.again = true, true
		r.err = fmt.Errorf("%s, which broke off after %d bytes: %w", answered(status), len(body), readErr)
		return r
	case wasRedirected(response):
		r.effect = true
		r.err = fmt.Errorf("the client's doer has followed a redirect to %s, and key and body with it; give it a CheckRedirect that returns http.ErrUseLastResponse", response.Request.URL.Redacted())
		return r
	case isRedirect(status):
		r.effect = status < http.StatusTemporaryRedirect // 307 and 308 ask for the same request elsewhere
		r.err = fmt.Errorf("%s to %s, which is not followed: key and body would go there", answered(status), location(response))
		return r
	}
	if problem, ok := idempotency.ReadProblem(response.Header, body); ok && !replayed {
		r.problem = &problem
	}
	switch {
	case r.problem != nil:
		code := r.problem.Code
		r.again, r.inFlight = code.Retryable() || r.problem.Retryable, code == idempotency.CodeInFlight
		r.effect = !keptNothing(code)
		r.err = fmt.Errorf("%s, %s: %s", answered(status), code, r.problem.Detail)
		return r
	case !replayed && status == http.StatusConflict && response.Header.Get("Retry-After") != "":
		r.again, r.inFlight, r.effect = true, true, true
	case !replayed && isTransient(status):
		r.again = true
		// These two come before a request is executed, the others also after.
		r.effect = status != http.StatusTooManyRequests && status != http.StatusTooEarly
	}
	if r.again {
		r.err = errors.New(answered(status))
		return r
	}
	if status == http.StatusNoContent {
		// Servers send a type all the same, and decoders then miss the content
		// (RFC 9110 section 15.3.5).
		response.Header.Del("Content-Type")
	}
	if err := parse(response); err != nil {
		response.Body = io.NopCloser(bytes.NewReader(body))
		r.effect, r.again = true, brokeOff(err, body)
		r.err = fmt.Errorf("%s, and the answer cannot be read: %w", answered(status), err)
	}
	return r
}

// keptNothing reports whether a refusal says that the server has kept nothing
// of the request. What a later version of the server says is not known here.
func keptNothing(code idempotency.Code) bool {
	switch code {
	case idempotency.CodeKeyMissing, idempotency.CodeKeyInvalid, idempotency.CodeBodyInvalid,
		idempotency.CodeScopeMissing, idempotency.CodeBodyTooLarge, idempotency.CodeMismatch,
		idempotency.CodeInternal, idempotency.CodeResponseTooLarge, idempotency.CodeUnavailable:
		return true
	}
	return false
}

// answered begins errors about an answer.
func answered(status int) string {
	return fmt.Sprintf("the server answered %d %s", status, http.StatusText(status))
}

// isTransient reports whether a status asks for the same request again:
// RFC 9110 sections 15.5.9 and 15.6, RFC 8470 section 5.2, RFC 6585 section 4.
func isTransient(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests,
		http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// isRedirect reports whether a status moves the request elsewhere. 303 does
// not: it says where the result of a request that was executed can be read.
func isRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// location is where a redirect leads, for an error.
func location(r *http.Response) string {
	if u, err := r.Location(); err == nil {
		return u.Redacted()
	}
	return "an unknown place"
}

// wasRedirected reports whether net/http has followed a redirect to get this
// answer.
func wasRedirected(r *http.Response) bool { return r.Request != nil && r.Request.Response != nil }

// brokeOff reports whether a decoder met the end of the body too early.
func brokeOff(err error, body []byte) bool {
	var syntax *json.SyntaxError
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &syntax) && syntax.Offset >= int64(len(body))
}

// withoutRedirects returns a doer that hands redirects back.
func withoutRedirects(doer Doer) Doer {
	client, ok := doer.(*http.Client)
	if !ok {
		return doer
	}
	own := *client
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &own
}

// connTrace counts what net/http does for one attempt. Its hooks run on other
// goroutines too, and can do so after the attempt has ended.
type connTrace struct {
	asked, got atomic.Bool // for a connection, as doers of net/http do; one
	writes     atomic.Int32
}

func (t *connTrace) hooks() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn:      func(string) { t.asked.Store(true) },
		GotConn:      func(httptrace.GotConnInfo) { t.got.Store(true) },
		WroteHeaders: func() { t.writes.Add(1) },
	}
}

// sent returns how often the request was written.
func (t *connTrace) sent() int { return int(t.writes.Load()) }

// nothing reports whether it is certain that nothing of the request was
// written.
func (t *connTrace) nothing() bool { return t.asked.Load() && !t.got.Load() }
