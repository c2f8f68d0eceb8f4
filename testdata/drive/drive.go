// Package drive sends a generated server what a client sends and what a client
// gets wrong, over HTTP.
package drive

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Request is one HTTP request. Keys are added by the drive.
type Request struct {
	Method, Path, ContentType, Body string
	Header                          http.Header
}

// Operation says how to call a marked operation.
type Operation struct {
	Request Request
	// Same are other spellings of Request: they get its stored answer.
	Same []Request
	// Other ask for something else: under a used key they are a mismatch.
	Other []Request
	// Status and Body are the first answer's; "" leaves the body open.
	Status int
	Body   string
	// KeyHeader defaults to Idempotency-Key.
	KeyHeader string
	// Key defaults to "key-1".
	Key      string
	Optional bool // a request may come without a key
	// Declared says that the document declares the key's header itself. Then
	// oapi-codegen refuses two of it before idemgen sees them, in its own words.
	Declared bool
	// Runs says how often the handler has run.
	Runs func() int
}

// Answer is an HTTP answer, read to its end.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Send sends one request, with the given lines of the key's header.
func Send(t *testing.T, server *httptest.Server, r Request, header string, keys ...string) Answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), r.Method, server.URL+r.Path, strings.NewReader(r.Body))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(req.Header, r.Header)
	if r.ContentType != "" {
		req.Header.Set("Content-Type", r.ContentType)
	}
	for _, k := range keys {
		req.Header.Add(header, k)
	}
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return Answer{Status: resp.StatusCode, Header: resp.Header, Body: string(body)}
}

// Run sends op through its first request, replays, mismatches and missing,
// doubled and malformed keys, to a server of handler.
func Run(t *testing.T, handler http.Handler, op Operation) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	if op.KeyHeader == "" {
		op.KeyHeader = "Idempotency-Key"
	}
	if op.Key == "" {
		op.Key = "key-1"
	}
	send := func(t *testing.T, r Request, keys ...string) Answer {
		t.Helper()
		return Send(t, server, r, op.KeyHeader, keys...)
	}
	runs := func(t *testing.T, want int) {
		t.Helper()
		if got := op.Runs(); got != want {
			t.Fatalf("the handler has run %d times, want %d", got, want)
		}
	}

	for name, keys := range map[string][]string{
		"two keys":    {op.Key, op.Key + "0"},
		"equal keys":  {op.Key, op.Key},
		"joined keys": {op.Key + ", " + op.Key},
		"empty key":   {""},
		"spaced key":  {"a b"},
	} {
		got, code := send(t, op.Request, keys...), "key_invalid"
		if op.Declared && len(keys) > 1 {
			code = ""
		}
		Refused(t, name, got, http.StatusBadRequest, code)
	}
	if !op.Optional {
		Refused(t, "missing key", send(t, op.Request), http.StatusBadRequest, "key_missing")
	}
	runs(t, 0)

	first := send(t, op.Request, op.Key)
	if first.Status != op.Status || op.Body != "" && first.Body != op.Body {
		t.Fatalf("first: %d %q, want %d %q", first.Status, first.Body, op.Status, op.Body)
	}
	if got := first.Header.Get("Idempotent-Replayed"); got != "" {
		t.Errorf("first: Idempotent-Replayed: %s", got)
	}
	runs(t, 1)

	for _, r := range append([]Request{op.Request}, op.Same...) {
		for _, key := range []string{op.Key, `"` + op.Key + `"`} {
			replay := send(t, r, key)
			if replay.Status != first.Status || replay.Body != first.Body {
				t.Errorf("replay of %q: %d %q, want %d %q", r.Body, replay.Status, replay.Body, first.Status, first.Body)
			}
			if got := replay.Header.Get("Idempotent-Replayed"); got != "true" {
				t.Errorf("replay: Idempotent-Replayed: %q", got)
			}
			for _, h := range []http.Header{first.Header, replay.Header} {
				h.Del("Date")
				h.Del("Idempotent-Replayed")
			}
			if !maps.EqualFunc(first.Header, replay.Header, func(a, b []string) bool { return strings.Join(a, "\n") == strings.Join(b, "\n") }) {
				t.Errorf("replay: header %v, want %v", replay.Header, first.Header)
			}
		}
	}
	for _, r := range op.Other {
		Refused(t, "mismatch of "+r.Path+" "+r.Body, send(t, r, op.Key), http.StatusUnprocessableEntity, "mismatch")
	}
	runs(t, 1)

	if op.Optional {
		for i := range 2 {
			if got := send(t, op.Request); got.Status != op.Status || got.Header.Get("Idempotent-Replayed") != "" {
				t.Errorf("without a key: %d, want %d", got.Status, op.Status)
			}
			runs(t, 2+i)
		}
	}
}

// Refused checks that an answer is a problem document with this code; where code
// is "", the status is enough.
func Refused(t *testing.T, what string, got Answer, status int, code string) {
	t.Helper()
	var problem struct{ Code string }
	_ = json.Unmarshal([]byte(got.Body), &problem) // a body that is none has no code
	if got.Status != status || code != "" && problem.Code != code {
		t.Errorf("%s: %d %q, want %d %s", what, got.Status, got.Body, status, code)
	}
}
