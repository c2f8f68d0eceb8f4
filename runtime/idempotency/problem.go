package idempotency

import (
	"encoding/json"
	"math"
	"mime"
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
	// It is true for the codes of [Code.Retryable], except for outcome_unknown
	// where the request came without a key.
	Retryable bool `json:"retryable"`
	// RetryAfter is when; it is sent as the Retry-After field, in seconds.
	RetryAfter time.Duration `json:"-"`
}

// problemTypes is where the codes are explained.
const problemTypes = "https://github.com/idemgen/idemgen/blob/main/docs/problems.md#"

// newProblem returns the default problem document of a refusal.
func newProblem(e *Error) Problem {
	kind := problemKinds[e.Code]
	if kind.status == 0 {
		kind = problemKinds[CodeInternal]
	}
	p := Problem{
		Type:       problemTypes + string(e.Code),
		Title:      kind.title,
		Status:     kind.status,
		Detail:     e.Detail,
		Code:       e.Code,
		Retryable:  e.Code.Retryable(),
		RetryAfter: e.RetryAfter,
	}
	if p.Detail == "" {
		p.Detail = kind.detail
	}
	if p.Retryable && p.RetryAfter <= 0 {
		p.RetryAfter = time.Second
	}
	return p
}

// withoutKey returns what is true of p where the request came without a key:
// nothing recognises it when it is sent again.
func (p Problem) withoutKey() Problem {
	if p.Code == CodeOutcomeUnknown {
		p.Retryable, p.RetryAfter = false, 0
		p.Detail = "the request may or may not have been carried out; without a key a retry may repeat it"
	}
	return p
}

// ReadProblem returns the refusal that an answer with these header fields and
// this body is, and false for any other answer: a problem document whose type
// is not the one of its code comes from elsewhere.
func ReadProblem(header http.Header, body []byte) (Problem, bool) {
	mediaType, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil || mediaType != "application/problem+json" {
		return Problem{}, false
	}
	var p Problem
	if json.Unmarshal(body, &p) != nil || p.Code == "" || p.Type != problemTypes+string(p.Code) {
		return Problem{}, false
	}
	if seconds, err := strconv.ParseInt(header.Get("Retry-After"), 10, 32); err == nil && seconds > 0 {
		p.RetryAfter = time.Duration(seconds) * time.Second
	}
	return p, true
}

type problemKind struct {
	status        int
	title, detail string // the detail is for refusals that bring none
}

var problemKinds = map[Code]problemKind{
	CodeKeyMissing:       {http.StatusBadRequest, "Idempotency key is missing", ""},
	CodeKeyInvalid:       {http.StatusBadRequest, "Idempotency key is invalid", ""},
	CodeBodyInvalid:      {http.StatusBadRequest, "Request body is invalid", ""},
	CodeScopeMissing:     {http.StatusUnauthorized, "Caller is not known", "the request does not say who the caller is"},
	CodeInFlight:         {http.StatusConflict, "Request is in flight", "a request with this key is being executed; repeat this one later, with the same key"},
	CodeKeyExpired:       {http.StatusPreconditionFailed, "Idempotency key is expired", ""},
	CodeBodyTooLarge:     {http.StatusRequestEntityTooLarge, "Request body is too large", ""},
	CodeMismatch:         {http.StatusUnprocessableEntity, "Idempotency key was used for another request", "this key was used for a request with other content; use a new key for a new request"},
	CodeInternal:         {http.StatusInternalServerError, "Internal error", "the request could not be executed; nothing of it was kept"},
	CodeResponseTooLarge: {http.StatusInternalServerError, "Answer is too large", ""},
	CodeTransactionEnded: {http.StatusInternalServerError, "Transaction was ended by its handler", "no answer was stored, but something of the request may have been kept: look before you send it again"},
	CodeUnavailable:      {http.StatusServiceUnavailable, "Request cannot be executed now", "nothing of the request was kept; send it again, with its key if it has one"},
	CodeOutcomeUnknown:   {http.StatusServiceUnavailable, "Outcome is not known", "the request may have been executed; send it again with the same key to learn its outcome"},
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
