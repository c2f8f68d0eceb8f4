// Package spec reads an OpenAPI document and says which of its operations are
// idempotent, and how. It is lenient with the document and strict with the
// markers: what no marked operation reaches may be broken, but a marker is
// understood in full or is an error.
package spec

import (
	"strings"
	"time"

	"github.com/idemgen/idemgen/generator/internal/diag"
	"github.com/idemgen/idemgen/generator/internal/tree"
)

// Document is what the generator needs of an OpenAPI document.
type Document struct {
	// Name is the base name of the file: the only part of its path that may
	// appear in generated code.
	Name string
	Pos  diag.Pos
	// Operations are all operations under paths, with their callbacks, and under
	// webhooks, in the document's order. Path items that are only a $ref to
	// another path are left out: they have no generated method of their own.
	Operations []Operation

	file *tree.File
	refs *resolver
}

// File is the document itself, with its overlay applied.
func (d *Document) File() *tree.File { return d.file }

// Resolve returns v, or what its $ref stands for in the end, maybe in another
// file.
func (d *Document) Resolve(v tree.Value) (tree.Value, *diag.Diagnostic) { return d.refs.resolve(v) }

// Operation is one operation of the document. Its text is the document's and
// must be quoted wherever it enters Go.
type Operation struct {
	Kind        Kind
	Method      string // upper case
	Path        string // as written: /accounts/{account_id}/payments; see Kind
	OperationID string // as written; "" where there is none
	Pos         diag.Pos
	// Location are the names that lead from the document's root to the
	// operation.
	Location []string
	// Policy is nil for an unmarked operation. The fields below it are filled
	// for marked operations only.
	Policy *Policy
	// Parameters are the operation's own and its path item's, $ref resolved,
	// in the order of declaration, the path item's first. The key's header is
	// among them where the document declares it.
	Parameters []Parameter
	// Body is nil where the operation declares none.
	Body      *Body
	Responses []Response
}

// Kind says where the requests of an operation come to.
type Kind string

// The kinds. Where a webhook or a callback is received, the document does not
// know: their Path is "webhook NAME" or "callback NAME".
const (
	Served   Kind = ""
	Webhook  Kind = "webhook"
	Callback Kind = "callback"
)

// path is the Path of what has a name and no path.
func (k Kind) path(name string) string { return string(k) + " " + name }

// Route is the method and the path: "POST /path", "POST webhook NAME" or "POST
// callback NAME".
func (o *Operation) Route() string { return o.Method + " " + o.Path }

// ID identifies the operation in stored records: the operationId, or the route
// where there is none.
func (o *Operation) ID() string {
	if o.OperationID != "" {
		return o.OperationID
	}
	return o.Route()
}

// Parameter is a declared parameter.
type Parameter struct {
	Name     string
	In       string // path, query, header or cookie
	Required bool
	Pos      diag.Pos
}

// Body is a declared request body.
type Body struct {
	Required   bool
	MediaTypes []MediaType // in the document's order
	Pos        diag.Pos
}

// Response is a declared answer.
type Response struct {
	Status     string // 201, 4XX or default
	MediaTypes []MediaType
	Pos        diag.Pos
}

// MediaType is a key of a content object.
type MediaType struct {
	Name string // as written: application/json; charset=utf-8
	Pos  diag.Pos
}

// Policy is a marker with every value decided.
type Policy struct {
	// Pos is the marker's own, in the document, the overlay or the config.
	Pos      diag.Pos
	Required bool // false: a request without a key runs unprotected
	Key      Key
	// Retention is how long an answer is kept, 24 h unless the spec says so.
	Retention   time.Duration
	Fingerprint Fingerprint
	// WaitUpTo is how long a duplicate waits for the first attempt; 0 rejects
	// it at once.
	WaitUpTo time.Duration
	// Lease is how long a claim holds that nothing extends, 1 s to 1 h; 0 runs
	// handlers in a transaction.
	Lease time.Duration
	// Release lists statuses as they are (429) and classes as their negated
	// first digit (-5 for 5XX), which is how the runtime holds them.
	Release []int
	// TypeName is the Go type name asked for with `name`, or "".
	TypeName string
	// Settings are all values above in the order of the documentation, each
	// with where it came from.
	Settings []Setting
}

// Setting returns the setting with this name, such as "retention" or
// "key.format".
func (p *Policy) Setting(name string) Setting {
	for _, s := range p.Settings {
		if s.Name == name {
			return s
		}
	}
	return Setting{}
}

// Source says who decided a value.
type Source string

// The sources, the strongest first.
const (
	FromMarker    Source = "marker"    // the operation's marker in the document or an overlay
	FromConfig    Source = "config"    // the operations section of the config
	FromDefaults  Source = "defaults"  // the defaults at the document's root
	FromParameter Source = "parameter" // the declared header parameter of the key
	FromSchema    Source = "schema"    // the declared member of the body that holds the key
	FromBuiltIn   Source = "built-in"
)

// Setting is one decided value of a policy.
type Setting struct {
	Name   string // retention, key.name, fingerprint, ...
	Value  string // as a person would write it
	Source Source
	Pos    diag.Pos // of the value; the marker's own for built-in values
}

// Why says who decided the value, and where.
func (s Setting) Why() string {
	if s.Source == FromBuiltIn {
		return string(s.Source)
	}
	return string(s.Source) + " at " + s.Pos.String()
}

// Key says where an operation's key is and which keys are valid.
type Key struct {
	// Name is that of a header or, InBody, a JSON Pointer (RFC 6901) to a member
	// of the body.
	Name      string
	InBody    bool
	Format    KeyFormat
	MaxLength int // in bytes, 1 to 255
	// Declared is the header parameter that the document declares for the key,
	// or nil. Its name may differ from Name in letter case.
	Declared *Parameter
}

// Path returns the names that lead to the member of the body that holds the key.
func (k Key) Path() []string {
	path, _ := keyPath(k.Name) // it was checked
	return path
}

// IsHeader reports whether the header with this name holds the key.
func (k Key) IsHeader(name string) bool { return !k.InBody && strings.EqualFold(name, k.Name) }

// KeyFormat is the form that keys must have.
type KeyFormat string

// The formats.
const (
	FormatOpaque KeyFormat = "opaque"
	FormatUUID   KeyFormat = "uuid"
	FormatUUIDv7 KeyFormat = "uuidv7"
)

// UUIDLength is how many bytes the text of a UUID has (RFC 9562 section 4).
const UUIDLength = 36

// Fingerprint says what of a request counts. The zero value is canonical.
type Fingerprint struct {
	Raw     bool
	Exclude []string // "/json/pointer", "header:Name", "query:name"
	Include []string
}
