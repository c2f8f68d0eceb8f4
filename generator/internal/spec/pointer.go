package spec

import (
	"strconv"
	"strings"

	"github.com/idemgen/idemgen/generator/internal/diag"
	"github.com/idemgen/idemgen/generator/internal/tree"
)

// checkPointer checks that a JSON Pointer names something in one of the JSON
// bodies that the operation declares.
func (l *loader) checkPointer(e *entry, pointer string, pos diag.Pos) {
	body, ok := l.resolved(e.node.Get("requestBody"))
	if !ok {
		return
	}
	tokens := strings.Split(pointer[1:], "/")
	for i, token := range tokens {
		tokens[i] = pointerUnescaper.Replace(token)
	}
	s := schemaSearch{loader: l, seen: map[visit]bool{}}
	declared := false
	for _, c := range body.Get("content").Fields() {
		if !IsJSON(c.Name) {
			continue
		}
		declared = true
		schema := c.Value.Get("schema")
		if !schema.Exists() || s.find(schema, tokens) {
			return
		}
	}
	if !declared {
		l.errorf(pos, "fingerprint-place", "%s names a member of a JSON body, but %s declares none", tree.Quote(pointer), e.Route())
		return
	}
	hint := "name a property of its schema"
	if near := diag.Nearest(s.missing, s.names); near != "" {
		hint = "did you mean " + tree.Quote(near) + "?"
	}
	l.errorf(pos, "fingerprint-place", "%s names nothing in the JSON body of %s; %s", tree.Quote(pointer), e.Route(), hint)
}

// schemaSearch walks schemas along a pointer. It errs on the side of finding:
// a schema that allows members it does not name may have any.
type schemaSearch struct {
	loader  *loader
	seen    map[visit]bool
	missing string   // the token where the search ended
	names   []string // the properties that were there instead
}

type visit struct {
	schema tree.Value
	depth  int
}

func (s *schemaSearch) find(schema tree.Value, tokens []string) bool {
	if len(tokens) == 0 {
		return true
	}
	schema, ok := s.loader.resolved(schema)
	if !ok {
		return true // the dangling $ref is reported
	}
	at := visit{schema, len(tokens)}
	if s.seen[at] {
		return false
	}
	s.seen[at] = true
	if allowsAny(schema) {
		return true
	}
	token := tokens[0]
	properties := schema.Get("properties")
	if property := properties.Get(token); property.Exists() {
		return s.find(property, tokens[1:])
	}
	if items := schema.Get("items"); items.Exists() {
		if _, err := strconv.ParseUint(token, 10, 32); err == nil && s.find(items, tokens[1:]) {
			return true
		}
	}
	for _, f := range properties.Fields() {
		s.names = append(s.names, f.Name)
	}
	s.missing = token
	for _, word := range []string{"allOf", "oneOf", "anyOf"} {
		for _, part := range schema.Get(word).Items() {
			if s.find(part, tokens) {
				return true
			}
		}
	}
	return false
}

// allowsAny reports whether a schema takes members that it does not name and
// gives no list of those it expects.
func allowsAny(schema tree.Value) bool {
	if allowed, ok := schema.Bool(); ok {
		return allowed
	}
	for _, word := range []string{"patternProperties", "unevaluatedProperties", "additionalProperties"} {
		if v := schema.Get(word); v.Exists() {
			if allowed, ok := v.Bool(); !ok || allowed {
				return true
			}
		}
	}
	for _, word := range []string{"properties", "items", "prefixItems", "allOf", "oneOf", "anyOf", "additionalProperties", "enum", "const"} {
		if schema.Get(word).Exists() {
			return false
		}
	}
	kind := schema.Get("type")
	kinds := []tree.Value{kind}
	if kind.IsList() {
		kinds = kind.Items()
	}
	for _, v := range kinds {
		if t := v.Text(); t == "" || t == "object" || t == "array" {
			return true
		}
	}
	return false
}
