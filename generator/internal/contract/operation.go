package contract

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/idemgen/idemgen/generator/internal/spec"
	"github.com/idemgen/idemgen/generator/internal/tree"
)

// operation adds what one marked operation needs.
func (w *writer) operation(op *spec.Operation) {
	target := op.Location
	var item tree.Value // what holds the operation
	node := w.root
	for _, name := range target {
		item, node = node, node.Get(name)
		if ref := node.Get("$ref"); ref.Exists() {
			w.errorf(ref.Pos(), "contract", "%s lies behind this $ref, and a contract changes one file alone; write the operation in %s, or do without a contract",
				op.Route(), w.root.File().Name)
			return
		}
	}
	change := operation{Description: w.description(node, target, op.Policy)}
	switch key := op.Policy.Key; {
	case key.InBody:
		w.declaredMember(node, target, op.Policy)
	case key.Declared == nil:
		change.Parameters = []parameter{keyParameter(op.Policy)}
	default:
		w.declaredKey(item, node, target, op)
	}
	change.Responses = w.responses(node, target, op)
	w.update(path(target...), change)
}

// description returns the operation's description with a paragraph on keys.
func (w *writer) description(node tree.Value, target []string, p *spec.Policy) string {
	said := node.Get("description")
	text, ok := said.Str()
	switch {
	case said.IsNull():
		w.remove(path(slices.Concat(target, []string{"description"})...)) // tools give null's type to what is merged into it
	case said.Exists() && !ok:
		w.errorf(said.Pos(), "wrong-type", "a description must be a string, not %s", said.Kind())
	}
	needs := "needs"
	if !p.Required {
		needs = "may have"
	}
	place := "the header " + p.Key.Name
	if p.Key.InBody {
		place = "the member " + p.Key.Name + " of its body"
	}
	added := fmt.Sprintf("A request %s a key in %s: a new one for each new request, and the same one for all retries of a request. "+
		"A retry gets the answer that was given first, with the header %s, for %s.", needs, place, replayedHeader, words(p.Retention))
	if !p.Required {
		added += " A request without a key is executed each time."
	}
	if text = strings.TrimRight(text, "\n"); text == "" {
		return added
	}
	return text + "\n\n" + added
}

// words is a duration as people write it.
func words(d time.Duration) string {
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}} {
		switch n := d / unit.length; {
		case d%unit.length != 0:
		case n == 1:
			return "1 " + unit.name
		default:
			return fmt.Sprintf("%d %ss", n, unit.name)
		}
	}
	return d.String()
}

// responses returns what the operation's answers need: those that refuse a
// request, unless they are declared, and headers.
func (w *writer) responses(node tree.Value, target []string, op *spec.Operation) map[string]response {
	declared := w.object(node, "responses")
	changes := map[string]response{}
	for _, r := range refusals {
		own := declared.Get(r.status)
		switch {
		case r.when != nil && !r.when(op.Policy):
		case !own.Exists() && !declared.Get("4XX").Exists():
			changes[r.status] = r.response(w.problem)
		case own.Exists() && !own.Get("$ref").Exists():
			w.addHeaders(own, r.status, r.headers, changes)
		}
	}
	for _, f := range spec.Successes(declared) {
		answer, problem := w.doc.Resolve(f.Value)
		if problem != nil {
			continue // reported when the document was loaded
		}
		w.addHeaders(answer, f.Name, map[string]header{replayedHeader: replayed}, changes)
		if ref := f.Value.Get("$ref"); ref.Exists() && len(changes[f.Name].Headers) > 0 {
			if answer.File() != w.root.File() {
				w.errorf(ref.Pos(), "contract", "the answer %s of %s lies in another file, %s, and a contract changes one file alone; write the answer in %s, or do without a contract",
					f.Name, op.Route(), answer.File().Name, w.root.File().Name)
				continue
			}
			// Operations without keys may share the answer, so this one gets its own.
			w.inline(path(slices.Concat(target, []string{"responses", f.Name})...), f.Value, answer)
		}
	}
	return changes
}

// inline puts what a $ref stands for in its place.
func (w *writer) inline(target string, ref, value tree.Value) {
	w.remove(target + "['$ref']")
	w.update(target, value)
	// From 3.1 on, a description beside a $ref takes the place of the other
	// (OpenAPI 3.1 section 4.8.23); before, it means nothing.
	if own := ref.Get("description"); own.Exists() && !strings.HasPrefix(w.root.Get("openapi").Text(), "3.0") {
		w.update(target, map[string]tree.Value{"description": own})
	}
}

// addHeaders adds headers to the change of an answer, but those that it has.
func (w *writer) addHeaders(answer tree.Value, status string, headers map[string]header, changes map[string]response) {
	if !answer.IsMap() {
		w.errorf(answer.Pos(), "wrong-type", "the answer %s must be an object, not %s", status, answer.Kind())
		return
	}
	added := map[string]header{}
	declared := w.object(answer, "headers").Fields()
	for name, h := range headers {
		if !slices.ContainsFunc(declared, func(f tree.Field) bool { return strings.EqualFold(f.Name, name) }) {
			added[name] = h
		}
	}
	if len(added) > 0 {
		changes[status] = response{Headers: added}
	}
}
