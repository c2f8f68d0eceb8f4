package plan

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/idemgen/idemgen/generator/internal/gosource"
	"github.com/idemgen/idemgen/generator/internal/spec"
)

// Operation is the model of a marked operation.
type Operation struct {
	names
	spec      *spec.Operation
	method    *gosource.Operation
	hasServer bool
	plain     bool

	// InputFields are the fields of the input type.
	InputFields []InputField
	// Parameters are those of the ServerInterface method after what the
	// framework gives it, under names that collide with nothing.
	Parameters []Parameter
	Bodies     []Body
	// BodyField and ContentTypeField hold a body that is a stream; "" where
	// there is none.
	BodyField, ContentTypeField string
	// MultipartMethod is the input's method that reads such a body by parts.
	MultipartMethod string
	// Builds are the ways to make a client's request, the last one without a
	// condition, and BodyConditions say which bodies an input has.
	Builds         []Build
	BodyConditions []string
	// RetryPackage is the name under which the file imports package retry.
	RetryPackage string
	// StreamCondition is true in Go for a request whose body is a stream; ""
	// where all are.
	StreamCondition string
	// Decodes read the bodies of a plain server.
	Decodes []Decode
}

// InputField is a field of an operation's input.
type InputField struct {
	Doc  string
	Name string
	Type string
	From string // the element that sets it in a composite literal, or ""
	// Pointer is what points to the value, or "". It is nil only where the
	// document and oapi-codegen's code disagree on whether a body is required.
	Pointer string
}

// Parameter is a parameter of a Go method.
type Parameter struct{ Name, Type string }

// Body is a media type and how the generated server decodes it.
type Body struct{ MediaType, Kind string }

// Method is the name of the operation's Go method.
func (o *Operation) Method() string { return o.method.Name }

// ID identifies the operation in stored records.
func (o *Operation) ID() string { return o.spec.ID() }

// HTTPMethod is POST, PUT, PATCH or DELETE.
func (o *Operation) HTTPMethod() string { return o.spec.Method }

// Path is the document's.
func (o *Operation) Path() string { return o.spec.Path }

// Route is POST /path.
func (o *Operation) Route() string { return o.spec.Route() }

// Title names the operation in comments.
func (o *Operation) Title() string {
	if o.spec.OperationID == "" {
		return o.Route()
	}
	return o.spec.OperationID + " (" + o.Route() + ")"
}

// RequestObject is the type that oapi-codegen gives a request.
func (o *Operation) RequestObject() string { return o.method.Request }

// Response is the type of the handler's answer.
func (o *Operation) Response() string { return o.method.Response }

// Visit is the method that writes an answer.
func (o *Operation) Visit() string { return o.method.Visit }

// Optional reports whether a request may come without a key.
func (o *Operation) Optional() bool { return !o.spec.Policy.Required }

// KeyTypeDoc ends the comment of the key's type.
func (o *Operation) KeyTypeDoc() string {
	if o.spec.Kind != spec.Served {
		return "The sender makes it. Keys of other operations are other types."
	}
	if o.NewKey == "" {
		return fmt.Sprintf("It has at most %d bytes, too few to be unique by chance: take it from what is to happen once. Keys of other operations are other types.", o.KeyMaxLength())
	}
	return "Keys of other operations are other types."
}

// KeyDoc is the comment of the key in a request.
func (o *Operation) KeyDoc() string {
	doc := "IdempotencyKey names what is to happen once"
	if o.Optional() {
		doc += "; it is zero in a request without a key, which runs unprotected"
	}
	if o.KeyInBody() && o.method.Call != nil {
		doc += ". A client writes it into the body as " + o.KeyName() + ", where the input leaves it out"
	}
	return doc + "."
}

// KeyPlace is the field of the runtime's rule that says where the key is, and
// KeyName its value.
func (o *Operation) KeyPlace() string {
	if o.KeyInBody() {
		return "Body"
	}
	return "Header"
}

// KeyName is the name of the key's header, or a JSON Pointer to its member.
func (o *Operation) KeyName() string { return o.spec.Policy.Key.Name }

// KeyInBody reports whether the key is a member of the body.
func (o *Operation) KeyInBody() bool { return o.spec.Policy.Key.InBody }

// KeyFormat is the runtime's constant for the format.
func (o *Operation) KeyFormat() string {
	switch o.spec.Policy.Key.Format {
	case spec.FormatUUID:
		return "KeyUUID"
	case spec.FormatUUIDv7:
		return "KeyUUIDv7"
	default:
		return "KeyOpaque"
	}
}

// KeyMaxLength is in bytes.
func (o *Operation) KeyMaxLength() int { return o.spec.Policy.Key.MaxLength }

// Retention is an expression.
func (o *Operation) Retention() string { return duration(o.spec.Policy.Retention) }

// WaitUpTo is an expression, or "" where duplicates do not wait.
func (o *Operation) WaitUpTo() string {
	if o.spec.Policy.WaitUpTo == 0 {
		return ""
	}
	return duration(o.spec.Policy.WaitUpTo)
}

// Lease is an expression, or "" where the handler runs in a transaction.
func (o *Operation) Lease() string {
	if o.spec.Policy.Lease == 0 {
		return ""
	}
	return duration(o.spec.Policy.Lease)
}

// Given names what the handler runs with.
func (o *Operation) Given() string {
	if o.Lease() != "" {
		return "lease"
	}
	return "tx"
}

// GivenType is the type of Given, where tx is that of a transaction.
func (o *Operation) GivenType(tx string) string {
	if o.Lease() != "" {
		return "*idempotency.Lease"
	}
	return tx
}

// Fingerprint is nil where it is canonical.
func (o *Operation) Fingerprint() *spec.Fingerprint {
	f := o.spec.Policy.Fingerprint
	if !f.Raw && len(f.Exclude) == 0 && len(f.Include) == 0 {
		return nil
	}
	return &f
}

// Release lists expressions for the answers that free the key.
func (o *Operation) Release() []string {
	var all []string
	for _, r := range o.spec.Policy.Release {
		if r < 0 {
			all = append(all, fmt.Sprintf("idempotency.StatusClass(%d)", -r))
		} else {
			all = append(all, strconv.Itoa(r))
		}
	}
	return all
}

// Headers are the declared header parameters without the key.
func (o *Operation) Headers() []string {
	return o.parameters("header", o.spec.Policy.Key.IsHeader)
}

// Cookies are the declared cookie parameters.
func (o *Operation) Cookies() []string {
	return o.parameters("cookie", func(string) bool { return false })
}

// HasParameters reports whether there are header or cookie parameters.
func (o *Operation) HasParameters() bool { return len(o.Headers())+len(o.Cookies()) > 0 }

func (o *Operation) parameters(in string, leaveOut func(string) bool) []string {
	var found []string
	for _, p := range o.spec.Parameters {
		if p.In == in && !leaveOut(p.Name) && !slices.Contains(found, p.Name) {
			found = append(found, p.Name)
		}
	}
	return found
}

// Streams reports whether the handler reads a body as a stream.
func (o *Operation) Streams() bool { return o.BodyField != "" }

// Multipart reports whether a multipart body is among the streams.
func (o *Operation) Multipart() bool { return o.MultipartMethod != "" }

// duration writes d as an expression.
func duration(d time.Duration) string {
	for _, u := range []struct {
		unit time.Duration
		name string
	}{
		{time.Hour, "time.Hour"},
		{time.Minute, "time.Minute"},
		{time.Second, "time.Second"},
		{time.Millisecond, "time.Millisecond"},
		{time.Microsecond, "time.Microsecond"},
	} {
		if d%u.unit == 0 {
			return fmt.Sprintf("%d * %s", d/u.unit, u.name)
		}
	}
	return fmt.Sprintf("%d * time.Nanosecond", int64(d))
}
