package idempotency

import (
	"bytes"
	"net/http"
	"reflect"
	"testing"
)

// Headers come back from a store as a client would have seen them.
// Covers RSP-09, RSP-14.
func TestHeaderRoundTrip(t *testing.T) {
	t.Parallel()
	for _, h := range []http.Header{
		{},
		{"A": {""}},
		{"Location": {"/a: b"}, "X-Twice": {"1", "2", "1"}, "Etag": {`"é\xff"`}},
		{"Content-Type": {"a"}, "x-odd-case": {"b"}},
	} {
		got, err := unmarshalHeader(marshalHeader(h))
		if err != nil || !reflect.DeepEqual(got, h) {
			t.Errorf("%v came back as %v, %v", h, got, err)
		}
	}
	got, err := unmarshalHeader(marshalHeader(http.Header{"A": {" b\r\nSet-Cookie: x "}}))
	if want := (http.Header{"A": {"b  Set-Cookie: x"}}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("a value with a line break came back as %v, %v", got, err)
	}
}

// What net/http would send is what is stored.
func TestMarshalHeaderIsWireForm(t *testing.T) {
	t.Parallel()
	h := http.Header{"B": {"2", " 3\n"}, "A": {"1"}, "C": nil, "": {"4"}, "D: x": {"5"}, "E\r\nF": {"6"}, "é": {"7"}}
	var want bytes.Buffer
	if err := h.Write(&want); err != nil {
		t.Fatal(err)
	}
	if got := marshalHeader(h); !bytes.Equal(got, want.Bytes()) {
		t.Errorf("got %q, want %q", got, want.Bytes())
	}
}

// Answers are equal if a client could not tell them apart.
func TestEqual(t *testing.T) {
	t.Parallel()
	a := Response{Status: 200, Header: http.Header{"A": {"1", "2"}, "B": {"3"}}, Body: []byte("b")}
	for _, same := range []Response{a, {200, http.Header{"B": {" 3"}, "A": {"1", "2"}, "C": nil}, []byte("b")}} {
		if !a.Equal(same) {
			t.Errorf("%+v is another answer", same)
		}
	}
	for _, other := range []Response{
		{201, a.Header, a.Body},
		{200, http.Header{"A": {"2", "1"}, "B": {"3"}}, a.Body},
		{200, nil, a.Body},
		{200, a.Header, nil},
	} {
		if a.Equal(other) {
			t.Errorf("%+v is the same answer", other)
		}
	}
	if !(Response{Status: 204}).Equal(Response{Status: 204, Header: http.Header{}, Body: []byte{}}) {
		t.Error("empty and nil are two answers")
	}
}

// A damaged record is an error, not half an answer, and neither are lines that
// marshalHeader never writes, which servers would answer in ways of their own.
func TestDamagedHeader(t *testing.T) {
	t.Parallel()
	for _, b := range []string{"A", "A: b", "A\r\n", "A: b\r\nC: d", "\r\n", ": b\r\n", "A B: c\r\n", "A\x1b: b\r\n", "A\u202e: b\r\n", "A\n: b\r\n", "A: b\nC: d\r\n", "A: b\rC: d\r\n"} {
		if h, err := unmarshalHeader([]byte(b)); err == nil {
			t.Errorf("%q is read as %v", b, h)
		}
	}
}

func FuzzUnmarshalHeader(f *testing.F) {
	f.Add([]byte("A: b\r\nA: c\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := unmarshalHeader(b)
		if err != nil {
			return
		}
		var wire bytes.Buffer
		if err := h.Write(&wire); err != nil {
			t.Fatal(err)
		}
		if again := marshalHeader(h); !bytes.Equal(again, wire.Bytes()) {
			t.Errorf("%q: %v, then %q, not %q", b, h, again, wire.Bytes())
		}
	})
}
