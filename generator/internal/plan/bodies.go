package plan

import (
	"slices"
	"strings"

	"github.com/idemgen/idemgen/generator/internal/diag"
	"github.com/idemgen/idemgen/generator/internal/spec"
)

// checkBodies warns of bodies whose type is declared as another one and has not
// the methods that encode and decode it: oapi-codegen's code, and with it ours,
// loses what they hold.
func (p *planner) checkBodies(op *Operation) {
	p.checkKeyBodies(op)
	for _, f := range op.requestObject().decoded {
		elem, _ := f.Type.Elem()
		name := elem.String()
		of := p.pkg.Defined[name]
		if p.scope.has(of+".MarshalJSON") && !p.scope.has(name+".MarshalJSON") {
			p.findings = append(p.findings, diag.Warningf(op.spec.Pos, "body-lost",
				"oapi-codegen's code neither sends nor reads all of the body: its type %s lacks the methods of %s, which encode it; move the schema of the body to components/schemas and refer to it", name, of))
		}
	}
}

// checkKeyBodies refuses bodies with the key that the server does not decode:
// the key would be looked for in vain.
func (p *planner) checkKeyBodies(op *Operation) {
	if op.KeyInBody() && (op.Streams() || len(op.requestObject().decoded) == 0) {
		p.errorf(op.spec.Body.Pos, "key-body", "oapi-codegen's code hands on a body of %s as bytes, in which no key is looked for; use a header", op.ID())
	}
}

// fillBodies lists the declared media types, without parameters, each once.
func (o *Operation) fillBodies() {
	if o.spec.Body == nil {
		return
	}
	object := o.requestObject()
	for _, m := range o.spec.Body.MediaTypes {
		b := Body{MediaType: spec.Essence(m.Name), Kind: "BodyRaw"}
		switch {
		case spec.IsJSON(b.MediaType) && len(object.decoded) > 0:
			b.Kind = "BodyJSON"
		case strings.HasPrefix(b.MediaType, "multipart/"):
			b.Kind = "BodyMultipart"
		}
		if !slices.ContainsFunc(o.Bodies, func(seen Body) bool { return seen.MediaType == b.MediaType }) {
			o.Bodies = append(o.Bodies, b)
		}
	}
}
