package retry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// Exchange is how a generated client sends one operation's requests. It is for
// generated code.
type Exchange[In, R any] struct {
	// Build makes the request of an input, once for each call.
	Build func(in In) (*http.Request, error)
	// Edit runs the client's request editors, for each attempt anew. nil is
	// none.
	Edit func(*http.Request) error
	// Doer sends. An *http.Client is used without following redirects.
	Doer Doer
	// Parse reads an answer whose body is in memory.
	Parse func(*http.Response) (*R, error)
}

// Doer sends one request, as [http.Client] does.
type Doer interface {
	Do(req *http.Request) (*http.Response, error)
}

// Send sends the request that asks for in under key, and returns the
// operation's answer. Its errors are of type [*idempotency.CallError]. The
// zero key is refused before anything is sent, unless the operation can do
// without and the request was made for that: then one attempt is made. It is
// for generated code.
func Send[Op idempotency.OpType, In, R any](ctx context.Context, s *Sender, key idempotency.Key[Op], in idempotency.Sealed[In], e Exchange[In, R]) (*R, error) {
	var op Op
	c := call{sender: s, op: op.Operation(), key: key.String(), edit: e.Edit, doer: withoutRedirects(e.Doer)}
	switch {
	case key.IsZero() && (!c.op.Optional || !in.Unprotected()):
		return nil, c.fail(&idempotency.Error{Code: idempotency.CodeKeyMissing, Detail: "the request has no idempotency key; give its constructor one"})
	case in.IsZero():
		return nil, c.fail(errors.New("the request has no input; make it with its constructor"))
	}
	if ctx.Err() != nil {
		return nil, c.fail(contextError(ctx))
	}
	request, err := e.Build(in.Value())
	if err != nil {
		return nil, c.fail(fmt.Errorf("the request cannot be built: %w", err))
	}
	if _, ok := e.Doer.(*http.Client); ok && request.URL.Host == "" {
		return nil, c.fail(fmt.Errorf("the server's address, as in %s, has no host; write it as https://host", request.URL.Redacted()))
	}
	same := func(s string) bool {
		parsed, err := idempotency.ParseKey[Op](s)
		return err == nil && parsed.Equal(key)
	}
	if c.op.Key.Body != "" {
		c.inBody = &keyWriter{c.op.Key, c.key, same}
		if err := c.inBody.write(request); err != nil {
			return nil, c.fail(err)
		}
	} else {
		// A document that declares the key's field puts it among the parameters too.
		c.header = cmp.Or(c.op.Key.Header, "Idempotency-Key")
		for _, given := range request.Header.Values(c.header) {
			if given != "" && given != noUUID && !same(given) {
				return nil, c.fail(fmt.Errorf("the parameter %s is not the request's key; leave the parameter out", c.header))
			}
		}
	}
	if err := c.prepare(request); err != nil {
		return nil, c.fail(err)
	}
	var result *R
	err = c.run(ctx, func(r *http.Response) (err error) {
		result, err = e.Parse(r)
		return err
	})
	if err != nil {
		return nil, err
	}
	return result, nil
}

// call is one call on its way through its attempts.
type call struct {
	sender  *Sender
	op      *idempotency.Operation
	key     string // as it is sent; "" for none
	header  string // the field it is sent in, "" where that is the body
	inBody  *keyWriter
	request *http.Request
	edit    func(*http.Request) error
	doer    Doer

	attempts int           // made so far
	counted  int           // towards the limit
	waited   time.Duration // for what was in flight
	unknown  bool          // an attempt can have had an effect
	last     result
}

// fail returns the error of the call.
func (c *call) fail(err error) error {
	return &idempotency.CallError{
		Operation:      c.op.ID,
		Key:            c.key,
		Attempts:       c.attempts,
		OutcomeUnknown: c.unknown,
		Response:       c.last.response,
		Problem:        c.last.problem,
		Err:            err,
	}
}

// prepare makes a request fit to be sent more than once, under the key.
func (c *call) prepare(request *http.Request) error {
	if err := setGetBody(request); err != nil {
		return err
	}
	if request.Header.Get("Content-Type") == "" {
		request.Header.Del("Content-Type") // a request without a body has none
	}
	if c.header != "" {
		request.Header.Del(c.header)
		if c.key != "" {
			request.Header.Set(c.header, c.key)
		}
	}
	c.request = request
	return nil
}

// noUUID is what a parameter of type UUID is when nobody has set it.
const noUUID = "00000000-0000-0000-0000-000000000000"

// run makes attempts until one gives the operation's answer or no other makes
// sense.
func (c *call) run(ctx context.Context, parse func(*http.Response) error) error {
	for {
		c.attempts++
		started := c.sender.now()
		r := c.attempt(ctx, parse)
		duration := c.sender.now().Sub(started)
		c.unknown = c.unknown || r.effect
		if r.err == nil && c.unknown {
			r.again, r.err = doubt(c.op, r.response)
		}
		c.last = r
		if r.err == nil {
			c.observe(ctx, r, duration, 0, true)
			return nil
		}
		pause, err := c.next(ctx, r)
		c.observe(ctx, r, duration, pause, err != nil)
		if err != nil {
			return c.fail(err)
		}
		c.sender.sleep(ctx, pause)
		if ctx.Err() != nil {
			return c.fail(fmt.Errorf("%w while waiting to send it again: %w", contextError(ctx), r.err))
		}
	}
}

// doubt returns an error for an answer that may come from something before the
// operation, such as a proxy, and then hides the effect of an earlier attempt.
// Asked for again, one of the operation comes as a replay, unless its status is
// released and so never kept.
func doubt(op *idempotency.Operation, r *http.Response) (again bool, err error) {
	if r.StatusCode < 400 || Replayed(r) {
		return false, nil
	}
	return !op.Releases(r.StatusCode), fmt.Errorf("%s, which need not be the outcome of an earlier attempt", answered(r.StatusCode))
}

// next says how long to wait for the next attempt, or why there is none.
func (c *call) next(ctx context.Context, r result) (time.Duration, error) {
	switch {
	case !r.again:
		return 0, r.err
	case ctx.Err() != nil && errors.Is(r.err, ctx.Err()) && errors.Is(r.err, context.Cause(ctx)):
		return 0, r.err
	case ctx.Err() != nil:
		return 0, fmt.Errorf("%w: %w", contextError(ctx), r.err)
	case c.key == "": // a repeat would be a second request
		return 0, r.err
	}
	asked := time.Duration(0)
	if r.response != nil {
		asked = retryAfter(r.response.Header, c.sender.now())
	}
	pause := asked + max(c.sender.backoff(c.attempts), 0)
	if r.inFlight {
		c.waited += pause
	}
	if !r.inFlight || pause == 0 { // asking without a pause would never end
		c.counted++
	}
	switch {
	case c.counted >= c.sender.attempts, r.inFlight && c.waited >= c.sender.inFlightWait:
		return 0, r.err
	case asked > c.sender.maxRetryAfter:
		return 0, fmt.Errorf("%w, and asks to wait %v, which is more than the client waits", r.err, asked)
	}
	if deadline, ok := ctx.Deadline(); ok && c.sender.now().Add(pause).After(deadline) {
		return 0, fmt.Errorf("%w, and the context ends before the next attempt: %w", r.err, context.DeadlineExceeded)
	}
	return pause, nil
}

func (c *call) observe(ctx context.Context, r result, duration, pause time.Duration, final bool) {
	if len(c.sender.observers) == 0 {
		return
	}
	a := Attempt{
		Operation: c.op.ID,
		Key:       c.key,
		Number:    c.attempts,
		Sent:      r.sent,
		Replayed:  Replayed(r.response),
		Duration:  duration,
		Err:       r.err,
		Final:     final,
		Pause:     pause,
	}
	if r.response != nil {
		a.Status = r.response.StatusCode
	}
	if r.problem != nil {
		a.Code = r.problem.Code
	}
	for _, observe := range c.sender.observers {
		observe(ctx, a)
	}
}

// contextError returns why a context has ended, with the cause that was given
// for it.
func contextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}
