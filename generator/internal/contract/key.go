package contract

import (
	"fmt"
	"slices"
	"strings"

	"github.com/idemgen/idemgen/generator/internal/spec"
	"github.com/idemgen/idemgen/generator/internal/tree"
)

// samples are the members of a parameter and of its schema that tools send as
// if they were keys.
var samples = []string{"default", "example", "examples"}

// declaredKey makes the declaration of the key's header say what the server
// does: whether it is needed, which keys are valid, and no sample of one. A
// declaration that others share stays as it is; the operation gets its own.
func (w *writer) declaredKey(item, node tree.Value, target []string, op *spec.Operation) {
	declared, at, own := w.declarationOfKey(item, node, target, op.Policy)
	param, problem := w.doc.Resolve(declared)
	schema, schemaProblem := w.doc.Resolve(param.Get("schema"))
	if problem != nil || schemaProblem != nil {
		return // reported when the document was loaded
	}
	says := map[string]any{}
	if op.Policy.Required && !op.Policy.Key.Declared.Required {
		says["required"] = true
	}
	if bound := tighter(schema, op.Policy.Key); len(bound) > 0 {
		says["schema"] = bound
	}
	plain, plainSchema := param.Without(samples...), schema.Without(samples...)
	if len(says) == 0 && plain.Equal(param) && plainSchema.Equal(schema) {
		return
	}
	if own && !declared.Get("$ref").Exists() {
		for _, name := range samples {
			if param.Get(name).Exists() {
				w.remove(at + "." + name)
			}
		}
		if !plainSchema.Equal(schema) {
			w.remove(at + ".schema")
			w.update(at, map[string]any{"schema": plainSchema})
		}
	} else {
		if !w.standsAlone(plain.Without("schema"), plainSchema) {
			w.errorf(declared.Pos(), "contract", "the key's header of %s is declared in another file, with a $ref in it, and a contract changes one file alone; declare it in %s, or do without a contract",
				op.Route(), w.root.File().Name)
			return
		}
		if own {
			w.inline(at, declared, plain.Without("schema"))
		} else {
			w.update(path(target...), map[string]any{"parameters": []tree.Value{plain.Without("schema")}})
		}
		w.update(at, map[string]any{"schema": plainSchema})
	}
	if len(says) > 0 {
		w.update(at, says)
	}
}

// declaredMember makes the schema of the body say of the key's member what the
// server does, where the operation itself has the whole way to it. Schemas that
// others share stay as they are.
func (w *writer) declaredMember(node tree.Value, target []string, p *spec.Policy) {
	for _, c := range node.Get("requestBody", "content").Fields() {
		schema, at := c.Value.Get("schema"), slices.Concat(target, []string{"requestBody", "content", c.Name, "schema"})
		var changes []action
		for _, name := range p.Key.Path() {
			if p.Required && !slices.ContainsFunc(schema.Get("required").Items(), func(v tree.Value) bool { return v.Text() == name }) {
				changes = append(changes, action{Target: path(at...), Update: map[string][]string{"required": {name}}})
			}
			schema, at = schema.Get("properties", name), append(at, "properties", name)
		}
		if !schema.Exists() {
			continue
		}
		w.actions = append(w.actions, changes...)
		if schema.Get("$ref").Exists() {
			continue
		}
		for _, name := range samples {
			if schema.Get(name).Exists() {
				w.remove(path(append(at, name)...))
			}
		}
		if bound := tighter(schema, p.Key); len(bound) > 0 {
			w.update(path(at...), bound)
		}
	}
}

// declarationOfKey returns the declaration of the key's header, and where the
// operation has it, or where it gets it if it is not its own.
func (w *writer) declarationOfKey(item, node tree.Value, target []string, p *spec.Policy) (declared tree.Value, at string, own bool) {
	isKey := func(v tree.Value) bool {
		param, _ := w.doc.Resolve(v)
		name, _ := param.Get("name").Str()
		in, _ := param.Get("in").Str()
		return in == "header" && strings.EqualFold(name, p.Key.Name)
	}
	all := node.Get("parameters").Items()
	i := slices.IndexFunc(all, isKey)
	if own = i >= 0; own {
		declared = all[i]
	} else {
		i = len(all)
		shared := item.Get("parameters").Items()
		declared = shared[slices.IndexFunc(shared, isKey)]
	}
	return declared, fmt.Sprintf("%s[%d]", path(slices.Concat(target, []string{"parameters"})...), i), own
}

// tighter returns what the schema of a key lacks for the keys that
// are valid.
func tighter(schema tree.Value, key spec.Key) map[string]any {
	bound := map[string]any{}
	if key.Format != spec.FormatOpaque {
		if schema.Get("format").Text() != "uuid" {
			bound["format"] = "uuid"
		}
		return bound
	}
	if most, ok := schema.Get("maxLength").Int(); key.MaxLength < spec.MaxKeyLength && (!ok || key.MaxLength < most) {
		bound["maxLength"] = key.MaxLength
	}
	return bound
}

// standsAlone reports whether values mean the same in the document, where no
// $ref leads from another file.
func (w *writer) standsAlone(values ...tree.Value) bool {
	for _, v := range values {
		for inner := range v.All() {
			if v.File() != w.root.File() && inner.Get("$ref").Exists() {
				return false
			}
		}
	}
	return true
}
