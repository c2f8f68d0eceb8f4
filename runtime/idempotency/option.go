package idempotency

import (
	"net/http"
	"strings"
	"time"
)

// Option changes a default of a generated server.
type Option func(*options)

type options struct {
	requestLimit  int64
	responseLimit int
	maxWaiting    int
	leaseCeiling  time.Duration
	replayHeader  string
	observer      Observer
	problem       func(http.ResponseWriter, *http.Request, Problem)
	unstored      headerList
	decodeJSON    func(*http.Request, any) error
	framework     []any
}

func newOptions(opts []Option) options {
	o := options{
		requestLimit:  1 << 20,
		responseLimit: 1 << 20,
		maxWaiting:    100,
		leaseCeiling:  10 * time.Minute,
		replayHeader:  "Idempotent-Replayed",
		problem:       WriteProblem,
		decodeJSON:    decodeJSON,
		unstored: headerList{
			names: map[string]bool{
				"Authentication-Info": true,
				"Authorization":       true,
				"Connection":          true,
				"Content-Length":      true,
				"Date":                true,
				"Keep-Alive":          true,
				"Set-Cookie":          true,
				"Te":                  true,
				"Traceparent":         true,
				"Tracestate":          true,
				"Trailer":             true,
				"Transfer-Encoding":   true,
				"Upgrade":             true,
				"Www-Authenticate":    true,
				"X-Request-Id":        true,
			},
			prefixes: []string{"Proxy-", "Ratelimit", "X-Ratelimit-"},
		},
	}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// WithRequestLimit sets how many bytes a request body may have. Defaults to
// 1 MiB. A longer one is answered 413 body_too_large and does not use the key.
func WithRequestLimit(bytes int64) Option { return func(o *options) { o.requestLimit = bytes } }

// WithResponseLimit sets how many bytes an answer's body may have. Defaults to
// 1 MiB. A longer one is rolled back and answered 500 response_too_large.
func WithResponseLimit(bytes int) Option { return func(o *options) { o.responseLimit = bytes } }

// WithMaxWaiting sets how many duplicates may wait at the same time for first
// attempts to finish, on operations whose spec says waitUpTo. Defaults to 100
// over all keys and operations; further duplicates are answered 409 at once.
func WithMaxWaiting(n int) Option { return func(o *options) { o.maxWaiting = n } }

// WithLeaseCeiling sets for how long the leases of operations in lease mode are
// extended while their handlers run. Defaults to 10 minutes. When a handler has
// run for that long its lease runs out, and then its context is cancelled; a
// handler that knows better calls [Lease.Extend]. 0 leaves all extensions to
// the handlers.
func WithLeaseCeiling(d time.Duration) Option { return func(o *options) { o.leaseCeiling = d } }

// WithReplayHeader names the header field that marks a replay. Defaults to
// Idempotent-Replayed; its value is always true.
func WithReplayHeader(name string) Option {
	return func(o *options) { o.replayHeader = http.CanonicalHeaderKey(name) }
}

// WithObserver has every request reported once. Defaults to none. Given more
// than once, all observers are called, in order.
func WithObserver(observe Observer) Option {
	return func(o *options) {
		if first := o.observer; first != nil {
			o.observer = both(first, observe)
			return
		}
		o.observer = observe
	}
}

// WithProblemWriter replaces the form of refusals, for APIs that promise
// another status, header or error schema. Defaults to [WriteProblem].
func WithProblemWriter(write func(w http.ResponseWriter, r *http.Request, p Problem)) Option {
	return func(o *options) { o.problem = write }
}

// WithUnstoredHeaders adds header fields that are sent with the first answer
// but neither stored nor replayed; a name that ends in * stands for all that
// begin so. Never stored in any case: Set-Cookie, Authorization,
// WWW-Authenticate, Authentication-Info, Proxy-*, Date, Content-Length, the
// connection's own fields (RFC 9110 section 7.6.1), X-Request-Id, Traceparent,
// Tracestate, RateLimit* and X-RateLimit-*.
func WithUnstoredHeaders(names ...string) Option {
	return func(o *options) {
		for _, name := range names {
			if prefix, ok := strings.CutSuffix(name, "*"); ok {
				o.unstored.prefixes = append(o.unstored.prefixes, http.CanonicalHeaderKey(prefix))
				continue
			}
			o.unstored.names[http.CanonicalHeaderKey(name)] = true
		}
	}
}

// WithJSONDecoder replaces what reads the JSON bodies of marked operations, on
// servers without oapi-codegen's strict server, which reads them itself. Where
// a middleware validates bodies and leaves the validated value on them, give
// BindJSONBody of oapi-codegen/runtime, which takes that value. Defaults to
// encoding/json.
func WithJSONDecoder(decode func(r *http.Request, v any) error) Option {
	return func(o *options) { o.decodeJSON = decode }
}

// WithFramework carries a generated package's own options to its constructor.
// It is for generated code; users call the generated WithStrictServer.
func WithFramework(value any) Option {
	return func(o *options) { o.framework = append(o.framework, value) }
}

// headerList is a set of header names and name prefixes in canonical form.
type headerList struct {
	names    map[string]bool
	prefixes []string
}

// has reports whether a header that a handler has written, in whatever case,
// is on the list.
func (l *headerList) has(name string) bool {
	name = http.CanonicalHeaderKey(name)
	if l.names[name] {
		return true
	}
	for _, p := range l.prefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// without returns h without the headers of the list. It is h itself where
// there are none.
func (l *headerList) without(h http.Header) http.Header {
	for name := range h {
		if !l.has(name) {
			continue
		}
		kept := make(http.Header, len(h))
		for name, values := range h {
			if !l.has(name) {
				kept[name] = values
			}
		}
		return kept
	}
	return h
}
