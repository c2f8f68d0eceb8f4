package plan

import (
	"mime"
	"slices"
	"strings"
)

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
