package spec

import (
	"strings"

	"github.com/idemgen/idemgen/generator/internal/diag"
	"github.com/idemgen/idemgen/generator/internal/tree"
)

// The places of a key.
const (
	inHeader = "header"
	inBody   = "body"
)

// decideBodyKey checks that every body of the operation has a string where the
// key is, and adopts what is declared for it where that is tighter.
func (l *loader) decideBodyKey(e *entry, d *marker) {
	path, problem := keyPath(d.keyName.value)
	if problem != "" {
		l.errorf(d.keyName.pos, "wrong-value", "key.name %s is no member of a body: %s", tree.Quote(d.keyName.value), problem)
		return
	}
	field := e.node.Field("requestBody")
	body, ok := l.resolved(field.Value)
	if !ok {
		return
	}
	content := body.Get("content").Fields()
	if len(content) == 0 {
		l.errorf(d.keyName.pos, "key-body", "%s %s has no body to hold the key %s; declare a requestBody, or use a header", e.Method, e.Path, tree.Quote(d.keyName.value))
		return
	}
	required := body.Get("required")
	if on, _ := required.Bool(); !on && d.required.value {
		at := field.Key.Pos()
		if required.Exists() {
			at = required.Pos()
		}
		l.errorf(at, "key-body", "%s %s requires the key %s in a body that may be absent; write required: true beside its content, or required: false in the marker at %s",
			e.Method, e.Path, tree.Quote(d.keyName.value), e.marker.pos)
	}
	for _, c := range content {
		if why := holdsNoKey(c.Name, path); why != "" {
			l.errorf(c.Key.Pos(), "key-body", "%s, so this body cannot hold the key %s of %s %s; remove the media type, or use a header",
				why, tree.Quote(d.keyName.value), e.Method, e.Path)
			continue
		}
		if schema := c.Value.Get("schema"); schema.Exists() {
			l.decideMember(e, d, schema, path)
		}
		if Essence(c.Name) == FormType {
			l.checkQuery(e, path[0])
		}
	}
}

// checkQuery refuses a query parameter that decoders of forms take for the key.
func (l *loader) checkQuery(e *entry, name string) {
	for _, p := range e.declared {
		if p.In == "query" && p.Name == name {
			l.errorf(p.Pos, "key-body", "the key of %s %s has the same name, and net/http finds values of a form in the query too; rename this parameter",
				e.Method, e.Path)
		}
	}
}

// keyPath returns the names in the JSON Pointer of a key, or what is wrong with
// it.
func keyPath(pointer string) (path []string, problem string) {
	if problem := pointerProblem(pointer); problem != "" {
		return nil, problem
	}
	path = strings.Split(pointer[1:], "/")
	for i, name := range path {
		switch {
		case name == "":
			return nil, "one of its names is empty"
		case name == "-" || strings.Trim(name, "0123456789") == "":
			return nil, "an element of an array has no key of its own; a request has one key, beside the array"
		}
		path[i] = pointerUnescaper.Replace(name)
	}
	return path, ""
}

// holdsNoKey says why no body of a media type holds a key at path, or "".
func holdsNoKey(mediaType string, path []string) string {
	switch essence := Essence(mediaType); {
	case isStream(mediaType):
		return tree.Quote(mediaType) + " is a sequence of values"
	case IsJSON(mediaType), essence == FormType && len(path) == 1:
		return ""
	case essence == FormType:
		return "a form has no members within members"
	case strings.HasPrefix(essence, "multipart/"):
		return "no key is read from a part of a multipart body"
	default:
		return tree.Quote(mediaType) + " is not JSON"
	}
}

// decideMember checks what the schema of one body declares at path.
func (l *loader) decideMember(e *entry, d *marker, schema tree.Value, path []string) {
	s := memberSearch{loader: l, known: map[visit]bool{}, where: schema}
	found := s.find(schema, path)
	name := tree.Quote(d.keyName.value)
	switch {
	case s.array.Exists():
		l.errorf(s.array.Pos(), "key-body", "the key %s of %s %s leads through an array here; a request has one key, beside the array", name, e.Method, e.Path)
	case !found:
		hint := "declare it as a property of type string"
		if near := diag.Nearest(s.missing, s.names); near != "" {
			hint = "did you mean " + tree.Quote(near) + "?"
		}
		l.errorf(d.keyName.pos, "key-body", "the schema at %s, of the body of %s %s, has no property %s for the key; %s", s.where.Pos(), e.Method, e.Path, name, hint)
	}
	if s.required.Exists() && !d.required.value {
		l.errorf(s.required.Pos(), "key-body", "the key's member is required here, and required: false at %s lets requests do without it; make the two agree", d.required.pos)
	}
	m := keyDeclaration{what: "member", name: d.keyName.value, source: FromSchema, refuse: func(pos diag.Pos, format string, args ...any) {
		l.errorf(pos, "key-body", format, args...)
	}}
	for _, leaf := range s.found {
		l.adopt(leaf, m, d)
	}
}

// memberSearch walks the schemas of a body along the path of its key. Every
// alternative must declare the member, or take members that it does not name.
type memberSearch struct {
	loader  *loader
	known   map[visit]bool // what has been searched; false within a circle
	found   []tree.Value   // schemas of the key
	array   tree.Value     // where the path leads through one
	where   tree.Value     // the schema where the search ended
	missing string         // the name that it does not have
	// required is the name of the key's member in a list of required ones.
	required tree.Value
	names    []string // those that it has
}

func (s *memberSearch) find(schema tree.Value, path []string) bool {
	if len(path) == 0 {
		s.loader.checkGiven(schema)
	}
	schema, ok := s.loader.resolved(schema)
	if !ok {
		return true // the dangling $ref is reported
	}
	at := visit{schema, len(path)}
	if known, ok := s.known[at]; ok {
		return known
	}
	s.known[at] = false
	s.known[at] = s.declares(schema, path)
	return s.known[at]
}

func (s *memberSearch) declares(schema tree.Value, path []string) bool {
	if len(path) == 0 {
		s.found = append(s.found, schema)
		for _, word := range []string{"allOf", "oneOf", "anyOf"} {
			for _, part := range schema.Get(word).Items() {
				s.find(part, path)
			}
		}
		return true
	}
	if items := schema.Get("items"); items.Exists() || schema.Get("type").Text() == "array" {
		s.array = schema
		return false
	}
	for _, name := range schema.Get("required").Items() {
		if len(path) == 1 && name.Text() == path[0] {
			s.required = name
		}
	}
	properties, others := schema.Get("properties"), schema.Get("additionalProperties")
	for _, f := range properties.Fields() {
		if f.Name != path[0] && strings.EqualFold(f.Name, path[0]) {
			s.loader.errorf(f.Key.Pos(), "key-body", "Go's JSON decoder takes %s for %s, where the key is, so no request may have both; rename this property", tree.Quote(f.Name), tree.Quote(path[0]))
		}
	}
	if property := properties.Get(path[0]); property.Exists() {
		return s.find(property, path[1:])
	}
	declared := false
	for _, part := range schema.Get("allOf").Items() {
		declared = s.find(part, path) || declared
	}
	for _, word := range []string{"oneOf", "anyOf"} {
		all := len(schema.Get(word).Items()) > 0
		for _, part := range schema.Get(word).Items() {
			if part.Get("type").Text() != "null" {
				all = s.find(part, path) && all
			}
		}
		declared = declared || all
	}
	switch {
	case declared:
		return true
	case len(others.Fields()) > 0:
		return s.find(others, path[1:])
	case allowsAny(schema):
		return true
	}
	s.where, s.missing = schema, path[0]
	for _, f := range properties.Fields() {
		s.names = append(s.names, f.Name)
	}
	return false
}

// checkGiven refuses a schema of a key that clients do not send, or that stands
// in for a missing one. It may stand beside a $ref.
func (l *loader) checkGiven(schema tree.Value) {
	if readOnly := schema.Get("readOnly"); readOnly.Exists() {
		if on, _ := readOnly.Bool(); on {
			l.errorf(readOnly.Pos(), "key-body", "the key's member is declared with readOnly, so clients do not send it; remove readOnly, or use a header")
		}
	}
	if given := schema.Get("default"); given.Exists() {
		l.errorf(given.Pos(), "key-body", "the key's member is declared with a default, which all requests without a key would share; remove the default")
	}
}
