package idempotency

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
)

// Handle is [Edge.ServeHTTP] and [Edge.Run] in one, for generated servers
// whose handlers write their answers themselves. decode reads the body before
// the key is claimed, and may be nil; an error of it is answered 400
// body_invalid. handle runs in the transaction and writes to a writer that
// keeps the answer until the commit. Each run has a request of its own, with the
// run's context: what a run changes in it is gone with the next one.
//
// An error that handle returns rolls back, and Handle returns it, having
// answered nothing: it is for the server's own error handler. Handle returns
// no other errors.
func (e *Edge[Tx]) Handle(w http.ResponseWriter, r *http.Request, op *Operation, decode func(*Call) error, handle func(w http.ResponseWriter, r *http.Request, tx Tx, call *Call) error) error {
	var own error // the last run's
	e.ServeHTTP(w, r, op, func(w http.ResponseWriter, r *http.Request) {
		call, _ := callFrom(r.Context())
		call.decodeJSON = e.options.decodeJSON
		if decode != nil {
			if err := decode(call); err != nil {
				refusal := &Error{Code: CodeBodyInvalid, Detail: "the request body is not what " + op.ID + " takes", Err: err}
				call.fail(refusal)
				e.options.problem(w, r, newProblem(refusal))
				return
			}
		}
		answer, err := e.Run(r.Context(), op, func(ctx context.Context, tx Tx, call *Call) (Visit, error) {
			return func(kept http.ResponseWriter) error {
				answer := &plainWriter{op: op, kept: kept}
				defer answer.close()
				request := call.unreadBody(call.request.Clone(ctx))
				defer removeParts(request)
				own = handle(answer, request, tx, call)
				if own != nil {
					return own
				}
				return answer.finish()
			}, nil
		})
		switch {
		case err == nil:
			own = nil             // a refusal of the store came instead
			_ = answer.WriteTo(w) // a caller that has gone cannot be told
		case own == nil:
			e.options.problem(w, r, newProblem(asRefusal(err)))
		}
	})
	return own
}

// unreadBody gives r, a copy of the call's request, the whole body to be read.
func (c *Call) unreadBody(r *http.Request) *http.Request {
	body := new(bodyReader)
	body.Reset(c.body)
	r.Body = body
	if b, ok := c.request.Body.(validatedBody); ok {
		r.Body = validatedBody{body, b.value}
	}
	return r
}

// removeParts removes the files that a handler has made of a multipart body.
// net/http does so for its own request alone.
func removeParts(r *http.Request) {
	if r.MultipartForm != nil {
		_ = r.MultipartForm.RemoveAll() // what is left are temporary files
	}
}

// plainWriter is what a handler writes its answer to. Unlike the recorder
// behind it, it is safe to keep and to use from goroutines, as writers of
// net/http are; once the handler has returned it takes nothing more. It lets
// nothing out before the commit: to flush or to hijack makes the attempt fail.
type plainWriter struct {
	op *Operation

	mu      sync.Mutex
	header  http.Header
	kept    http.ResponseWriter // nil once the handler has returned
	wrote   bool                // the status
	refused error
}

var errReturned = errors.New("idempotency: the handler has returned, and its answer with it: wait for goroutines that write")

// Header returns the map that the first write takes a copy of.
func (w *plainWriter) Header() http.Header {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.header == nil {
		w.header = make(http.Header)
	}
	return w.header
}

func (w *plainWriter) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeHeader(status)
}

func (w *plainWriter) writeHeader(status int) {
	if w.kept == nil || w.wrote {
		return
	}
	if status == http.StatusSwitchingProtocols {
		_ = w.refuse("switch protocols") // finish returns it
		return
	}
	if w.wrote = status >= 200; w.wrote {
		// A copy, since the handler may keep the map and go on.
		maps.Copy(w.kept.Header(), withoutTrailers(w.header))
	}
	w.kept.WriteHeader(status)
}

func (w *plainWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeHeader(http.StatusOK)
	switch {
	case w.kept == nil:
		return 0, errReturned
	case w.refused != nil:
		return 0, w.refused
	}
	return w.kept.Write(p)
}

// FlushError is what [http.ResponseController.Flush] calls. There is no Flush
// beside it, so that a handler that looks for an [http.Flusher] finds none.
func (w *plainWriter) FlushError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refuse("flush or stream it")
}

// Hijack refuses to hand over the connection.
func (w *plainWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return nil, nil, w.refuse("hijack")
}

// refuse makes the attempt fail.
func (w *plainWriter) refuse(to string) error {
	if w.kept == nil {
		return errReturned
	}
	w.refused = &Error{
		Code:   CodeInternal,
		Detail: fmt.Sprintf("nothing was kept: the answer of %s is sent whole, after its commit, and its handler tried to %s: write the answer without that, or do not mark the operation", w.op.ID, to),
	}
	return w.refused
}

// finish writes the status where the handler has left it to net/http, and
// returns what the answer failed for.
func (w *plainWriter) finish() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeHeader(http.StatusOK)
	return w.refused
}

func (w *plainWriter) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept = nil
}

// withoutTrailers returns a copy of h without trailers (RFC 9110 section 6.5)
// and what announces them: they would come after what is stored.
func withoutTrailers(h http.Header) http.Header {
	kept := make(http.Header, len(h))
	for name, values := range h {
		if http.CanonicalHeaderKey(name) != "Trailer" && !strings.HasPrefix(name, http.TrailerPrefix) {
			kept[name] = append([]string(nil), values...)
		}
	}
	return kept
}
