// Package contract says in OpenAPI what clients of idempotent operations see:
// the header of the key, the answers that refuse a request, the headers of a
// replay, and how long an answer is kept. It says so once, as an OpenAPI
// Overlay; the contract is the document with that overlay applied.
package contract

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/idemgen/idemgen/generator/internal/diag"
	"github.com/idemgen/idemgen/generator/internal/spec"
	"github.com/idemgen/idemgen/generator/internal/tree"
)

// Document returns the document with what [Overlay] says. It changes doc's own
// file, which serves no more.
func Document(doc *spec.Document) (*tree.File, diag.List) {
	over, findings := Overlay(doc)
	if findings.HasErrors() {
		return nil, findings
	}
	if findings := doc.File().Apply(over, true); findings.HasErrors() {
		return nil, findings
	}
	return doc.File(), nil
}

// Overlay returns an OpenAPI Overlay for the document as it was loaded: with
// its own overlay, if there is one. Every target is a plain path.
func Overlay(doc *spec.Document) (*tree.File, diag.List) {
	w := writer{doc: doc, root: doc.File().Root()}
	w.checkDocument()
	w.problem = w.freeName("IdempotencyProblem")
	for i := range doc.Operations {
		if op := &doc.Operations[i]; op.Policy != nil {
			w.operation(op)
		}
	}
	w.schema()
	if w.findings.HasErrors() {
		return nil, w.findings.Sorted()
	}
	data, err := yaml.Marshal(overlay{
		Overlay: "1.0.0",
		Info:    info{Title: "Idempotency of " + doc.Name, Version: "1.0.0"},
		Actions: w.actions,
	})
	if err != nil {
		return nil, diag.List{diag.Errorf(doc.Pos, "contract", "the contract cannot be written: %s", diag.OneLine(err))}
	}
	return tree.Parse("contract.overlay.yaml", data)
}

// overlay is an OpenAPI Overlay 1.0.
type overlay struct {
	Overlay string
	Info    info
	Actions []action
}

type info struct{ Title, Version string }

// action changes what stands at one place: it merges Update into it, or takes
// it away.
type action struct {
	Target string
	Update any  `yaml:",omitempty"`
	Remove bool `yaml:",omitempty"`
}

// writer collects the actions for one document.
type writer struct {
	doc      *spec.Document
	root     tree.Value
	problem  string // the name of the schema of refusals
	actions  []action
	findings diag.List
}

func (w *writer) errorf(pos diag.Pos, code, format string, args ...any) {
	w.findings = append(w.findings, diag.Errorf(pos, code, format, args...))
}

func (w *writer) update(target string, update any) {
	w.actions = append(w.actions, action{Target: target, Update: update})
}

func (w *writer) remove(target string) {
	w.actions = append(w.actions, action{Target: target, Remove: true})
}

// checkDocument refuses a document that is a contract already.
func (w *writer) checkDocument() {
	file := w.root.File()
	mark := w.root.Field(jsonMark)
	if src, err := os.ReadFile(file.Path); mark.Value.Exists() || err == nil && Written(src) {
		pos := mark.Key.Pos()
		if !mark.Value.Exists() {
			pos = diag.Pos{File: file.Name}
		}
		w.errorf(pos, "contract", "this document is a contract that idemgen has written; name the one that it was made from")
	}
}

// object returns a member that must be an object if it is there and not null.
func (w *writer) object(in tree.Value, name string) tree.Value {
	v := in.Get(name)
	if v.Exists() && !v.IsNull() && !v.IsMap() {
		w.errorf(v.Pos(), "wrong-type", "%s must be an object, not %s", name, v.Kind())
	}
	if !v.IsMap() {
		return tree.Value{}
	}
	return v
}

// freeName returns a name that no component has, nor one that a generator
// could take for the same.
func (w *writer) freeName(name string) string {
	var taken []string
	for _, section := range w.root.Get("components").Fields() {
		for _, f := range section.Value.Fields() {
			taken = append(taken, spec.Folded(f.Name))
		}
	}
	free := name
	for n := 2; slices.Contains(taken, spec.Folded(free)); n++ {
		free = name + strconv.Itoa(n)
	}
	return free
}

// schema adds the schema of refusals.
func (w *writer) schema() {
	schemas := map[string]any{w.problem: problemSchema}
	components := w.object(w.root, "components")
	switch {
	case w.object(components, "schemas").Exists():
		w.update("$.components.schemas", schemas)
	case components.Exists():
		w.update("$.components", map[string]any{"schemas": schemas})
	default:
		w.update("$", map[string]any{"components": map[string]any{"schemas": schemas}})
	}
}

// path is a JSONPath of names from the root (RFC 9535 section 2.3.1).
func path(names ...string) string {
	quote := strings.NewReplacer(`\`, `\\`, `'`, `\'`)
	var b strings.Builder
	b.WriteByte('$')
	for _, name := range names {
		if isPlain(name) {
			b.WriteString("." + name)
		} else {
			b.WriteString("['" + quote.Replace(name) + "']")
		}
	}
	return b.String()
}

func isPlain(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool { return r < 'a' || r > 'z' })
}
