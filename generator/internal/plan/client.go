package plan

import (
	"fmt"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/idemgen/idemgen/generator/internal/gosource"
	"github.com/idemgen/idemgen/generator/internal/spec"
)

// Client is the model of the client's code.
type Client struct {
	Type    string // name of the type that no user types
	Own     string // name of oapi-codegen's own type
	Methods []ClientMethod
}

// ClientMethod is a method of the client that users call.
type ClientMethod struct {
	Name                string
	Parameters, Results string
	Marked              *Operation // nil for methods that stay as oapi-codegen has them
}

// Doc is the comment of the method.
func (m ClientMethod) Doc() string {
	switch {
	case m.Marked == nil:
		return m.Name + " is the client's own: one attempt, and no key."
	case m.Marked.Optional():
		return m.Name + " sends " + m.Marked.Route() + ", and again under the same key where that can help. Without a key it is sent once."
	default:
		return m.Name + " sends " + m.Marked.Route() + ", and again under the same key where that can help."
	}
}

// Build is one way to make a request.
type Build struct {
	Condition string // in Go; "" where there is no other way
	Call      string // of the builder
}

// embedded is the type in the client's own that its unmarked methods come from.
const embedded = "ClientWithResponses"

// client decides what the client's code is, nil without a client.
func (p *planner) client(f *File, imports *imports) *Client {
	if p.pkg.Client == nil {
		return nil
	}
	c := &Client{Type: p.scope.free("idempotentClient"), Own: p.pkg.Client.Type}
	byResponse := make(map[string]*Operation)
	for _, op := range f.Operations {
		if op.method.Call == nil {
			p.errorf(op.method.Pos, "go-shape", "the client has no functions New%sRequest and Parse…Response for %s; generate client and server with one run of oapi-codegen v2.3 to v2.8", op.Method(), op.ID())
			continue
		}
		byResponse[op.Result()] = op
		op.fillBuilds(p)
		if op.Method() == embedded {
			p.errorf(op.method.Pos, "name-collision", "a client cannot have a marked operation called %s; give it another operationId, or another name with x-go-name", embedded)
		}
		if at, taken := p.scope.take(op.Result()+".Replayed", op.method.Pos); taken {
			p.errorf(at, "name-collision", "%s.Replayed is a method that idemgen generates; rename this declaration", op.Result())
		}
	}
	methods := make(map[string]*Operation) // by name; nil for the client's own
	for _, m := range p.pkg.Client.Methods {
		method := ClientMethod{Name: m.Name}
		if len(m.Results) > 0 {
			if elem, ok := m.Results[0].Type.Elem(); ok {
				method.Marked = byResponse[elem.String()]
			}
		}
		if method.Marked != nil {
			method.Name = method.Marked.Method()
		} else {
			method.Parameters, method.Results = list(m.Parameters, imports), list(m.Results, imports)
		}
		if other, taken := methods[method.Name]; taken {
			if other == nil || other != method.Marked { // else it is another body of the same operation
				p.errorf(p.pkg.Client.Pos, "name-collision", "the client has two methods called %s, a marked operation and one of its own; give the operation another operationId", method.Name)
			}
			continue
		}
		methods[method.Name] = method.Marked
		c.Methods = append(c.Methods, method)
	}
	return c
}

// list writes parameters or results.
func list(fields []gosource.Field, imports *imports) string {
	parts := make([]string, len(fields))
	for i, f := range fields {
		parts[i] = strings.TrimSpace(f.Name + " " + f.Type.Format(imports.name))
	}
	return strings.Join(parts, ", ")
}

// Parse is the function that reads the operation's answers in a client.
func (o *Operation) Parse() string { return o.method.Call.Parse }

// Result is the type of the operation's answers in a client.
func (o *Operation) Result() string { return o.method.Call.Response }

// clientObject is what a server's request object would be, from what the
// client's builders take.
func (o *Operation) clientObject() requestObject {
	var r requestObject
	call := o.method.Call
	for _, f := range call.Path {
		r.fields = append(r.fields, gosource.Field{Name: exported(f.Name), Type: f.Type, Tagged: true})
	}
	if !call.Params.IsZero() {
		r.fields = append(r.fields, gosource.Field{Name: "Params", Type: call.Params})
	}
	types := 0
	if o.spec.Body != nil {
		types = len(o.spec.Body.MediaTypes)
	}
	for _, e := range call.Encoders {
		name := "Body"
		if types > 1 {
			name = e.Tag + "Body"
		}
		r.decoded = append(r.decoded, gosource.Field{Name: name, Type: e.Body.Pointer()})
	}
	if call.HasBody && len(r.decoded) < types {
		r.streams = append(r.streams, gosource.Field{Name: "Body", Type: gosource.Reader()})
	}
	return r
}

// exported makes a field's name of a parameter's. oapi-codegen puts a p before
// names that are keywords.
func exported(name string) string {
	if rest, ok := strings.CutPrefix(name, "p"); ok && token.IsKeyword(strings.ToLower(rest)) && rest != strings.ToLower(rest) {
		name = rest
	}
	first, size := utf8.DecodeRuneInString(name)
	return string(unicode.ToUpper(first)) + name[size:]
}

// fillBuilds decides how a client makes requests from inputs.
func (o *Operation) fillBuilds(p *planner) {
	call := o.method.Call
	object := o.requestObject()
	arguments := []string{"c.client.Server"} // path parameters, and a pointer to Params
	for _, f := range object.fields {
		if f.Tagged {
			arguments = append(arguments, "in."+f.Name)
		} else {
			arguments = append(arguments, "&in."+f.Name)
		}
	}
	want := len(call.Path)
	if !call.Params.IsZero() {
		want++
	}
	if len(object.fields) != want || !call.HasBody && len(object.decoded)+len(object.streams) > 0 {
		p.errorf(o.method.Pos, "go-shape", "the client sends %s without all that the server reads, or with more; generate both with one run of oapi-codegen", o.ID())
		return
	}
	invoke := func(f string, more ...string) string {
		return f + "(" + strings.Join(append(slices.Clone(arguments), more...), ", ") + ")"
	}
	if !call.HasBody {
		o.Builds = []Build{{Call: invoke(call.Build)}}
		return
	}
	encoders := make(map[string]string) // by the type of the body
	for _, e := range call.Encoders {
		encoders[e.Body.String()] = e.Func
	}
	for _, f := range object.decoded {
		elem, pointer := f.Type.Elem()
		encoder := encoders[elem.String()]
		if !pointer || encoder == "" {
			p.errorf(o.method.Pos, "go-shape", "the client has no function New%sRequest… for a body of type %s; generate it with oapi-codegen v2.3 to v2.8", o.Method(), f.Type.String())
			return
		}
		if !o.isPointer(f.Name) { // the only body, and it is required
			o.Builds = []Build{{Call: invoke(encoder, "in."+f.Name)}}
			return
		}
		set := "in." + f.Name + " != nil"
		o.BodyConditions = append(o.BodyConditions, set)
		o.Builds = append(o.Builds, Build{Condition: set, Call: invoke(encoder, "*in."+f.Name)})
	}
	if o.Streams() {
		set := "in." + o.BodyField + " != nil"
		o.BodyConditions = append(o.BodyConditions, set)
		o.Builds = append(o.Builds, Build{Condition: set, Call: invoke(call.Build, o.streamMediaType(), o.RetryPackage+".Stream(in."+o.BodyField+")")})
	}
	if last := len(o.Builds) - 1; last >= 0 && o.BodyRequired() {
		o.Builds[last].Condition = "" // the input has a body, see ChecksBody
		return
	}
	o.Builds = append(o.Builds, Build{Call: invoke(call.Build, `""`, "nil")})
}

// isPointer reports whether a field of the input is nil without a body.
func (o *Operation) isPointer(name string) bool {
	return slices.ContainsFunc(o.InputFields, func(f InputField) bool {
		return f.Name == name && strings.HasPrefix(f.Type, "*")
	})
}

// BodyRequired reports whether a request must have a body.
func (o *Operation) BodyRequired() bool { return o.spec.Body != nil && o.spec.Body.Required }

// ChecksBody reports whether an input could hold no body, or several, where one
// is needed.
func (o *Operation) ChecksBody() bool {
	return len(o.BodyConditions) > 1 || len(o.BodyConditions) == 1 && o.BodyRequired()
}

// streamMediaType is the media type of a stream, as an expression: the
// document's stands in for one that the input leaves out, where there is one
// that can.
func (o *Operation) streamMediaType() string {
	field := "in." + o.ContentTypeField
	if name := o.defaultMediaType(); name != "" {
		return fmt.Sprintf("cmp.Or(%s, %s)", field, strconv.Quote(name))
	}
	return field
}

// defaultMediaType is the one that a body has if it is a stream; "" if that
// is not clear.
func (o *Operation) defaultMediaType() string {
	if o.spec.Body == nil {
		return ""
	}
	var names []string
	for _, m := range o.spec.Body.MediaTypes {
		if !isEncoded(m.Name) {
			names = append(names, m.Name)
		}
	}
	if len(names) != 1 || strings.Contains(names[0], "*") || strings.HasPrefix(spec.Essence(names[0]), "multipart/") {
		return ""
	}
	return names[0]
}

// isEncoded reports whether oapi-codegen's client encodes bodies of a media type,
// and its strict server decodes them.
func isEncoded(mediaType string) bool {
	return spec.IsJSON(mediaType) || mediaType == spec.FormType || mediaType == "text/plain"
}

// DefaultsMediaType reports whether the document's media type can stand in for
// one that an input leaves out.
func (o *Operation) DefaultsMediaType() bool { return o.Streams() && o.defaultMediaType() != "" }

// NeedsMediaType reports whether an input with a stream must have a media type.
func (o *Operation) NeedsMediaType() bool { return o.Streams() && o.defaultMediaType() == "" }
