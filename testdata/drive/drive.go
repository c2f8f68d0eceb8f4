// Package drive sends a generated server what a client sends and what a client
// gets wrong, over HTTP.
package drive

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
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
	d := driver{server, op}
	d.refusals(t)
	d.ran(t, 0)
	first := d.first(t)
	d.ran(t, 1)
	for _, r := range append([]Request{op.Request}, op.Same...) {
		d.replay(t, r, first, op.Key)
		d.replay(t, r, first, `"`+op.Key+`"`)
	}
	for _, r := range op.Other {
		Refused(t, "mismatch of "+r.Path+" "+r.Body, d.send(t, r, op.Key), http.StatusUnprocessableEntity, "mismatch")
	}
	d.ran(t, 1)
	if op.Optional {
		d.unprotected(t)
		d.ran(t, 3)
	}
}

type driver struct {
	server *httptest.Server
	op     Operation
}

func (d driver) send(t *testing.T, r Request, keys ...string) Answer {
	t.Helper()
	return Send(t, d.server, r, d.op.KeyHeader, keys...)
}

func (d driver) ran(t *testing.T, want int) {
	t.Helper()
	if got := d.op.Runs(); got != want {
		t.Fatalf("the handler has run %d times, want %d", got, want)
	}
}

func (d driver) refusals(t *testing.T) {
	t.Helper()
	for name, keys := range map[string][]string{
		"two keys":    {d.op.Key, d.op.Key + "0"},
		"equal keys":  {d.op.Key, d.op.Key},
		"joined keys": {d.op.Key + ", " + d.op.Key},
		"empty key":   {""},
		"spaced key":  {"a b"},
	} {
		got, code := d.send(t, d.op.Request, keys...), "key_invalid"
		if d.op.Declared && len(keys) > 1 {
			code = ""
		}
		Refused(t, name, got, http.StatusBadRequest, code)
	}
	if !d.op.Optional {
		Refused(t, "missing key", d.send(t, d.op.Request), http.StatusBadRequest, "key_missing")
	}
}

func (d driver) first(t *testing.T) Answer {
	t.Helper()
	first := d.send(t, d.op.Request, d.op.Key)
	if first.Status != d.op.Status || d.op.Body != "" && first.Body != d.op.Body {
		t.Fatalf("first: %d %q, want %d %q", first.Status, first.Body, d.op.Status, d.op.Body)
	}
	if got := first.Header.Get("Idempotent-Replayed"); got != "" {
		t.Errorf("first: Idempotent-Replayed: %s", got)
	}
	return first
}

func (d driver) replay(t *testing.T, r Request, first Answer, key string) {
	t.Helper()
	replay := d.send(t, r, key)
	if replay.Status != first.Status || replay.Body != first.Body {
		t.Errorf("replay of %q: %d %q, want %d %q", r.Body, replay.Status, replay.Body, first.Status, first.Body)
	}
	if got := replay.Header.Get("Idempotent-Replayed"); got != "true" {
		t.Errorf("replay: Idempotent-Replayed: %q", got)
	}
	want := first.Header.Clone()
	want.Set("Idempotent-Replayed", "true")
	want.Set("Date", replay.Header.Get("Date"))
	if !maps.EqualFunc(replay.Header, want, slices.Equal) {
		t.Errorf("replay: header %v, want %v", replay.Header, want)
	}
}

func (d driver) unprotected(t *testing.T) {
	t.Helper()
	for range 2 {
		if got := d.send(t, d.op.Request); got.Status != d.op.Status || got.Header.Get("Idempotent-Replayed") != "" {
			t.Errorf("without a key: %d, replayed %q", got.Status, got.Header.Get("Idempotent-Replayed"))
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
