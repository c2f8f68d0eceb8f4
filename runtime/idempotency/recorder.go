package idempotency

import (
	"fmt"
	"net/http"
)

// recorder captures a typed answer. It is an http.ResponseWriter without
// Flush or Hijack: an answer that streams cannot be kept.
type recorder struct {
	header   http.Header // what Header returns; a new one once the status is written
	sent     http.Header // what it held then
	status   int
	body     []byte
	limit    int
	overflow bool
}

func (r *recorder) Header() http.Header {
	if r.header == nil {
		r.header = make(http.Header)
	}
	return r.header
}

func (r *recorder) WriteHeader(status int) {
	switch {
	case status < 100 || status > 999:
		panic(fmt.Sprintf("invalid WriteHeader code %v", status)) // as net/http does
	case status < 200 || r.status != 0: // interim answers (RFC 9110 section 15.2) are not the answer
		return
	}
	r.status = status
	// As in net/http, what the handler sets from now on has no effect.
	r.sent, r.header = r.Header(), nil
}

// reserve says whether n more bytes of body may be written.
func (r *recorder) reserve(n int) error {
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	if r.status == http.StatusNoContent || r.status == http.StatusNotModified {
		return http.ErrBodyNotAllowed
	}
	if len(r.body)+n > r.limit {
		r.overflow = true
		return fmt.Errorf("idempotency: the answer is larger than %d bytes", r.limit)
	}
	return nil
}

func (r *recorder) Write(p []byte) (int, error) {
	if err := r.reserve(len(p)); err != nil {
		return 0, err
	}
	r.body = append(r.body, p...)
	return len(p), nil
}

// WriteString spares io.WriteString a copy.
func (r *recorder) WriteString(s string) (int, error) {
	if err := r.reserve(len(s)); err != nil {
		return 0, err
	}
	r.body = append(r.body, s...)
	return len(s), nil
}

// response returns what was captured. An answer that wrote nothing is an
// empty 200, as net/http would send it. A field without values, which keeps
// net/http from adding one, has no place in a stored answer, so the first one
// does not have it either.
func (r *recorder) response() Response {
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	for name, values := range r.sent {
		if len(values) == 0 {
			delete(r.sent, name)
		}
	}
	return Response{Status: r.status, Header: r.sent, Body: r.body}
}
