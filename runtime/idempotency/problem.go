package idempotency

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"time"
)

// Problem is a refusal as a client sees it, in the form of RFC 9457.
type Problem struct {
	// Type is a link to the explanation of Code.
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	Code   Code   `json:"code"`
	// Retryable says that the same request with the same key can succeed later.
	Retryable bool `json:"retryable"`
	// RetryAfter is when; it is sent as the Retry-After field, in seconds.
	RetryAfter time.Duration `json:"-"`
}

// problemTypes is where the codes are explained.
const problemTypes = "https://github.com/idemgen/idemgen/blob/main/docs/problems.md#"

// newProblem returns the default problem document of a refusal.
func newProblem(e *Error) Problem {
	p := Problem{Type: problemTypes + string(e.Code), Detail: e.Detail, Code: e.Code, Retryable: e.Code.Retryable(), RetryAfter: e.RetryAfter}
	p.Status, p.Title = e.Code.text()
	if p.Retryable && p.RetryAfter <= 0 {
		p.RetryAfter = time.Second
	}
	return p
}

// text returns a code's status and title.
func (c Code) text() (int, string) {
	switch c {
	case CodeKeyMissing:
		return http.StatusBadRequest, "Idempotency key is missing"
	case CodeKeyInvalid:
		return http.StatusBadRequest, "Idempotency key is invalid"
	case CodeBodyInvalid:
		return http.StatusBadRequest, "Request body is invalid"
	case CodeScopeMissing:
		return http.StatusUnauthorized, "Caller is not known"
	case CodeInFlight:
		return http.StatusConflict, "A request with this idempotency key is in flight"
	case CodeKeyExpired:
		return http.StatusPreconditionFailed, "Idempotency key is expired"
	case CodeBodyTooLarge:
		return http.StatusRequestEntityTooLarge, "Request body is too large"
	case CodeMismatch:
		return http.StatusUnprocessableEntity, "Idempotency key was used for another request"
	case CodeResponseTooLarge:
		return http.StatusInternalServerError, "Answer is too large to be kept"
	case CodeUnavailable:
		return http.StatusServiceUnavailable, "Request could not be executed now"
	case CodeOutcomeUnknown:
		return http.StatusServiceUnavailable, "Outcome is not known yet"
	default:
		return http.StatusInternalServerError, "Internal error"
	}
}

// WriteProblem writes p as application/problem+json (RFC 9457), with
// Retry-After where there is one. It is what servers do by default; a writer
// given to [WithProblemWriter] can change p and call it.
func WriteProblem(w http.ResponseWriter, _ *http.Request, p Problem) {
	body, err := json.Marshal(p)
	if err != nil { // strings, a number and a bool always encode
		panic(err)
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(p.RetryAfter.Seconds()))))
	}
	w.WriteHeader(p.Status)
	// A caller that has gone cannot be told.
	_, _ = w.Write(append(body, '\n'))
}
