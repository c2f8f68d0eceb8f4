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
		got, err := UnmarshalHeader(MarshalHeader(h))
		if err != nil || !reflect.DeepEqual(got, h) {
			t.Errorf("%v came back as %v, %v", h, got, err)
		}
	}
	got, err := UnmarshalHeader(MarshalHeader(http.Header{"A": {" b\r\nSet-Cookie: x "}}))
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
	if got := MarshalHeader(h); !bytes.Equal(got, want.Bytes()) {
		t.Errorf("got %q, want %q", got, want.Bytes())
	}
}

// A damaged record is an error, not half an answer, and neither are lines that
// [MarshalHeader] never writes, which servers would answer in ways of their own.
func TestDamagedHeader(t *testing.T) {
	t.Parallel()
	for _, b := range []string{"A", "A: b", "A\r\n", "A: b\r\nC: d", "\r\n", ": b\r\n", "A B: c\r\n", "A\x1b: b\r\n", "A\u202e: b\r\n", "A\n: b\r\n", "A: b\nC: d\r\n", "A: b\rC: d\r\n"} {
		if h, err := UnmarshalHeader([]byte(b)); err == nil {
			t.Errorf("%q is read as %v", b, h)
		}
	}
}

func FuzzUnmarshalHeader(f *testing.F) {
	f.Add([]byte("A: b\r\nA: c\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := UnmarshalHeader(b)
		if err != nil {
			return
		}
		var wire bytes.Buffer
		if err := h.Write(&wire); err != nil {
			t.Fatal(err)
		}
		if again := MarshalHeader(h); !bytes.Equal(again, wire.Bytes()) {
			t.Errorf("%q: %v, then %q, not %q", b, h, again, wire.Bytes())
		}
	})
}
