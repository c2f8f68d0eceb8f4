package spec

import (
	"mime"
	"strings"

	"github.com/idemgen/idemgen/generator/internal/tree"
)

// details reads what the policy and the generated code need of a marked
// operation, and refuses what cannot be replayed.
func (l *loader) details(e *entry) {
	e.declared = l.parameters(e)
	for _, p := range e.declared {
		e.Parameters = append(e.Parameters, p.Parameter)
	}
	if body := e.node.Get("requestBody"); body.Exists() {
		e.Body = l.body(body)
	}
	responses := e.node.Get("responses")
	for _, f := range responses.Fields() {
		if strings.HasPrefix(f.Name, "x-") {
			continue
		}
		if resolved, ok := l.resolved(f.Value); ok {
			r := Response{Status: f.Name, Pos: f.Key.Pos(), MediaTypes: mediaTypes(resolved)}
			e.Responses = append(e.Responses, r)
		}
	}
	for _, f := range Successes(responses) {
		resolved, problem := l.refs.resolve(f.Value)
		if problem != nil {
			continue // reported above
		}
		for _, c := range resolved.Get("content").Fields() {
			if isStream(c.Name) || c.Value.Get("itemSchema").Exists() {
				l.errorf(c.Key.Pos(), "marker-stream",
					"%s is marked idempotent, but its %s answer streams (%s) and cannot be stored and replayed; remove the marker or the media type",
					e.Route(), f.Name, tree.Quote(c.Name))
			}
		}
	}
}

// Successes returns the members of an operation's responses that are for a 2xx
// status. Where there is none, default stands for it.
func Successes(responses tree.Value) []tree.Field {
	var all, fallback []tree.Field
	for _, f := range responses.Fields() {
		switch {
		case strings.HasPrefix(f.Name, "2"):
			all = append(all, f)
		case f.Name == "default":
			fallback = append(fallback, f)
		}
	}
	if len(all) == 0 {
		return fallback
	}
	return all
}

// resolved follows a $ref and reports one that leads nowhere.
func (l *loader) resolved(v tree.Value) (tree.Value, bool) {
	resolved, problem := l.refs.resolve(v)
	if problem != nil {
		l.report(*problem)
		return v, false
	}
	return resolved, true
}

// declared is a parameter with the value that declares it.
type declared struct {
	Parameter
	node tree.Value
}

// parameters returns the operation's parameters after its path item's; the
// operation's own win (OpenAPI 3.1 section 4.8.10.1).
func (l *loader) parameters(e *entry) []declared {
	var params []declared
	for _, list := range []tree.Value{e.item.Get("parameters"), e.node.Get("parameters")} {
	next:
		for _, item := range list.Items() {
			node, ok := l.resolved(item)
			if !ok {
				continue
			}
			p := declared{node: node}
			p.Name, _ = node.Get("name").Str()
			p.In, _ = node.Get("in").Str()
			p.Required, _ = node.Get("required").Bool()
			p.Pos = node.Pos()
			if name := node.Get("name"); name.Exists() {
				p.Pos = name.Pos()
			}
			for i, other := range params {
				if other.In == p.In && (other.Name == p.Name || p.In == "header" && strings.EqualFold(other.Name, p.Name)) {
					params[i] = p
					continue next
				}
			}
			params = append(params, p)
		}
	}
	return params
}

func (l *loader) body(v tree.Value) *Body {
	v, ok := l.resolved(v)
	if !ok {
		return nil
	}
	body := &Body{Pos: v.Pos(), MediaTypes: mediaTypes(v)}
	body.Required, _ = v.Get("required").Bool()
	return body
}

func mediaTypes(v tree.Value) []MediaType {
	var types []MediaType
	for _, f := range v.Get("content").Fields() {
		types = append(types, MediaType{Name: f.Name, Pos: f.Key.Pos()})
	}
	return types
}

// Essence is a media type in lower case without its parameters (RFC 9110
// section 8.3.1).
func Essence(mediaType string) string {
	if t, _, err := mime.ParseMediaType(mediaType); err == nil {
		return t
	}
	t, _, _ := strings.Cut(mediaType, ";")
	return strings.ToLower(strings.TrimSpace(t))
}

// FormType is the media type of forms (URL Standard section 5).
const FormType = "application/x-www-form-urlencoded"

// IsJSON reports whether oapi-codegen decodes bodies of the type as JSON.
func IsJSON(mediaType string) bool {
	t := Essence(mediaType)
	return t == "application/json" || strings.HasSuffix(t, "+json")
}

// isStream reports whether the type is a sequence that has no known end.
func isStream(mediaType string) bool {
	switch t := Essence(mediaType); t {
	case "text/event-stream", "application/jsonl", "application/jsonlines", "application/x-jsonlines",
		"application/ndjson", "application/x-ndjson", "application/json-seq", "application/stream+json",
		"application/x-json-stream", "multipart/x-mixed-replace":
		return true
	default:
		return strings.HasSuffix(t, "+json-seq")
	}
}
