package idempotency

import (
	"bytes"
	"fmt"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
)

// Response is an answer as it is stored: replayed byte for byte.
type Response struct {
	Status int         // 200 to 599
	Header http.Header // without the headers that are never stored
	Body   []byte      // empty and nil are the same answer
}

// Equal reports whether r and other are stored alike, byte for byte.
func (r Response) Equal(other Response) bool {
	return r.Status == other.Status && bytes.Equal(r.Body, other.Body) &&
		bytes.Equal(marshalHeader(r.Header), marshalHeader(other.Header))
}

// marshalHeader encodes h for a store, in the form of RFC 9112 section 5: one
// "Name: value" line for each value, ordered by name. It is what a client
// would see: net/http leaves names out that are none, trims values and replaces
// line breaks in the same way.
func marshalHeader(h http.Header) []byte {
	size := 0
	var few [16]string
	names := few[:0]
	for name, values := range h {
		if !isFieldName(name) {
			continue
		}
		names = append(names, name)
		for _, v := range values {
			size += len(name) + len(": ") + len(v) + len("\r\n")
		}
	}
	slices.Sort(names)
	b := make([]byte, 0, size)
	for _, name := range names {
		for _, v := range h[name] {
			b = append(b, name...)
			b = append(b, ": "...)
			b = append(b, textproto.TrimString(lineBreaks.Replace(v))...)
			b = append(b, "\r\n"...)
		}
	}
	return b
}

// isFieldName reports whether s is a field's name (RFC 9110 section 5.1).
func isFieldName(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case '0' <= c && c <= '9', 'a' <= c|0x20 && c|0x20 <= 'z', strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return s != ""
}

var lineBreaks = strings.NewReplacer("\n", " ", "\r", " ")

// unmarshalHeader decodes what [marshalHeader] has encoded. It returns an
// error for what has another form: a record that cannot be read is not replayed.
func unmarshalHeader(b []byte) (http.Header, error) {
	rest := string(b) // names and values are parts of this one copy
	lines := strings.Count(rest, "\r\n")
	h := make(http.Header, lines)
	values := make([]string, 0, lines)
	for rest != "" {
		line, after, ended := strings.Cut(rest, "\r\n")
		name, value, found := strings.Cut(line, ": ")
		if !ended || !found || !isFieldName(name) || strings.ContainsAny(value, "\r\n") {
			return nil, fmt.Errorf("idempotency: stored header line %q is damaged", line)
		}
		values = append(values, value)
		if earlier, ok := h[name]; ok {
			h[name] = append(earlier, value)
		} else {
			h[name] = values[len(values)-1 : len(values) : len(values)]
		}
		rest = after
	}
	return h, nil
}
