// Package drive sends a generated server what a client sends and what a client
// gets wrong, over HTTP.
package drive

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

const (
	keyHeader    = "Idempotency-Key"
	replayHeader = "Idempotent-Replayed"
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
	// Wire is the whole answer as it came.
	Wire string
}

// Serve starts a server of handler, stops it with the test, and returns its URL.
func Serve(t *testing.T, handler http.Handler) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// Listen starts a server that is no [http.Handler], stops it with the test, and
// returns its URL.
func Listen(t *testing.T, serve func(net.Listener) error, shutdown func() error) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- serve(listener) }()
	t.Cleanup(func() {
		if err := shutdown(); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return "http://" + listener.Addr().String()
}

// Send sends one request to the server at url, with the given lines of the
// key's header, on a connection of its own.
func Send(t *testing.T, url string, r Request, header string, keys ...string) Answer {
	t.Helper()
	conn := write(t, url, r, header, keys...)
	defer conn.Close()
	wire, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(wire)), nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, wire)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%v\n%s", err, wire)
	}
	return Answer{Status: resp.StatusCode, Header: resp.Header, Body: string(body), Wire: string(wire)}
}

// write sends a request and returns the connection, which the server closes
// behind its answer.
func write(t *testing.T, url string, r Request, header string, keys ...string) net.Conn {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), r.Method, url+r.Path, strings.NewReader(r.Body))
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	maps.Copy(req.Header, r.Header)
	if r.ContentType != "" {
		req.Header.Set("Content-Type", r.ContentType)
	}
	for _, k := range keys {
		req.Header.Add(header, k)
	}
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", req.URL.Host)
	if err != nil {
		t.Fatal(err)
	}
	if err := req.Write(conn); err != nil {
		t.Fatal(err)
	}
	return conn
}

// Run sends op to the server at url: wrong, missing, doubled and malformed keys,
// its first request, replays and mismatches.
func Run(t *testing.T, url string, op Operation) {
	t.Helper()
	if op.KeyHeader == "" {
		op.KeyHeader = keyHeader
	}
	if op.Key == "" {
		op.Key = "key-1"
	}
	d := driver{url, op}
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
	url string
	op  Operation
}

func (d driver) send(t *testing.T, r Request, keys ...string) Answer {
	t.Helper()
	return Send(t, d.url, r, d.op.KeyHeader, keys...)
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
		"half quoted": {`"` + d.op.Key},
		"long key":    {strings.Repeat("k", 256)},
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
	if got := first.Header.Get(replayHeader); got != "" {
		t.Errorf("first: %s: %s", replayHeader, got)
	}
	return first
}

// replay checks that the answer to r is the first one, byte for byte on the wire.
func (d driver) replay(t *testing.T, r Request, first Answer, key string) {
	t.Helper()
	replay := d.send(t, r, key)
	if got := replay.Header.Values(replayHeader); len(got) != 1 || got[0] != "true" {
		t.Errorf("replay of %q: %s: %q", r.Body, replayHeader, got)
	}
	if got, want := essence(replay.Wire), essence(first.Wire); got != want {
		t.Errorf("replay of %q:\n%q, want\n%q", r.Body, got, want)
	}
}

// essence is an answer without the fields that may differ in a replay. What
// order fields of different names come in means nothing (RFC 9110 section 5.3),
// and net/http has one for a length that it counts and one for a length that it
// is given.
func essence(wire string) string {
	head, body, _ := strings.Cut(wire, "\r\n\r\n")
	lines := strings.Split(head, "\r\n")
	fields := slices.DeleteFunc(lines[1:], func(line string) bool {
		return strings.HasPrefix(line, "Date: ") || strings.HasPrefix(line, replayHeader+": ")
	})
	slices.SortStableFunc(fields, func(a, b string) int {
		nameA, _, _ := strings.Cut(a, ":")
		nameB, _, _ := strings.Cut(b, ":")
		return strings.Compare(nameA, nameB)
	})
	return lines[0] + "\r\n" + strings.Join(fields, "\r\n") + "\r\n\r\n" + body
}

func (d driver) unprotected(t *testing.T) {
	t.Helper()
	for range 2 {
		if got := d.send(t, d.op.Request); got.Status != d.op.Status || got.Header.Get(replayHeader) != "" {
			t.Errorf("without a key: %d, replayed %q", got.Status, got.Header.Get(replayHeader))
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
