package idempotency

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
)

// plainCodec does what its fields say, and nothing where they are nil.
type plainCodec struct {
	encode  func(binding, answer []byte) (Encoded, error)
	decode  func(binding []byte, e Encoded) ([]byte, error)
	refuses bool // plain answers
}

func (c plainCodec) Encode(_ context.Context, binding, answer []byte) (Encoded, error) {
	return c.encode(binding, answer)
}

func (c plainCodec) Decode(_ context.Context, binding []byte, e Encoded) ([]byte, error) {
	return c.decode(binding, e)
}

func (c plainCodec) ReadsPlain() bool { return !c.refuses }

// copying stores answers as they are, under format 31 and the key "k".
var copying = plainCodec{
	encode: func(_, answer []byte) (Encoded, error) {
		return Encoded{Format: 31, KeyID: "k", Data: bytes.Clone(answer)}, nil
	},
	decode: func(_ []byte, e Encoded) ([]byte, error) { return e.Data, nil },
}

var (
	encodedRequest = Request{
		Identity:    Identity{Scope: "tenant", Operation: "pay", Key: "1"},
		Fingerprint: Fingerprint{1, 2, 3},
	}
	encodedAnswer = Response{Status: 201, Header: http.Header{"Content-Type": {"text/plain"}}, Body: []byte("paid")}
)

// stored is what a store would read of the answer to encodedRequest.
func stored(header, body []byte) StoredAnswer {
	return StoredAnswer{
		Identity: encodedRequest.Identity, Fingerprint: encodedRequest.Fingerprint[:], Status: encodedAnswer.Status,
		Header: header, Body: body,
	}
}

// What is stored begins with a byte that no header line begins with, and only
// where there is a codec that has encoded it.
//
// Covers RSP-07, RSP-09.
func TestEncodeAnswer(t *testing.T) {
	t.Parallel()
	asItIs := plainCodec{encode: func(_, _ []byte) (Encoded, error) { return Encoded{}, nil }}
	for name, c := range map[string]struct {
		codec  Codec
		header string
		body   string
	}{
		"none":     {nil, "Content-Type: text/plain\r\n", "paid"},
		"as it is": {asItIs, "Content-Type: text/plain\r\n", "paid"},
		"encoded":  {copying, "\x1fk", "\x1aContent-Type: text/plain\r\npaid"},
	} {
		header, body, err := EncodeAnswer(t.Context(), c.codec, encodedRequest, encodedAnswer)
		if err != nil || string(header) != c.header || string(body) != c.body {
			t.Errorf("%s: %q %q, %v; want %q %q", name, header, body, err, c.header, c.body)
		}
	}
	for _, resp := range []Response{{Status: 204}, {Status: 200, Body: []byte{0, 0x1f, 0xff}}, encodedAnswer} {
		header, body, err := EncodeAnswer(t.Context(), copying, encodedRequest, resp)
		if err != nil {
			t.Fatal(err)
		}
		s := stored(header, body)
		s.Status = resp.Status
		got, err := DecodeAnswer(t.Context(), copying, s)
		if err != nil || !got.Equal(resp) {
			t.Errorf("%+v, %v; want %+v", got, err, resp)
		}
	}
	unknown := plainCodec{encode: func(_, _ []byte) (Encoded, error) { return Encoded{Format: ' '}, nil }}
	if _, _, err := EncodeAnswer(t.Context(), unknown, encodedRequest, encodedAnswer); err == nil {
		t.Error("a format that could begin a header line was taken")
	}
}

// Each part of what an answer belongs to is in its binding, which is the same in
// every release.
func TestBinding(t *testing.T) {
	t.Parallel()
	const want = "\x06tenant\x03pay\x011\x03abc\x00\xc9"
	id := encodedRequest.Identity
	if got := binding(id, []byte("abc"), 201); string(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, other := range [][]byte{
		binding(Identity{"tenan", "tpay", "1"}, []byte("abc"), 201),
		binding(Identity{"tenant", "pay1", ""}, []byte("abc"), 201),
		binding(id, []byte("abd"), 201),
		binding(id, []byte("abc"), 200),
	} {
		if string(other) == want {
			t.Errorf("%q is the binding of two answers", other)
		}
	}
}

// An answer that cannot be read is neither replayed nor taken for a request that
// was not executed, and the error says which format and key are missing.
//
// Covers RSP-14.
func TestUnreadableAnswer(t *testing.T) {
	t.Parallel()
	failing := copying
	failing.decode = func([]byte, Encoded) ([]byte, error) { return nil, errors.New("no such key") }
	garbled := copying
	garbled.decode = func([]byte, Encoded) ([]byte, error) { return []byte{200, 1, 'x'}, nil }
	badLines := copying
	badLines.decode = func([]byte, Encoded) ([]byte, error) { return []byte("\x03abcbody"), nil }
	refusing := copying
	refusing.refuses = true
	for name, c := range map[string]struct {
		codec  Codec
		header string
		status int
		format byte
		keyID  string
		says   string
	}{
		"no codec":       {nil, "\x1fk", 201, 31, "k", `in format 31 with the key "k" and cannot be read: the store has no codec`},
		"no key":         {nil, "\x01", 201, 1, "", "in format 1 and cannot be read: the store has no codec"},
		"codec fails":    {failing, "\x1fk", 201, 31, "k", "no such key"},
		"codec garbles":  {garbled, "\x1fk", 201, 31, "k", "is no answer"},
		"damaged inside": {badLines, "\x1fk", 201, 31, "k", "is damaged"},
		"plain refused":  {refusing, "A: b\r\n", 201, 0, "", "stored in plain, and the codec refuses that"},
		"damaged header": {nil, "A: b", 201, 0, "", "is damaged"},
		"zero byte":      {copying, "\x00A: b\r\n\x00", 201, 0, "", "is damaged"},
		"status":         {nil, "A: b\r\n", 42, 0, "", "status is 42"},
	} {
		s := stored([]byte(c.header), []byte("body"))
		s.Status = c.status
		resp, err := DecodeAnswer(t.Context(), c.codec, s)
		var unreadable *UnreadableError
		if !errors.Is(err, ErrOutcomeUnknown) || !errors.As(err, &unreadable) {
			t.Errorf("%s: %v, want %v because of an *UnreadableError", name, err, ErrOutcomeUnknown)
			continue
		}
		if unreadable.Format != c.format || unreadable.KeyID != c.keyID || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %+v: %v; want format %d, key %q, and %q", name, unreadable, err, c.format, c.keyID, c.says)
		}
		if resp.Status != c.status || resp.Header != nil || resp.Body != nil {
			t.Errorf("%s: %+v beside the error, want the status alone", name, resp)
		}
	}
}

// Whatever is in a row, an answer is what EncodeAnswer makes the same row of, or
// an error.
func FuzzDecodeAnswer(f *testing.F) {
	for _, resp := range []Response{{Status: 204}, encodedAnswer} {
		for _, c := range []Codec{nil, copying} {
			header, body, err := EncodeAnswer(f.Context(), c, encodedRequest, resp)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(header, body)
		}
	}
	f.Add([]byte("\x1fk"), []byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01A: b\r\n"))
	f.Fuzz(func(t *testing.T, header, body []byte) {
		s := stored(header, body)
		e := s.encoded()
		if _, err := DecodeAnswer(t.Context(), nil, s); err == nil && e.Format != 0 {
			t.Fatal("an encoded answer was read without its codec")
		}
		resp, err := DecodeAnswer(t.Context(), copying, s)
		if err != nil {
			if !errors.Is(err, ErrOutcomeUnknown) {
				t.Fatal(err)
			}
			return
		}
		var c Codec
		if e.Format != 0 {
			c = copying
		}
		_, again, err := EncodeAnswer(t.Context(), c, encodedRequest, resp)
		if err != nil {
			t.Fatal(err)
		}
		s = stored(header, again)
		if same, err := DecodeAnswer(t.Context(), copying, s); err != nil || !bytes.Equal(same.Body, resp.Body) {
			t.Fatalf("%q, %v; want %q", same.Body, err, resp.Body)
		}
	})
}
