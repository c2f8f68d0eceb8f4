package retry_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/retry"
)

// Request editors run for each attempt, on a request of its own.
func TestEditors(t *testing.T) {
	t.Parallel()
	s := serve(broken, reply(503), reply(200))
	runs := 0
	var traces []string
	doer := doerFunc(func(req *http.Request) (*http.Response, error) {
		traces = append(traces, strings.Join(req.Header.Values("X-Trace"), "+"))
		return s.Do(req)
	})
	edit := func(req *http.Request) error {
		runs++
		req.Header.Add("X-Trace", strings.Repeat("i", runs))
		return nil
	}
	if _, err := sendEdited(t.Context(), newClock(), doer, edit); err != nil {
		t.Fatal(err)
	}
	if want := []string{"i", "ii", "iii"}; !slices.Equal(traces, want) {
		t.Errorf("%q, want %q", traces, want)
	}
}

// An editor that fails ends the call, and nothing is sent.
func TestEditorFails(t *testing.T) {
	t.Parallel()
	noToken := errors.New("no token")
	for after, want := range map[int]bool{0: false, 1: true} {
		s, runs := serve(broken), 0
		_, err := sendEdited(t.Context(), newClock(), s, func(*http.Request) error {
			if runs++; runs > after {
				return noToken
			}
			return nil
		})
		e := failed(t, err)
		if len(s.requests) != after || !errors.Is(err, noToken) || e.OutcomeUnknown != want {
			t.Errorf("after %d attempts: %d requests, %v", after, len(s.requests), err)
		}
	}
}

// A header that cannot be sent ends the call before it is, and its value, which
// can be a secret, is not in the error.
//
// Covers CLI-06.
func TestUnsendableHeader(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]int{"Bearer secret\n": 0, "secret\x7f": 0, "secret\x00": 0, "a\tb": 1, "\u00e9\x80": 1} {
		s := serve(reply(200))
		_, err := sendEdited(t.Context(), newClock(), s, func(req *http.Request) error { req.Header.Set("Authorization", value); return nil })
		if len(s.requests) != want {
			t.Errorf("%q: %d requests, want %d; %v", value, len(s.requests), want, err)
		}
		if want == 1 {
			continue
		}
		if e := failed(t, err); e.Attempts != 1 || e.OutcomeUnknown || !strings.Contains(err.Error(), "the header Authorization holds a control character") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %+v", value, e)
		}
	}
}

// An editor cannot take the key away, change it or add another.
//
// Covers CLI-01, CLI-02.
func TestEditorsKeepTheKey(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(http.Header){
		"deletes": func(h http.Header) { h.Del("Idempotency-Key") },
		"changes": func(h http.Header) { h.Set("Idempotency-Key", "k-2") },
		"adds":    func(h http.Header) { h.Add("Idempotency-Key", key) },
	} {
		s := serve(reply(200))
		_, err := sendEdited(t.Context(), newClock(), s, func(req *http.Request) error { edit(req.Header); return nil })
		if failed(t, err).OutcomeUnknown || len(s.requests) != 0 || !strings.Contains(err.Error(), "a request editor has changed the header Idempotency-Key, which holds the key") {
			t.Errorf("%s: %v, %+v", name, err, s.requests)
		}
	}
	s := serve(reply(200))
	if _, err := sendEdited(t.Context(), newClock(), s, func(req *http.Request) error { req.Header.Set("Idempotency-Key", key); return nil }); err != nil || s.requests[0].Key != key {
		t.Errorf("the same key: %v, %+v", err, s.requests)
	}
}

// An editor can replace the body, to compress it for instance. Then net/http
// has no other body that it could send again by itself.
func TestEditorReplacesBody(t *testing.T) {
	t.Parallel()
	s := serve(reply(503), reply(200))
	var getBody []bool
	doer := doerFunc(func(req *http.Request) (*http.Response, error) {
		getBody = append(getBody, req.GetBody != nil)
		return s.Do(req)
	})
	runs := 0
	edit := func(req *http.Request) error {
		if runs++; runs == 2 {
			return nil
		}
		text, err := io.ReadAll(req.Body)
		req.Body = io.NopCloser(strings.NewReader(strings.ToUpper(string(text))))
		return err
	}
	if _, err := sendEdited(t.Context(), newClock(), doer, edit); err != nil {
		t.Fatal(err)
	}
	if want := []seen{{key, "BODY", 4}, {key, "body", 4}}; !slices.Equal(s.requests, want) || !slices.Equal(getBody, []bool{false, true}) {
		t.Errorf("%+v, GetBody %v", s.requests, getBody)
	}
}

// A doer that follows redirects is found out, and not used again.
//
// Covers CLI-14.
func TestDoerFollowsRedirects(t *testing.T) {
	t.Parallel()
	followed := func(req *http.Request) (*http.Response, error) {
		moved, _ := reply(302)(req)
		next := req.Clone(req.Context())
		next.Response = moved
		next.URL.Host = "elsewhere"
		return reply(200)(next)
	}
	tooMany := func(req *http.Request) (*http.Response, error) {
		r, _ := reply(302)(req)
		return r, errors.New("stopped after 10 redirects")
	}
	for name, step := range map[string]step{"http://elsewhere/charges": followed, "stopped after 10 redirects": tooMany} {
		s := serve(step)
		_, err := send(t.Context(), newClock(), s)
		if e := failed(t, err); len(s.requests) != 1 || !e.OutcomeUnknown || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %d requests, %v", name, len(s.requests), err)
		}
	}
}

// The caller's own client is left as it is.
func TestClientIsNotChanged(t *testing.T) {
	t.Parallel()
	client := &http.Client{Transport: transport(reply(307, "Location: http://elsewhere/"))}
	if _, err := send(t.Context(), newClock(), client); failed(t, err).Response.StatusCode != 307 {
		t.Error(err)
	}
	if client.CheckRedirect != nil {
		t.Error("the caller's client was changed")
	}
}

type transport step

func (f transport) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// A server that is not who it should be is not asked again.
func TestCertificate(t *testing.T) {
	t.Parallel()
	s := serve(func(*http.Request) (*http.Response, error) {
		return nil, &tls.CertificateVerificationError{Err: errors.New("expired")}
	})
	if _, err := send(t.Context(), newClock(), s); err == nil || len(s.requests) != 1 {
		t.Errorf("%d requests, %v", len(s.requests), err)
	}
}

// An answer that the decoder does not understand is an error with the answer
// in it. Asking again helps where the decoder missed the end.
//
// Covers CLI-16.
func TestUnreadableAnswer(t *testing.T) {
	t.Parallel()
	for body, attempts := range map[string]int{
		`{"id":`:                         4,
		`{"id":"a`:                       4,
		``:                               4,
		"<html>proxy</html>":             1,
		`{"id":7, "name":"of any kind"}`: 1, // a number where a text should be
	} {
		s := serve(reply(201, "", body))
		k := idempotency.MustParseKey[chargeOp](key)
		e := exchange("http://server/charges", s, nil)
		e.Parse = func(r *http.Response) (*answer, error) {
			text, err := io.ReadAll(r.Body)
			if err != nil {
				return nil, err
			}
			var into struct {
				ID string `json:"id"`
			}
			return &answer{}, json.Unmarshal(text, &into)
		}
		_, err := retry.Send(t.Context(), retry.New(newClock().option()), k, idempotency.Seal(k, input{}), e)
		call := failed(t, err)
		text, readErr := io.ReadAll(call.Response.Body)
		if len(s.requests) != attempts || !call.OutcomeUnknown || call.Key != key || call.Response.StatusCode != 201 || string(text) != body || readErr != nil {
			t.Errorf("%q: %d attempts, want %d; %v; body %q, %v", body, len(s.requests), attempts, err, text, readErr)
		}
		if !strings.Contains(err.Error(), "the server answered 201 Created, and the answer cannot be read") {
			t.Errorf("%q: %v", body, err)
		}
	}
}

// A server that sends a type with an answer without content does not mislead
// the decoder.
func TestNoContent(t *testing.T) {
	t.Parallel()
	got, err := send(t.Context(), newClock(), serve(reply(204, "Content-Type: application/json")))
	if err != nil || got.HTTP.Header.Get("Content-Type") != "" {
		t.Errorf("%+v, %v", got, err)
	}
}

// Every answer's body is closed and every attempt's context ended, also of those
// that are given up.
//
// Covers CLI-17.
func TestBodiesAreClosed(t *testing.T) {
	t.Parallel()
	opened, closed := 0, 0
	var contexts []context.Context
	count := func(s step) step {
		return func(req *http.Request) (*http.Response, error) {
			r, err := s(req)
			opened++
			contexts = append(contexts, req.Context())
			r.Body = &closeCounter{r.Body, &closed}
			return r, err
		}
	}
	var steps []step
	for _, s := range []step{reply(503, "", "text"), cut(201), refuse(409, idempotency.CodeInFlight, "Retry-After: 1"), reply(429), reply(200)} {
		steps = append(steps, count(s))
	}
	if _, err := send(t.Context(), newClock(), serve(steps...)); err != nil {
		t.Fatal(err)
	}
	if opened != 5 || closed != 5 {
		t.Errorf("%d bodies opened, %d closed", opened, closed)
	}
	for i, ctx := range contexts {
		if ctx.Err() == nil {
			t.Errorf("the context of attempt %d goes on", i+1)
		}
	}
}

type closeCounter struct {
	io.ReadCloser
	n *int
}

func (c *closeCounter) Close() error { *c.n++; return c.ReadCloser.Close() }
