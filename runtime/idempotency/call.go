package idempotency

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Call is one attempt on its way through the HTTP edge, or one run of [Do].
// Generated code passes it on; handlers do not see it.
type Call struct {
	op      *Operation // nil in Do
	message *Request   // what Do was given; nil at the HTTP edge
	scope   string
	key     string // normalised; "" where the operation allows none
	request *http.Request
	ctx     callContext
	body    []byte
	unread  error // why the key's place in the body cannot be read
	reader  bodyReader
	started time.Time
	timing  *timing // nil where nobody observes
	noRerun atomic.Bool

	decodeJSON func(*http.Request, any) error // set by Handle

	mu      sync.Mutex // a middleware can leave a handler running, or run two
	outcome Outcome
	err     error
}

// report sets what the observer is told.
func (c *Call) report(outcome Outcome, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outcome, c.err = outcome, err
}

// reported returns what report was given last.
func (c *Call) reported() (Outcome, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.outcome, c.err
}

// Body returns a fresh reader over the request's body, for handlers that get
// a reader: each run of a handler reads from the start.
func (c *Call) Body() io.Reader { return bytes.NewReader(c.body) }

// ContentType returns the request's Content-Type as it was sent.
func (c *Call) ContentType() string {
	if lines := c.request.Header["Content-Type"]; len(lines) > 0 {
		return lines[0]
	}
	return ""
}

// sentKey returns the key that the request holds, "" if it holds none.
func (c *Call) sentKey() (string, error) {
	if c.op.Key.Body != "" {
		return c.bodyKey()
	}
	lines := c.request.Header.Values(c.op.Key.header())
	if len(lines) == 0 {
		return "", nil
	}
	return normalizeKey(c.op.Key, lines)
}

// fingerprint returns the fingerprint of the request under a version.
func (c *Call) fingerprint(version byte) (Fingerprint, error) {
	if c.op == nil {
		return Fingerprint{}, errors.New("idempotency: the call has no request")
	}
	return computeFingerprint(version, c.op, fingerprintInput{
		Method:      c.request.Method,
		EscapedPath: c.request.URL.EscapedPath(),
		RawQuery:    c.request.URL.RawQuery,
		Header:      c.request.Header,
		ContentType: c.ContentType(),
		Body:        c.body,
	})
}

// origin returns what keys are derived from.
func (c *Call) origin() (Identity, Fingerprint, error) {
	if c.message != nil {
		return c.message.Identity, c.message.Fingerprint, nil
	}
	fingerprint, err := c.fingerprint(derivedFingerprint)
	return Identity{Scope: c.scope, Operation: c.op.ID, Key: c.key}, fingerprint, err
}

// KeyOf returns the key of call as the key type of its operation.
func KeyOf[Op OpType](call *Call) Key[Op] { return keyFrom[Op](call.key) }

// callContext is a context that carries its call. It is part of the call, so
// that carrying it costs no allocation.
type callContext struct {
	context.Context
	call *Call
}

type callKey struct{}

func (c *callContext) Value(key any) any {
	if key == (callKey{}) {
		return c.call
	}
	return c.Context.Value(key)
}

// within returns ctx with c in it.
func (c *Call) within(ctx context.Context) context.Context {
	c.ctx = callContext{ctx, c}
	return &c.ctx
}

func callFrom(ctx context.Context) (*Call, bool) {
	c, ok := ctx.Value(callKey{}).(*Call)
	return c, ok
}

// NoRerun tells the store that this attempt makes an effect outside its
// transaction, so that work must not run again after a serialization failure
// or a deadlock: such an attempt is rolled back and answered 503 unavailable.
// Call it before the effect, with the context that the handler was given.
// Outside a handler it does nothing.
func NoRerun(ctx context.Context) {
	if c, ok := callFrom(ctx); ok {
		c.noRerun.Store(true)
	}
}

// bodyReader stands in for a request body that has been read.
type bodyReader struct{ bytes.Reader }

func (*bodyReader) Close() error { return nil }

// validatedBody forwards the value that an OpenAPI validator has decoded and
// left on the body, so that the handler decodes what was validated and not
// what the bytes say to a laxer decoder.
type validatedBody struct {
	*bodyReader
	value interface{ ValidatedValue() any }
}

func (b validatedBody) ValidatedValue() any { return b.value.ValidatedValue() }
