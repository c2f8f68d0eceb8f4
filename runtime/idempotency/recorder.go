package idempotency

import (
	"fmt"
	"maps"
	"net/http"
)

// recorder captures a typed answer. It is an http.ResponseWriter without
// Flush or Hijack: an answer that streams cannot be kept.
type recorder struct {
	header   http.Header
	sent     http.Header // header as it was when the status was written
	status   int
	body     []byte
	limit    int
	overflow bool
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) {
	switch {
	case status < 100 || status > 999:
		panic(fmt.Sprintf("invalid WriteHeader code %v", status)) // as net/http does
	case status < 200 || r.status != 0: // interim answers (RFC 9110 section 15.2) are not the answer
		return
	}
	r.status = status
	r.sent = maps.Clone(r.header)
}

func (r *recorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	if r.status == http.StatusNoContent || r.status == http.StatusNotModified {
		return 0, http.ErrBodyNotAllowed
	}
	if len(r.body)+len(p) > r.limit {
		r.overflow = true
		return 0, fmt.Errorf("idempotency: the answer is larger than %d bytes", r.limit)
	}
	r.body = append(r.body, p...)
	return len(p), nil
}

// response returns what was captured. An answer that wrote nothing is an
// empty 200, as net/http would send it.
func (r *recorder) response() Response {
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	return Response{Status: r.status, Header: r.sent, Body: r.body}
}
