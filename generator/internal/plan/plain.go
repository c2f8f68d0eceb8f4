package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/idemgen/idemgen/generator/internal/gosource"
	"github.com/idemgen/idemgen/generator/internal/spec"
)

// Decode reads a body of a plain server.
type Decode struct {
	Condition string // in Go; "" where there is no other body
	Call      string // of the runtime's function, an error in Go
}

// binding is the package whose BindForm a strict server would call.
var binding = gosource.Import{Name: "runtime", Path: "github.com/oapi-codegen/runtime"}

// plainBody is a body that a plain server decodes.
type plainBody struct {
	gosource.Body
	field     gosource.Field
	mediaType string // as the document spells it
}

// DecodesSome reports whether a body can be of a media type that no Decode is
// for.
func (o *Operation) DecodesSome() bool {
	return len(o.Decodes) > 0 && o.Decodes[len(o.Decodes)-1].Condition != ""
}

// checkPlainBodies reports bodies that cannot be decoded.
func (p *planner) checkPlainBodies(op *Operation) {
	if !op.plain || op.spec.Body == nil {
		return
	}
	remedy := "leave one of them"
	if op.spec.Kind == spec.Served {
		remedy += ", or set strict-server: true in the oapi-codegen config"
	}
	var seen []string
	for _, m := range op.spec.Body.MediaTypes {
		essence := spec.Essence(m.Name)
		body, found := op.bodyOf(m.Name)
		switch {
		case slices.Contains(seen, essence):
			p.errorf(m.Pos, "plain-body", "%s has two bodies of the media type %s, and only the parameters of the media type tell them apart; %s", op.ID(), essence, remedy)
		case !isEncoded(m.Name):
		case !found:
			declare := ""
			if name, ok := gosource.BodyType(op.method.Stem(), essence); ok {
				declare = ", or declare a type " + name + " beside the server"
			}
			p.errorf(m.Pos, "plain-body", "no Go type for the body of %s of the media type %s; generate models: true into package %s or one of this module that it imports as \".\"%s", op.ID(), m.Name, p.pkg.Name, declare)
		case m.Name == "text/plain" && body.Underlying != "string":
			p.errorf(m.Pos, "plain-body", "the text/plain body of %s is no string in Go (%s), so it cannot be read as text; declare its schema as type: string, or give it another media type", op.ID(), body.Type)
		}
		seen = append(seen, essence)
	}
}

// bodyOf returns the type of the body of a media type.
func (o *Operation) bodyOf(mediaType string) (gosource.Body, bool) {
	for _, b := range o.method.Bodies {
		if b.MediaType == mediaType {
			return b, true
		}
	}
	for _, b := range o.method.Bodies {
		if spec.Essence(b.MediaType) == spec.Essence(mediaType) {
			return b, true
		}
	}
	return gosource.Body{}, false
}

// plainFields are the parameters of the method as a request object would have
// them: those of the path and then, if there are others, Params.
func (o *Operation) plainFields() []gosource.Field {
	inPath := 0
	if o.spec.Kind == spec.Served {
		inPath = len(pathParameter.FindAllString(o.spec.Path, -1))
	}
	var all []gosource.Field
	for i, f := range o.method.Parameters {
		if i < inPath {
			all = append(all, gosource.Field{Name: exported(f.Name), Type: f.Type, Tagged: true})
		} else {
			all = append(all, gosource.Field{Name: "Params", Type: f.Type})
		}
	}
	return all
}

// plainBodies are the bodies that are decoded, under the names that a request
// object would have for them.
func (o *Operation) plainBodies() []plainBody {
	if o.spec.Body == nil {
		return nil
	}
	taken := make(map[string]bool)
	for _, f := range o.plainFields() {
		taken[f.Name] = true
	}
	var all []plainBody
	for _, m := range o.spec.Body.MediaTypes {
		body, found := o.bodyOf(m.Name)
		if !found || !isEncoded(m.Name) {
			continue
		}
		name := "Body"
		if len(o.spec.Body.MediaTypes) > 1 {
			name = body.Tag + "Body"
		}
		for taken[name] {
			name += "_"
		}
		taken[name] = true
		all = append(all, plainBody{body, gosource.Field{Name: name, Type: body.Type.Pointer()}, m.Name})
	}
	return all
}

// plainObject is what a strict server's request object would be.
func (o *Operation) plainObject() requestObject {
	r := requestObject{fields: o.plainFields()}
	for _, b := range o.plainBodies() {
		r.decoded = append(r.decoded, b.field)
	}
	for _, m := range o.streamedTypes() {
		stream := gosource.Field{Name: "Body", Type: gosource.Reader()}
		if strings.HasPrefix(spec.Essence(m), "multipart/") {
			stream.Type = gosource.MultipartReader()
		}
		r.streams = append(r.streams, stream)
	}
	return r
}

// streamedTypes are the media types that are not decoded.
func (o *Operation) streamedTypes() []string {
	if o.spec.Body == nil {
		return nil
	}
	var all []string
	for _, m := range o.spec.Body.MediaTypes {
		if !isEncoded(m.Name) {
			all = append(all, m.Name)
		}
	}
	return all
}

// takePlainNames takes the names that generated methods use beside their
// parameters.
func (o *Operation) takePlainNames(taken map[string]bool, imports *imports) {
	for _, name := range []string{"call", "idempotency", "in", o.Given()} {
		taken[name] = true
	}
	for _, f := range o.method.First {
		for _, imp := range f.Type.Imports() {
			taken[imports.name(imp)] = true
		}
	}
	if o.bindsForm() {
		taken[imports.name(binding)] = true
	}
}

func (o *Operation) bindsForm() bool {
	return slices.ContainsFunc(o.plainBodies(), func(b plainBody) bool { return b.mediaType == spec.FormType })
}

// fillPlain decides how the input is made.
func (o *Operation) fillPlain(imports *imports) {
	for i := range o.InputFields {
		f := &o.InputFields[i]
		f.From, f.Pointer = "", ""
		if i < len(o.Parameters) {
			f.From = f.Name + ": " + o.Parameters[i].Name
		}
	}
	bodies, streams := o.plainBodies(), o.streamedTypes()
	for _, b := range bodies {
		decoder := "idempotency.DecodeJSON"
		required := o.BodyRequired()
		switch b.mediaType {
		case spec.FormType:
			decoder = "idempotency.FormDecoder(" + imports.name(binding) + ".BindForm)"
			required = true // a strict server's is never nil
		case "text/plain":
			decoder = "idempotency.DecodeText"
		}
		d := Decode{Call: fmt.Sprintf("%s(call, &in.%s)", decoder, b.field.Name)}
		if o.isPointer(b.field.Name) {
			d.Call = fmt.Sprintf("idempotency.DecodePointer(call, &in.%s, %t, %s)", b.field.Name, required, decoder)
		}
		if len(bodies)+len(streams) > 1 {
			d.Condition = "call.Is(" + strconv.Quote(spec.Essence(b.mediaType)) + ")"
		}
		o.Decodes = append(o.Decodes, d)
	}
	if len(streams) > 0 && len(bodies) > 0 {
		quoted := make([]string, len(streams))
		for i, m := range streams {
			quoted[i] = strconv.Quote(spec.Essence(m))
		}
		o.StreamCondition = "call.Is(" + strings.Join(quoted, ", ") + ")"
	}
}

// fillSignatures writes the signatures of the methods of a plain server.
func fillSignatures(methods []Method, operations []gosource.Operation, imports *imports) {
	for i := range methods {
		m, op := &methods[i], operations[i]
		m.First = list(op.First, imports)
		m.Parameters = list(slices.Concat(op.First, op.Parameters), imports)
		m.Results = list(op.Results, imports)
	}
}
