package spec

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/idemgen/idemgen/generator/internal/diag"
	"github.com/idemgen/idemgen/generator/internal/tree"
)

// builtIn holds the values where nobody wrote any.
var builtIn = marker{
	source:      FromBuiltIn,
	required:    setting[bool]{value: true, text: "true", source: FromBuiltIn},
	keyIn:       setting[string]{value: inHeader, text: inHeader, source: FromBuiltIn},
	keyName:     setting[string]{value: "Idempotency-Key", text: "Idempotency-Key", source: FromBuiltIn},
	keyFormat:   setting[KeyFormat]{value: FormatOpaque, text: "opaque", source: FromBuiltIn},
	keyMax:      setting[int]{value: MaxKeyLength, text: fmt.Sprint(MaxKeyLength), source: FromBuiltIn},
	retention:   setting[time.Duration]{value: 24 * time.Hour, text: "24h", source: FromBuiltIn},
	fingerprint: setting[fingerprint]{text: "canonical", source: FromBuiltIn},
	waitUpTo:    setting[time.Duration]{text: "reject", source: FromBuiltIn},
	lease:       setting[time.Duration]{text: "transaction", source: FromBuiltIn},
	release: setting[[]int]{
		value:  []int{401, 403, 408, 425, 429, -5},
		text:   "[401, 403, 408, 425, 429, 5XX]",
		source: FromBuiltIn,
	},
}

// pick returns the first setting that somebody wrote.
func pick[T any](settings ...setting[T]) setting[T] {
	for _, s := range settings {
		if s.source != "" {
			return s
		}
	}
	return setting[T]{}
}

// policy decides every value of a marked operation and checks it against what
// the operation declares.
func (l *loader) policy(e *entry, defaults *marker) *Policy {
	m := e.marker
	d := marker{
		required:    pick(m.required, defaults.required, builtIn.required),
		keyIn:       pick(m.keyIn, defaults.keyIn, builtIn.keyIn),
		keyFormat:   pick(m.keyFormat, defaults.keyFormat, builtIn.keyFormat),
		keyMax:      pick(m.keyMax, defaults.keyMax, builtIn.keyMax),
		retention:   pick(m.retention, defaults.retention, builtIn.retention),
		fingerprint: pick(m.fingerprint, defaults.fingerprint, builtIn.fingerprint),
		waitUpTo:    pick(m.waitUpTo, defaults.waitUpTo, builtIn.waitUpTo),
		lease:       pick(m.lease, defaults.lease, builtIn.lease),
		release:     pick(m.release, defaults.release, builtIn.release),
		name:        m.name,
	}
	d.keyName = keyName(m, defaults, d.keyIn.value)
	p := &Policy{Pos: m.pos}
	p.Key.Declared = l.decideKey(e, &d)
	l.checkFingerprint(e, &d)

	p.Required = d.required.value
	p.Key.InBody, p.Key.Name = d.keyIn.value == inBody, d.keyName.value
	p.Key.Format, p.Key.MaxLength = d.keyFormat.value, d.keyMax.value
	p.Retention = d.retention.value
	p.Fingerprint = Fingerprint{
		Raw:     d.fingerprint.value.raw,
		Exclude: texts(d.fingerprint.value.exclude),
		Include: texts(d.fingerprint.value.include),
	}
	p.WaitUpTo = d.waitUpTo.value
	p.Lease = d.lease.value
	p.Release = d.release.value
	p.TypeName = d.name.value
	p.Settings = d.settings(m.pos)
	return p
}

// keyName picks the name of a key that is in this place. A name for another
// place is none.
func keyName(m, defaults *marker, in string) setting[string] {
	names := []setting[string]{m.keyName}
	if pick(defaults.keyIn, builtIn.keyIn).value == in {
		names = append(names, defaults.keyName)
	}
	if in == inHeader {
		names = append(names, builtIn.keyName)
	}
	return pick(names...)
}

func (m *marker) settings(pos diag.Pos) []Setting {
	all := []Setting{
		shown("required", m.required),
	}
	if m.keyIn.source != FromBuiltIn {
		all = append(all, shown("key.in", m.keyIn))
	}
	all = append(all,
		shown("key.name", m.keyName),
		shown("key.format", m.keyFormat),
		shown("key.maxLength", m.keyMax),
		shown("retention", m.retention),
		shown("fingerprint", m.fingerprint),
		shown("inFlight", m.waitUpTo),
		shown("mode", m.lease),
		shown("release", m.release),
	)
	if m.name.source != "" {
		all = append(all, shown("name", m.name))
	}
	for i := range all {
		if all[i].Source == FromBuiltIn {
			all[i].Pos = pos
		}
	}
	return all
}

func shown[T any](name string, s setting[T]) Setting {
	return Setting{Name: name, Value: s.text, Source: s.source, Pos: s.pos}
}

func texts(values []tree.Value) []string {
	var all []string
	for _, v := range values {
		all = append(all, v.Text())
	}
	return all
}

// takenHeaders are those that servers keep to themselves, or that say who the
// caller is and what the body is.
var takenHeaders = []string{
	"Host", "Content-Length", "Transfer-Encoding", "Trailer", "Connection", "Upgrade", "TE",
	"Authorization", "Proxy-Authorization", "Cookie", "Content-Type", "Content-Encoding", "Accept",
}

// decideKey checks where the key is, and adopts what the document declares for
// it where that is tighter. It returns the declaration of its header, or nil.
func (l *loader) decideKey(e *entry, d *marker) *Parameter {
	var header *Parameter
	switch {
	case d.keyName.source == "":
		l.errorf(d.keyIn.pos, "wrong-value", "key.in body needs the name of a member, such as name: /idempotency_key")
	case d.keyIn.value == inBody:
		l.decideBodyKey(e, d)
	default:
		header = l.decideHeader(e, d)
	}
	if d.keyFormat.value != FormatOpaque && d.keyMax.value < UUIDLength {
		l.errorf(d.keyMax.pos, "wrong-value", "no UUID fits into a maxLength of %d; it has %d characters", d.keyMax.value, UUIDLength)
	}
	return header
}

// decideHeader checks the name of the key's header, and what is declared for it.
func (l *loader) decideHeader(e *entry, d *marker) *Parameter {
	if !isToken(d.keyName.value) {
		hint := "a header's name is made of letters, digits and !#$%&'*+-.^_`|~"
		if strings.HasPrefix(d.keyName.value, "/") {
			hint = "for a member of the body write in: body beside it"
		}
		l.errorf(d.keyName.pos, "wrong-value", "key.name %s is no header name; %s", tree.Quote(d.keyName.value), hint)
		return nil
	}
	if slices.ContainsFunc(takenHeaders, func(h string) bool { return strings.EqualFold(h, d.keyName.value) }) {
		l.errorf(d.keyName.pos, "wrong-value", "key.name %s has another meaning in HTTP; use a header of your own, such as Idempotency-Key", tree.Quote(d.keyName.value))
		return nil
	}
	for i := range e.declared {
		p := &e.declared[i]
		if p.In == "header" && strings.EqualFold(p.Name, d.keyName.value) {
			l.checkRequired(p, d)
			l.adoptHeader(p, d)
			return &p.Parameter
		}
	}
	return nil
}

// checkRequired compares what the key's declared header and the marker say of
// requests without a key.
func (l *loader) checkRequired(p *declared, d *marker) {
	required := p.node.Get("required")
	switch {
	case !p.Required:
	case !d.required.value:
		l.errorf(required.Pos(), "key-header", "the key's header %s is declared with required: true, and required: false at %s lets requests do without it; make the two agree",
			tree.Quote(p.Name), d.required.pos)
	default:
		l.warnf(required.Pos(), "key-header", "oapi-codegen's code answers a request without the header %s itself, with status 400 in plain text and past the observer; "+
			"declare it with required: false, and the generated code requires it all the same", tree.Quote(p.Name))
	}
}

// boundFormats are the formats of strings for which oapi-codegen has Go types
// that are no strings.
var boundFormats = []string{"binary", "byte", "date", "date-time", "json", "uuid"}

// keyDeclaration is what the document declares a key to be.
type keyDeclaration struct {
	what   string // header or member
	name   string
	source Source
	// refuse reports what a key cannot be.
	refuse func(pos diag.Pos, format string, args ...any)
}

// adoptHeader takes over what the document declares for the key's header.
func (l *loader) adoptHeader(p *declared, d *marker) {
	schema := p.node.Get("schema")
	if !schema.Exists() {
		for _, c := range p.node.Get("content").Fields() {
			l.errorf(c.Key.Pos(), "key-header", "the key's header %s is declared as %s; declare it with a schema of type string", tree.Quote(p.Name), tree.Quote(c.Name))
		}
		return
	}
	schema, ok := l.resolved(schema)
	if !ok {
		return
	}
	l.adopt(schema, keyDeclaration{what: "header", name: p.Name, source: FromParameter, refuse: func(pos diag.Pos, format string, args ...any) {
		l.errorf(pos, "key-header", format, args...)
	}}, d)
}

// adopt takes over format and maxLength of the schema that a key is declared
// with, and refuses types that it cannot have.
func (l *loader) adopt(schema tree.Value, key keyDeclaration, d *marker) {
	if !l.isStringSchema(schema, key) {
		return
	}
	format := schema.Get("format")
	if format.Text() == "uuid" && d.keyFormat.value == FormatOpaque {
		d.keyFormat = setting[KeyFormat]{value: FormatUUID, text: "uuid", source: key.source, pos: format.Pos()}
	}
	l.checkBound(schema, format, key)
	if most := schema.Get("maxLength"); most.Exists() {
		n, ok := most.Int()
		switch {
		case !ok || n < 1:
			key.refuse(most.Pos(), "no key is as short as the maxLength of the key's %s %s", key.what, tree.Quote(key.name))
		case n < d.keyMax.value:
			d.keyMax = setting[int]{value: n, text: fmt.Sprint(n), source: key.source, pos: most.Pos()}
		}
	}
	if pattern := schema.Get("pattern"); pattern.Exists() {
		l.unchecked(pattern, "pattern", key)
	}
	if least := schema.Get("minLength"); least.Exists() && least.Text() != "0" && least.Text() != "1" {
		l.unchecked(least, "minLength", key)
	}
}

// checkBound looks for a Go type that is no string. That of a header is read
// before the key is, that of a member after it, where no UUID is in the way.
func (l *loader) checkBound(schema, format tree.Value, key keyDeclaration) {
	bound := schema.Get("x-go-type")
	if !bound.Exists() && slices.Contains(boundFormats, format.Text()) {
		bound = format
	}
	switch {
	case !bound.Exists():
	case key.source == FromParameter:
		l.warnf(bound.Pos(), "key-header", "oapi-codegen's code reads the header %s as %s and answers what is none itself, with status 400 in plain text and past the observer; "+
			"declare it as a plain string, and write format and maxLength under key: in the marker", tree.Quote(key.name), tree.Quote(bound.Text()))
	case bound.Is(format) && format.Text() != "uuid":
		key.refuse(bound.Pos(), "the key's member %s is declared with format %s, which most keys do not have; declare it as a plain string", tree.Quote(key.name), format.Text())
	}
}

// unchecked warns of a limit that no generated code enforces.
func (l *loader) unchecked(limit tree.Value, name string, key keyDeclaration) {
	l.warnf(limit.Pos(), "key-unchecked", "this %s of the key's %s is not checked by the generated code; write key: {format: uuid} in the marker, or check it in a middleware", name, key.what)
}

// isStringSchema reports findings for a schema that does not take strings
// alone; null beside string is what optional headers write in OpenAPI 3.1.
func (l *loader) isStringSchema(schema tree.Value, key keyDeclaration) bool {
	kind := schema.Get("type")
	names := []tree.Value{kind}
	if kind.IsList() {
		names = kind.Items()
	}
	for _, v := range names {
		if v.Exists() && v.Text() != "string" && v.Text() != "null" {
			key.refuse(v.Pos(), "the key's %s %s is declared with type %s; a key is a string", key.what, tree.Quote(key.name), v.Text())
			return false
		}
	}
	return true
}

// checkFingerprint checks that what a fingerprint names is declared.
func (l *loader) checkFingerprint(e *entry, d *marker) {
	fp := d.fingerprint.value
	for _, list := range [][]tree.Value{fp.exclude, fp.include} {
		for _, place := range list {
			kind, name, _ := strings.Cut(place.Text(), ":")
			switch {
			case d.keyIn.value == inBody && holdsKey(place.Text(), d.keyName.value, len(fp.include) > 0),
				d.keyIn.value == inHeader && kind == "header" && strings.EqualFold(name, d.keyName.value):
				l.errorf(place.Pos(), "fingerprint-place", "%s holds the key, which is never part of the fingerprint", place.Text())
			case strings.HasPrefix(place.Text(), "/"):
				l.checkPointer(e, place.Text(), place.Pos())
			default:
				l.checkDeclared(e, place, kind, name)
			}
		}
	}
}

// holdsKey reports whether a pointer of a fingerprint names the member with the
// key, in any letter case, or includes it with others.
func holdsKey(pointer, key string, include bool) bool {
	around := len(key) > len(pointer) && key[len(pointer)] == '/' && strings.EqualFold(pointer, key[:len(pointer)])
	return strings.EqualFold(pointer, key) || include && around
}

func (l *loader) checkDeclared(e *entry, place tree.Value, in, name string) {
	var names []string
	for _, p := range e.declared {
		if p.In != in {
			continue
		}
		if p.Name == name || in == "header" && strings.EqualFold(p.Name, name) {
			return
		}
		names = append(names, p.Name)
	}
	hint := fmt.Sprintf("it declares no %s parameters", in)
	if len(names) > 0 {
		hint = fmt.Sprintf("declared are %s", strings.Join(quoteAll(names), ", "))
	}
	if in == "header" {
		hint += "; one that is not declared does not count, so leave it out"
	}
	if near := diag.Nearest(name, names); near != "" {
		hint = "did you mean " + tree.Quote(in+":"+near) + "?"
	}
	l.errorf(place.Pos(), "fingerprint-place", "%s declares no %s parameter %s; %s", e.Route(), in, tree.Quote(name), hint)
}

func quoteAll(names []string) []string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = tree.Quote(name)
	}
	return quoted
}
