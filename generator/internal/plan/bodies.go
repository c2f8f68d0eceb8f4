package plan

import (
	"slices"
	"strings"

	"github.com/idemgen/idemgen/generator/internal/spec"
)

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
