package idempotency

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Visit writes a typed answer, as oapi-codegen's answer types do.
type Visit func(w http.ResponseWriter) error

// Edge is the HTTP side of one generated server. It is for generated code:
// [Edge.ServeHTTP] sees the raw request before it is decoded, [Edge.Run] runs
// the handler under a claim. Both are needed, and the generated
// NewIdempotentHandler wires both.
type Edge[Tx any] struct {
	store   Store[Tx]
	scope   Scope
	options options
	waiters *waiters
	leases  *Edge[*Lease] // nil where the store has none
}

// NewEdge returns the edge of a generated server. It panics when store or
// scope is nil: such a server would run unprotected.
func NewEdge[Tx any](store Store[Tx], scope Scope, opts ...Option) *Edge[Tx] {
	if store == nil {
		panic("idempotency: the store is nil")
	}
	if scope == nil {
		panic("idempotency: the scope is nil; say idempotency.Unscoped if all callers are one")
	}
	o := newOptions(opts)
	e := &Edge[Tx]{store: store, scope: scope, options: o, waiters: newWaiters(o.maxWaiting)}
	if leaser, ok := store.(Leaser); ok {
		e.leases = &Edge[*Lease]{store: Leases(leaser, o.leaseCeiling), scope: scope, options: o, waiters: e.waiters}
	}
	return e
}

// Leases returns the edge for operations in lease mode, whose handlers get a
// [Lease]. It is nil unless the store is a [LeaseStore].
func (e *Edge[Tx]) Leases() *Edge[*Lease] { return e.leases }

// Framework returns the last value of type T given by [WithFramework].
func Framework[T, Tx any](e *Edge[Tx]) (value T, ok bool) {
	for _, v := range e.options.framework {
		if t, is := v.(T); is {
			value, ok = t, true
		}
	}
	return value, ok
}

// ServeHTTP checks key, scope and body size, reads the body, and calls next
// with a request that carries the attempt and a body to be read again. It
// answers by itself what it refuses. The observer is told when next returns.
func (e *Edge[Tx]) ServeHTTP(w http.ResponseWriter, r *http.Request, op *Operation, next func(http.ResponseWriter, *http.Request)) {
	call := &Call{op: op, request: r, outcome: OutcomeReleased}
	if observe := e.options.observer; observe != nil {
		call.started, call.timing = time.Now(), new(timing)
		// Deferred, so that a handler that panics is reported as released.
		defer func() {
			e := Event{Operation: op.ID, Scope: call.scope, Key: call.key, Duration: time.Since(call.started)}
			e.Outcome, e.Err = call.reported()
			call.timing.fill(&e)
			observe(r.Context(), e)
		}()
	}
	if err := e.admit(call, w); err != nil {
		call.report(OutcomeInvalid, err)
		e.options.problem(w, r, newProblem(err))
		return
	}
	// What next refuses by itself, such as a body that does not decode, never
	// reaches Run.
	call.report(OutcomeInvalid, errUnreached)
	returned := false
	defer func() {
		if !returned { // the panic goes on; it is only noted here
			call.report(OutcomeReleased, errPanicked)
		}
	}()
	next(w, call.request)
	returned = true
}

// errScopeMissing is the refusal of a [Scope] that says nothing.
var errScopeMissing = &Error{Code: CodeScopeMissing}

// errUnreached stands for an error that only oapi-codegen's code knows, and the
// caller that it has answered.
var errUnreached = errors.New("idempotency: the request did not reach its handler: oapi-codegen's decoder has refused its body or a parameter, or a middleware has answered it")

var errPanicked = errors.New("idempotency: the handler panicked, or its goroutine ended")

// admit reads from the request what Run needs, or says why it is refused.
func (e *Edge[Tx]) admit(call *Call, w http.ResponseWriter) *Error {
	r := call.request
	inBody := call.op.Key.Body != ""
	if inBody {
		if err := e.readBody(call, w); err != nil {
			return err
		}
	}
	key, err := call.sentKey()
	switch {
	case err != nil:
		return asRefusal(err)
	case key == "" && !call.op.Optional && call.unread == nil:
		return &Error{Code: CodeKeyMissing, Detail: missingKey(call.op.Key, r.Header)}
	}
	call.key = key
	scope, scopeErr := e.scope(r.Context(), r.Header)
	switch {
	case errors.Is(scopeErr, errScopeMissing):
		return asRefusal(scopeErr)
	case scopeErr != nil:
		return &Error{Code: CodeInternal, Detail: "the caller could not be determined", Err: scopeErr}
	case !validName(scope):
		return errScopeMissing
	}
	call.scope = scope
	if inBody {
		return nil
	}
	return e.readBody(call, w)
}

// readBody reads the body within its limit and puts a request in place whose
// body can be read again.
func (e *Edge[Tx]) readBody(call *Call, w http.ResponseWriter) *Error {
	r, limit := call.request, e.options.requestLimit
	tooLarge := func(limit int64) *Error {
		if r.ProtoMajor < 2 {
			// The rest of the body is not read, so the connection cannot be used
			// again. In HTTP/2 it is a stream that ends, and others go on.
			w.Header().Set("Connection", "close")
		}
		return &Error{Code: CodeBodyTooLarge, Detail: fmt.Sprintf("the request body may have at most %d bytes", limit)}
	}
	if r.ContentLength > limit {
		return tooLarge(limit)
	}
	if r.MultipartForm != nil {
		// Its files would not count, and would be gone after a first run.
		return &Error{Code: CodeBodyInvalid, Detail: "a middleware before the server has read the multipart body, which must be left to the handler"}
	}
	var validated interface{ ValidatedValue() any }
	if r.Body != nil && r.Body != http.NoBody {
		body, err := readAll(r.Body, limit, r.ContentLength)
		if len(body) == 0 {
			// A middleware that has parsed the form has used the body up, and
			// the handler sees what it parsed.
			body = []byte(r.PostForm.Encode())
		}
		switch lower, ok := limitOf(err); {
		case ok:
			return tooLarge(lower)
		case int64(len(body)) > limit:
			return tooLarge(limit)
		case err != nil:
			return &Error{Code: CodeBodyInvalid, Detail: "the request body could not be read to its end", Err: err}
		}
		validated, _ = r.Body.(interface{ ValidatedValue() any })
		call.body = body
	}
	call.request = r.WithContext(call.within(r.Context()))
	call.reader.Reset(call.body)
	call.request.Body = &call.reader
	if validated != nil {
		call.request.Body = validatedBody{&call.reader, validated}
	}
	return nil
}

// maxTrusted is the length of a body that is believed before it has come: a
// caller who announces much and sends nothing ties up no more memory.
const maxTrusted = 64 << 10

// readAll reads body to its end, or until it is longer than limit. length is
// what the request says of it, or -1.
func readAll(body io.Reader, limit, length int64) ([]byte, error) {
	if length < 0 {
		return io.ReadAll(io.LimitReader(body, limit+1))
	}
	b := make([]byte, 0, min(length, maxTrusted)+1) // one more, for the read that finds the end
	for {
		n, err := body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case err == io.EOF:
			return b, nil
		case err != nil || int64(len(b)) > limit:
			return b, err
		case len(b) == cap(b):
			b = append(b, 0)[:len(b)]
		}
	}
}

// limitOf returns the limit that err says was met: a middleware before the
// server has one of its own.
func limitOf(err error) (limit int64, ok bool) {
	if err == nil { // as it nearly always is; errors.As needs memory
		return 0, false
	}
	var tooLarge *http.MaxBytesError
	if !errors.As(err, &tooLarge) {
		return 0, false
	}
	return tooLarge.Limit, true
}

// Run claims the key of the attempt that ServeHTTP has put into ctx, runs work
// in a transaction and stores the answer that visit writes, or answers what is
// stored. Refusals come back as an [Answer] too. An error is the handler's
// own, as it returned it, or a [*CommitError], for the server's own error
// handler; or it says that ctx carries no attempt of op, because the request did
// not come through ServeHTTP.
func (e *Edge[Tx]) Run(ctx context.Context, op *Operation, work func(ctx context.Context, tx Tx, call *Call) (Visit, error)) (*Answer, error) {
	call, ok := callFrom(ctx)
	if !ok || call.op != op {
		return nil, fmt.Errorf("idempotency: %s was called without its wrapper; serve the handler that NewIdempotentHandler returns", op.ID)
	}
	call.report(OutcomeReleased, nil)
	a := &attempt[Tx]{call: call, options: &e.options, work: work}
	result, err := e.execute(ctx, call, a.run)
	switch {
	case err == nil && result.Replayed:
		call.report(OutcomeReplayed, nil)
		a.answer = Answer{response: result.Response, replayHeader: e.options.replayHeader}
		return &a.answer, nil
	case err == nil:
		outcome := OutcomeExecuted
		if call.key == "" {
			outcome = OutcomeUnprotected
		}
		call.report(outcome, nil)
		return &a.answer, nil
	case errors.Is(err, errReleased):
		return &a.answer, nil
	}
	if own := handlersOwn(err); own != nil && own == a.failed {
		call.report(OutcomeReleased, own.err)
		return nil, own.err
	}
	if refused := new(CommitError); errors.As(err, &refused) {
		call.report(OutcomeReleased, err)
		return nil, err
	}
	refusal := asRefusal(err)
	call.fail(refusal)
	problem := newProblem(refusal)
	if call.key == "" {
		problem = problem.withoutKey()
	}
	return &Answer{refusal: &problem, write: e.options.problem, request: call.request}, nil
}

// asRefusal returns the refusal that err is, or an internal one.
func asRefusal(err error) *Error {
	var refusal *Error
	if errors.As(err, &refusal) {
		return refusal
	}
	return &Error{Code: CodeInternal, Err: err}
}

func (c *Call) fail(err *Error) {
	c.report(outcomeOf(err.Code), err)
}

// execute claims and runs, waiting for another attempt where the operation
// says so.
func (e *Edge[Tx]) execute(ctx context.Context, call *Call, work Work[Tx]) (Result, error) {
	if call.unread != nil {
		return Result{}, call.unread // the decoder has taken it, so it says no more
	}
	if call.key == "" {
		response, err := e.store.Transact(ctx, work)
		return Result{Response: response}, err
	}
	fingerprint, err := call.fingerprint(fingerprintVersion)
	if err != nil {
		return Result{}, err
	}
	req := Request{
		Identity:    Identity{Scope: call.scope, Operation: call.op.ID, Key: call.key},
		Fingerprint: fingerprint,
		Retention:   call.op.Retention,
		KeyHasTime:  call.op.Key.Format == KeyUUIDv7,
		Lease:       call.op.Lease,
		call:        call,
	}
	result, err := e.try(ctx, req, work)
	if call.op.WaitUpTo > 0 && isInFlight(err) {
		return e.wait(ctx, req, call.op.WaitUpTo, work, err)
	}
	return result, err
}

// attempt is the work that Run gives to the store: it captures the handler's
// answer and decides what the store keeps. It may run more than once.
type attempt[Tx any] struct {
	call    *Call
	options *options
	work    func(context.Context, Tx, *Call) (Visit, error)
	rec     recorder
	answer  Answer        // the handler's, with all its headers
	failed  *handlerError // the last run's own error
}

// errReleased rolls back an answer whose status frees the key.
var errReleased = errors.New("idempotency: answer released")

// handlerError is an error that the handler returned, told from those of the
// store by identity.
type handlerError struct{ err error }

func (e *handlerError) Error() string { return e.err.Error() }
func (e *handlerError) Unwrap() error { return e.err }

// handlersOwn returns err if it is a handler's own, as the store hands it back,
// and nil if it is the store's.
func handlersOwn(err error) *handlerError {
	own, _ := err.(*handlerError) //nolint:errorlint // one that is wrapped is another call's
	return own
}

func (a *attempt[Tx]) run(ctx context.Context, tx Tx) (Response, error) {
	visit, err := a.work(ctx, tx, a.call)
	if err != nil {
		a.failed = &handlerError{err}
		return Response{}, a.failed
	}
	if visit == nil {
		// Upstream sends an empty 200. Kept for the retention, that would be a
		// slip of the handler made permanent.
		a.failed = &handlerError{fmt.Errorf("idempotency: the handler of %s returned neither an answer nor an error; nothing was kept", a.call.op.ID)}
		return Response{}, a.failed
	}
	a.rec = recorder{limit: a.options.responseLimit}
	err = visit(&a.rec)
	if a.rec.overflow {
		return Response{}, &Error{Code: CodeResponseTooLarge, Detail: fmt.Sprintf("the answer has more than %d bytes; nothing was kept", a.rec.limit)}
	}
	response := a.rec.response()
	if err == nil {
		err = checkLength(response)
	}
	if err != nil {
		a.failed = &handlerError{err}
		return Response{}, a.failed
	}
	// A handler that passes on another server's answer passes on what that says of
	// itself, and this one is no replay.
	delete(response.Header, a.options.replayHeader)
	a.answer = Answer{response: response}
	if a.call.op.Releases(response.Status) {
		return Response{}, errReleased
	}
	if _, ok := response.Header["Cache-Control"]; !ok {
		// Neither this answer nor a replay of it belongs into a shared cache
		// (RFC 9111 section 5.2.2.5) if the handler does not say so.
		response.Header["Cache-Control"] = []string{"no-store"}
	}
	response.Header = a.options.unstored.without(response.Header)
	return response, nil
}

// checkLength refuses an answer that is not as long as it says (RFC 9110
// section 8.6), such as one copied from a source that was cut.
func checkLength(r Response) error {
	declared := r.Header["Content-Length"]
	if len(declared) > 0 && declared[0] != strconv.Itoa(len(r.Body)) {
		return fmt.Errorf("idempotency: the answer's Content-Length is %s, its body has %d bytes; nothing was kept", declared[0], len(r.Body))
	}
	return nil
}

// Answer is what a request is answered: the handler's answer, a stored one, or
// a refusal.
type Answer struct {
	response     Response
	replayHeader string // set on a replay

	refusal *Problem
	write   func(http.ResponseWriter, *http.Request, Problem)
	request *http.Request
}

// WriteTo writes the answer to w. Generated answer types call it. Header fields
// that w has already, from a middleware, are replaced, but cookies and what the
// answer varies by come on top of them: they say more and take nothing back.
func (a *Answer) WriteTo(w http.ResponseWriter) error {
	if a.refusal != nil {
		a.write(w, a.request, *a.refusal)
		return nil
	}
	h := w.Header()
	for name, lines := range a.response.Header {
		if name == "Set-Cookie" || name == "Vary" {
			lines = slices.Concat(h[name], lines)
		}
		h[name] = lines
	}
	if a.replayHeader != "" {
		h[a.replayHeader] = []string{"true"}
	}
	w.WriteHeader(a.response.Status)
	if len(a.response.Body) == 0 {
		return nil
	}
	_, err := w.Write(a.response.Body)
	return err
}
