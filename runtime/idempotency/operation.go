package idempotency

import (
	"strings"
	"time"
)

// Operation is what the spec says of one marked operation. Generated code
// holds one for each and never changes it.
type Operation struct {
	// ID is the operationId as the spec spells it, or "POST /path" where it
	// has none. It is part of every record's identity.
	ID string
	// Method and Path are the operation's own: POST, /accounts/{id}/payments.
	// Where a webhook or a callback is received, the spec does not know: then
	// Path is "webhook NAME" or "callback NAME".
	Method, Path string
	Key          KeyRule
	// Optional lets a request without a key run unprotected (required: false).
	Optional    bool
	Retention   time.Duration   // how long an answer is kept; 24 h where the document sets none
	Fingerprint FingerprintRule // the zero value is canonical
	Parameters  Parameters
	Bodies      []Body
	// WaitUpTo is how long a duplicate waits for the first attempt; 0 answers
	// 409 at once. Those who wait hold no connection, and for each key one of a
	// process asks the store: first after 20 ms, then up to every 500 ms.
	WaitUpTo time.Duration
	// Lease is how long a claim holds that nothing extends, for handlers whose
	// effects lie outside the database; 0 gives the handler a transaction.
	Lease time.Duration
	// Release lists the answers that roll back and free the key: statuses
	// (429), and whole classes of them as [StatusClass] makes them.
	Release []int
}

// StatusClass is the entry of [Operation.Release] for a whole class of
// statuses: StatusClass(5) stands for 5XX.
func StatusClass(hundreds int) int { return -hundreds }

// Releases reports whether an answer with this status is rolled back and
// frees the key.
func (o *Operation) Releases(status int) bool {
	for _, r := range o.Release {
		if r == status || r == -(status/100) {
			return true
		}
	}
	return false
}

// KeyFormat is the form that an operation requires of its keys.
type KeyFormat uint8

// The formats. UUIDs are compared in lower case (RFC 9562 section 4).
const (
	KeyOpaque KeyFormat = iota // any 1 to MaxLength bytes of 0x21 to 0x7E
	KeyUUID                    // a UUID of any version
	KeyUUIDv7                  // a UUIDv7; its time is judged, see [Request.CheckAge]
)

// KeyRule says where an operation's key is and which keys are valid.
type KeyRule struct {
	Header string // name of the header field; "" means Idempotency-Key
	// Body is a JSON Pointer (RFC 6901) to the member of the body that holds the
	// key, in place of a header; in a form, / and a name. "" means a header.
	Body      string
	Format    KeyFormat
	MaxLength int // in bytes; 0 means 255
}

// FingerprintRule says what of a request counts. The zero value is canonical:
// everything that a handler can see, in a form that white space, member order
// and number spelling do not change.
type FingerprintRule struct {
	Raw     bool     // the body's bytes as they stand
	Exclude []string // "/json/pointer", "header:Name", "query:name": left out
	Include []string // the same: nothing else of query, headers and body counts
}

// Parameters names the header and cookie parameters that the operation
// declares, without the key.
type Parameters struct {
	Headers []string
	Cookies []string
}

// BodyKind says how the generated server hands a body to the handler.
type BodyKind uint8

// The kinds.
const (
	BodyRaw       BodyKind = iota // bytes: text, form, octet streams
	BodyJSON                      // decoded by encoding/json
	BodyMultipart                 // a *multipart.Reader
)

// Body is one media type that an operation accepts.
type Body struct {
	MediaType string // as declared, without parameters: application/json
	Kind      BodyKind
}

// takes reports whether a server with several bodies may take one for this: a
// strict server goes by what the Content-Type begins with, [Call.Is] compares
// the media type.
func (b Body) takes(contentType string) bool {
	return strings.HasPrefix(contentType, b.MediaType) || b.is(contentType)
}

// is reports whether a Content-Type names the media type, or one that a type
// such as image/* stands for.
func (b Body) is(contentType string) bool {
	sent, _, _ := strings.Cut(contentType, ";")
	sent = strings.ToLower(strings.TrimSpace(sent))
	family, wild := strings.CutSuffix(strings.ToLower(b.MediaType), "*")
	return sent == family || wild && (family == "*/" || strings.HasPrefix(sent, family))
}
