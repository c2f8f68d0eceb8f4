package idempotency

import (
	"bytes"
	"fmt"
	"net/http"
	"net/textproto"
)

// Response is an answer as it is stored: replayed byte for byte.
type Response struct {
	Status int         // 200 to 599
	Header http.Header // without the headers that are never stored
	Body   []byte      // empty and nil are the same answer
}

// MarshalHeader encodes h for a store, in the form of RFC 9112 section 5: one
// "Name: value" line for each value, ordered by name. It is what a client
// would see: net/http trims values and replaces line breaks in the same way.
func MarshalHeader(h http.Header) []byte {
	if len(h) == 0 {
		return []byte{}
	}
	var b bytes.Buffer
	_ = h.Write(&b) // a bytes.Buffer never fails
	return b.Bytes()
}

// UnmarshalHeader decodes what [MarshalHeader] has encoded. It returns an
// error for anything else: a record that cannot be read is not replayed.
func UnmarshalHeader(b []byte) (http.Header, error) {
	h := make(http.Header, bytes.Count(b, crlf))
	for len(b) > 0 {
		line, rest, ok := bytes.Cut(b, crlf)
		name, value, found := bytes.Cut(line, []byte(": "))
		if !ok || !found {
			return nil, fmt.Errorf("idempotency: stored header line %q is damaged", line)
		}
		k := textproto.CanonicalMIMEHeaderKey(string(name))
		h[k] = append(h[k], string(value))
		b = rest
	}
	return h, nil
}

var crlf = []byte("\r\n")
