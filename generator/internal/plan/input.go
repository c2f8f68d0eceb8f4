package plan

import (
	"go/types"
	"slices"
	"strings"

	"github.com/idemgen/idemgen/generator/internal/gosource"
)

// fill decides what of an operation depends on the generated types.
func (o *Operation) fill(imports *imports) {
	taken := map[string]bool{"s": true, "c": true, "w": true, "r": true, "http": true, o.OperationVar: true}
	for _, name := range types.Universe.Names() {
		taken[name] = true
	}
	if o.plain {
		o.takePlainNames(taken, imports)
	}
	for _, f := range o.method.Parameters {
		name := f.Name
		for taken[name] || name == "" || name == "_" {
			name += "_"
		}
		taken[name] = true
		o.Parameters = append(o.Parameters, Parameter{Name: name, Type: f.Type.Format(imports.name)})
	}
	o.fillInput(imports)
	if o.plain {
		o.fillPlain(imports)
	}
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
	switch {
	case !o.hasServer:
		return o.clientObject()
	case o.plain:
		return o.plainObject()
	}
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
			field.Type, field.From, field.Pointer = elem.Format(imports.name), "", "request."+f.Name
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
		media := InputField{
			Doc:  o.ContentTypeField + " is the body's media type with its parameters.",
			Name: o.ContentTypeField, Type: "string", From: o.ContentTypeField + ": call.ContentType()",
		}
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
		if o.method.Call != nil {
			body.Doc += " " + o.BodyField + " is read by a client for each attempt: a *bytes.Reader, *strings.Reader, *os.File or another io.ReaderAt that is an io.Seeker."
			if len(object.decoded) > 0 {
				media.Doc += " A client sends it with " + o.BodyField + " and not with the other bodies, which have one of their own."
			}
		}
		o.InputFields = append(o.InputFields, body, media)
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
