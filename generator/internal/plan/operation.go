package plan

import (
	"fmt"
	"mime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/idemgen/idemgen/generator/internal/gosource"
	"github.com/idemgen/idemgen/generator/internal/spec"
)

// Operation is the model of a marked operation.
type Operation struct {
	names
	spec   *spec.Operation
	method *gosource.Operation

	// InputFields are the fields of the input type.
	InputFields []InputField
	// Parameters are those of the ServerInterface method after the writer and
	// the request, under names that collide with nothing.
	Parameters []Parameter
	Bodies     []Body
	// BodyField and ContentTypeField hold a body that is a stream; "" where
	// there is none.
	BodyField, ContentTypeField string
	// MultipartMethod is the input's method that reads such a body by parts.
	MultipartMethod string
	// StreamCondition is true in Go for a request whose body is a stream; ""
	// where all are.
	StreamCondition string
}

// InputField is a field of an operation's input.
type InputField struct {
	Doc  string
	Name string
	Type string
	From string // the element that sets it in a composite literal, or ""
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
func (o *Operation) Route() string { return o.spec.Method + " " + o.spec.Path }

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

// KeyDoc is the comment of the key in a request.
func (o *Operation) KeyDoc() string {
	if o.Optional() {
		return "IdempotencyKey names what is to happen once; it is zero in a request without a key, which runs unprotected."
	}
	return "IdempotencyKey names what is to happen once."
}

// KeyPlace is the field of KeyRule that says where the key is.
func (o *Operation) KeyPlace() string {
	if o.spec.Policy.Key.In == spec.KeyInBody {
		return "Pointer"
	}
	return "Header"
}

// KeyName is the header's name or the JSON Pointer.
func (o *Operation) KeyName() string { return o.spec.Policy.Key.Name }

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
	key := o.spec.Policy.Key
	return o.parameters("header", func(name string) bool {
		return key.In == spec.KeyInHeader && strings.EqualFold(name, key.Name)
	})
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

// fill decides what of an operation depends on the generated types.
func (p *planner) fill(o *Operation, imports *imports) {
	taken := map[string]bool{"s": true, "w": true, "r": true, "http": true, o.OperationVar: true}
	for _, f := range o.method.Parameters {
		name := f.Name
		for taken[name] || name == "" || name == "_" {
			name += "_"
		}
		taken[name] = true
		o.Parameters = append(o.Parameters, Parameter{Name: name, Type: f.Type.Format(imports.name)})
	}
	o.fillInput(imports)
	o.fillBodies()
}

// requestObject sorts the fields of a request object.
type requestObject struct {
	fields   []gosource.Field // path parameters and Params
	decoded  []gosource.Field // bodies that the server decodes
	streams  []gosource.Field // bodies that it hands on as readers
	hasMedia bool             // it says which media type came
}

func (o *Operation) requestObject() requestObject {
	var r requestObject
	for _, f := range o.method.Fields {
		switch {
		case f.Tagged || f.Name == "Params":
			r.fields = append(r.fields, f)
		case f.Name == "ContentType":
			r.hasMedia = true
		case isReader(f.Type):
			r.streams = append(r.streams, f)
		default:
			r.decoded = append(r.decoded, f)
		}
	}
	return r
}

func isReader(t gosource.Type) bool { return t.Is("io", "Reader") || isMultipart(t) }

func isMultipart(t gosource.Type) bool { return t.Is("mime/multipart", "*Reader") }

func (o *Operation) fillInput(imports *imports) {
	object := o.requestObject()
	members := make(map[string]bool) // fields and methods of the input type
	add := func(f InputField) {
		members[f.Name] = true
		o.InputFields = append(o.InputFields, f)
	}
	free := func(name, other string) string {
		if members[name] {
			name = other
		}
		for members[name] {
			name += "_"
		}
		members[name] = true
		return name
	}

	for _, f := range object.fields {
		add(InputField{Name: f.Name, Type: f.Type.Format(imports.name), From: f.Name + ": request." + f.Name})
	}
	for _, f := range object.decoded {
		field := InputField{Name: f.Name, Type: f.Type.Format(imports.name), From: f.Name + ": request." + f.Name}
		elem, pointer := f.Type.Elem()
		switch {
		case pointer && len(object.decoded)+len(object.streams) == 1 && o.spec.Body != nil && o.spec.Body.Required:
			field.Type, field.From = elem.Format(imports.name), f.Name+": *request."+f.Name
		case pointer && len(object.decoded)+len(object.streams) == 1:
			field.Doc = f.Name + " is nil in a request without a body."
		case pointer:
			field.Doc = otherMediaType(f.Name)
		}
		add(field)
	}
	switch {
	case len(object.streams) > 0:
		o.BodyField, o.ContentTypeField = free("Body", "RawBody"), free("ContentType", "BodyContentType")
		body := InputField{Name: o.BodyField, Type: "io.Reader"}
		if len(object.decoded) == 0 {
			body.From = o.BodyField + ": call.Body()"
		} else {
			body.Doc = otherMediaType(o.BodyField)
			var conditions []string
			for _, f := range object.streams {
				conditions = append(conditions, "request."+f.Name+" != nil")
			}
			o.StreamCondition = strings.Join(conditions, " || ")
		}
		o.InputFields = append(o.InputFields, body, InputField{
			Doc:  o.ContentTypeField + " is the body's media type with its parameters.",
			Name: o.ContentTypeField, Type: "string", From: o.ContentTypeField + ": call.ContentType()",
		})
		if slices.ContainsFunc(object.streams, func(f gosource.Field) bool { return isMultipart(f.Type) }) {
			o.MultipartMethod = free("MultipartReader", "BodyMultipartReader")
		}
	case object.hasMedia:
		add(InputField{Name: "ContentType", Type: "string", From: "ContentType: request.ContentType"})
	}
}

func otherMediaType(field string) string {
	return field + " is nil when the body is of another media type."
}

// fillBodies lists the declared media types, without parameters, each once.
func (o *Operation) fillBodies() {
	if o.spec.Body == nil {
		return
	}
	object := o.requestObject()
	for _, m := range o.spec.Body.MediaTypes {
		b := Body{MediaType: essence(m.Name), Kind: "BodyRaw"}
		switch {
		case isJSON(b.MediaType) && len(object.decoded) > 0:
			b.Kind = "BodyJSON"
		case strings.HasPrefix(b.MediaType, "multipart/"):
			b.Kind = "BodyMultipart"
		}
		if !slices.ContainsFunc(o.Bodies, func(seen Body) bool { return seen.MediaType == b.MediaType }) {
			o.Bodies = append(o.Bodies, b)
		}
	}
}

// essence is a media type without its parameters, in lower case (RFC 9110
// section 8.3.1).
func essence(name string) string {
	if t, _, err := mime.ParseMediaType(name); err == nil {
		return t
	}
	t, _, _ := strings.Cut(name, ";")
	return strings.ToLower(strings.TrimSpace(t))
}

// isJSON reports whether oapi-codegen decodes the media type as JSON.
func isJSON(mediaType string) bool {
	return mediaType == "application/json" || strings.HasSuffix(mediaType, "+json")
}
