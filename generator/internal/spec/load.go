package spec

import (
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/idemgen/idemgen/generator/internal/diag"
	"github.com/idemgen/idemgen/generator/internal/tree"
)

// DefaultMarker is the extension that marks an operation unless the config
// names another.
const DefaultMarker = "x-idempotent"

// Options say what to load.
type Options struct {
	File    string // of the OpenAPI document
	Overlay string // file of an OpenAPI Overlay to apply, or ""
	// Marker is the name of the extension that marks an operation. With
	// "-defaults" behind it, it names the one at the document's root.
	Marker string
	// Operations are markers for operations that the document does not mark,
	// by operationId or "POST /path". The zero Value is none.
	Operations tree.Value
}

// Load reads the document and decides the policy of every marked operation.
// The Document is nil if there is an error among the findings.
func Load(opts Options) (*Document, diag.List) {
	file, findings := tree.Read(opts.File)
	if findings.HasErrors() {
		return nil, findings
	}
	if findings := checkVersion(file.Root()); findings.HasErrors() {
		return nil, findings
	}
	if opts.Overlay != "" {
		if findings := file.Overlay(opts.Overlay, true); findings.HasErrors() {
			return nil, findings
		}
	}
	l := loader{opts: opts, root: file.Root(), refs: newResolver(file), shared: map[tree.Value]bool{}}
	doc := l.load()
	if l.findings.HasErrors() {
		return nil, l.findings.Sorted()
	}
	doc.Name = filepath.Base(file.Path)
	doc.Pos = diag.Pos{File: file.Name}
	return doc, l.findings.Sorted()
}

func checkVersion(root tree.Value) diag.List {
	if swagger := root.Field("swagger"); swagger.Value.Exists() {
		return diag.List{diag.Errorf(swagger.Key.Pos(), "spec-version",
			"Swagger 2.0 is not supported; convert the document to OpenAPI 3 and name the result in `spec`")}
	}
	version := root.Get("openapi")
	switch text := version.Text(); {
	case !version.Exists():
		return diag.List{diag.Errorf(root.Pos(), "spec-version",
			"is not an OpenAPI document: it has no `openapi` version at its top")}
	case text != "3.0" && text != "3.1" && !strings.HasPrefix(text, "3.0.") && !strings.HasPrefix(text, "3.1."):
		return diag.List{diag.Errorf(version.Pos(), "spec-version",
			"OpenAPI %q is not supported; use 3.0 or 3.1", text)}
	}
	return nil
}

// loader holds what the steps of one load share.
type loader struct {
	opts     Options
	root     tree.Value
	refs     *resolver
	findings diag.List
	// effective are the markers that were read where they count.
	effective []tree.Value
	// elsewhere are path items and callbacks of the document in other files.
	elsewhere []located
	// shared are the callbacks that were read.
	shared map[tree.Value]bool
}

func (l *loader) report(d diag.Diagnostic) { l.findings = append(l.findings, d) }

func (l *loader) errorf(pos diag.Pos, code, format string, args ...any) {
	l.report(diag.Errorf(pos, code, format, args...))
}

func (l *loader) warnf(pos diag.Pos, code, format string, args ...any) {
	l.report(diag.Warningf(pos, code, format, args...))
}

// entry is an operation on its way into the document.
type entry struct {
	Operation
	item     tree.Value // path item
	node     tree.Value // operation
	declared []declared // Parameters with what declares them
	marker   *marker    // nil for an unmarked operation
}

// idPos is where the operation gets its name.
func (e *entry) idPos() diag.Pos {
	if id := e.node.Get("operationId"); id.Exists() {
		return id.Pos()
	}
	return e.Pos
}

func (l *loader) load() *Document {
	entries := l.operations()
	defaults := l.defaults()
	l.markFromConfig(entries)
	l.checkPlaces()
	l.checkIDs(entries)
	doc := &Document{file: l.root.File(), refs: l.refs}
	for i := range entries {
		e := &entries[i]
		if e.marker != nil {
			l.details(e)
			e.Policy = l.policy(e, defaults)
		}
		doc.Operations = append(doc.Operations, e.Operation)
	}
	return doc
}

// methods are the operations that a path item may hold (OpenAPI 3.1 section
// 4.8.9.1), and whether running one twice can do harm.
var methods = map[string]bool{
	"get": false, "head": false, "options": false, "trace": false,
	"put": true, "post": true, "delete": true, "patch": true,
}

// operations collects all operations, with their markers: those under paths,
// under webhooks, and the callbacks of those under paths.
func (l *loader) operations() []entry {
	var entries []entry
	for _, path := range l.root.Get("paths").Fields() {
		ref, _ := path.Value.Get("$ref").Str()
		if strings.HasPrefix(path.Name, "x-") || strings.HasPrefix(ref, "#/paths/") {
			continue
		}
		entries = append(entries, l.item(path.Value, Operation{Path: path.Name, Location: []string{"paths", path.Name}})...)
	}
	served := entries
	for _, hook := range l.root.Get("webhooks").Fields() {
		entries = append(entries, l.item(hook.Value, Operation{Kind: Webhook, Path: Webhook.path(hook.Name), Location: []string{"webhooks", hook.Name}})...)
	}
	for i := range served {
		entries = append(entries, l.callbacks(&served[i])...)
	}
	return entries
}

// item collects the operations of a path item. What they have in common is in
// like.
func (l *loader) item(item tree.Value, like Operation) []entry {
	item, ok := l.behind(item, like.Location)
	if !ok {
		return nil
	}
	var entries []entry
	for _, f := range item.Fields() {
		if _, ok := methods[f.Name]; !ok {
			continue
		}
		e := entry{Operation: like, item: item, node: f.Value}
		e.Method, e.Pos = strings.ToUpper(f.Name), f.Key.Pos()
		e.Location = append(slices.Clone(like.Location), f.Name)
		e.OperationID, _ = f.Value.Get("operationId").Str()
		if ref := f.Value.Get("$ref"); ref.Exists() {
			l.checkOperationRef(f.Value, ref)
		}
		if m := f.Value.Field(l.opts.Marker); m.Value.Exists() {
			l.effective = append(l.effective, m.Value)
			e.marker = l.parseMarker(m, FromMarker)
		}
		if e.marker != nil && !methods[f.Name] {
			l.errorf(e.marker.pos, "marker-method",
				"%s cannot be idempotent by key: %s changes nothing; remove the marker", e.Route(), e.Method)
		}
		entries = append(entries, e)
	}
	return entries
}

// callbacks collects the operations of the callbacks of one under paths, but
// those that it shares with one before it.
func (l *loader) callbacks(served *entry) []entry {
	var entries []entry
	for _, named := range served.node.Get("callbacks").Fields() {
		at := append(slices.Clone(served.Location), "callbacks", named.Name)
		callback, ok := l.behind(named.Value, at)
		if !ok || l.shared[callback] {
			continue
		}
		l.shared[callback] = true
		for _, address := range callback.Fields() {
			if strings.HasPrefix(address.Name, "x-") {
				continue
			}
			entries = append(entries, l.item(address.Value, Operation{Kind: Callback, Path: Callback.path(named.Name), Location: append(slices.Clone(at), address.Name)})...)
		}
	}
	return entries
}

// behind returns v, or what its $ref leads to, and whether there is such a
// thing. What it finds in another file is looked at later, see checkPlaces.
func (l *loader) behind(v tree.Value, location []string) (tree.Value, bool) {
	if !v.Get("$ref").Exists() {
		return v, true
	}
	target, ok := l.resolved(v)
	if ok && target.File() != l.root.File() {
		l.elsewhere = append(l.elsewhere, located{target, location})
	}
	return target, ok
}

// located is a value and the names that lead to it from the document's root.
type located struct {
	tree.Value
	location []string
}

// checkOperationRef refuses a $ref in place of an operation if it leads to a
// marked one: only a path item can be one (OpenAPI 3.1 section 4.8.9.1), and
// readers take the operation for an empty one.
func (l *loader) checkOperationRef(operation, ref tree.Value) {
	target, problem := l.refs.resolve(operation)
	if problem == nil && target.Get(l.opts.Marker).Exists() {
		l.errorf(ref.Pos(), "marker-place", "%s at %s marks nothing: an operation cannot be a $ref; refer to the whole path item, or write the operation here",
			l.opts.Marker, target.Field(l.opts.Marker).Key.Pos())
	}
}

// markFromConfig adds the config's markers.
func (l *loader) markFromConfig(entries []entry) {
	byName := map[string][]*entry{}
	var names []string
	for i := range entries {
		e := &entries[i]
		for _, name := range []string{e.OperationID, e.Route()} {
			if name != "" {
				byName[name] = append(byName[name], e)
				names = append(names, name)
			}
		}
	}
	inConfig := map[*entry]diag.Pos{}
	for _, f := range l.opts.Operations.Fields() {
		found := byName[f.Name]
		if len(found) == 0 {
			hint := "write its operationId, METHOD /path or METHOD webhook NAME"
			if near := diag.Nearest(f.Name, names); near != "" {
				hint = "did you mean " + tree.Quote(near) + "?"
			}
			l.errorf(f.Key.Pos(), "config-operation", "no operation of %s is called %s; %s", l.root.File().Name, tree.Quote(f.Name), hint)
			continue
		}
		m := l.parseMarker(f, FromConfig)
		for _, e := range found {
			own := e.node.Field(l.opts.Marker)
			first, named := inConfig[e]
			inConfig[e] = f.Key.Pos()
			switch {
			case named:
				l.errorf(f.Key.Pos(), "marker-twice", "%s stands at %s already; keep one of the two", e.Route(), first)
			case own.Value.Exists():
				l.errorf(f.Key.Pos(), "marker-twice", "%s has a marker of its own at %s; keep one of the two", e.Route(), own.Key.Pos())
			case m != nil && !methods[strings.ToLower(e.Method)]:
				l.errorf(f.Key.Pos(), "marker-method",
					"%s cannot be idempotent by key: %s changes nothing; remove this line", e.Route(), e.Method)
			default:
				e.marker = m
			}
		}
	}
}

// checkIDs refuses marked operations that stored records could not tell apart.
func (l *loader) checkIDs(entries []entry) {
	first := map[string]*entry{}
	for i := range entries {
		e := &entries[i]
		if e.marker != nil && strings.ContainsFunc(e.ID(), unicode.IsControl) {
			l.errorf(e.idPos(), "operation-id", "the name %s of a marked operation holds a control character; give it another operationId", tree.Quote(e.ID()))
		}
		if id := e.node.Get("operationId"); e.marker != nil && id.Exists() && e.OperationID == "" {
			l.errorf(id.Pos(), "operation-id", "the operationId of a marked operation must be a string that is not empty")
		}
		other, ok := first[e.ID()]
		if !ok {
			first[e.ID()] = e
			continue
		}
		if e.marker != nil || other.marker != nil {
			l.errorf(e.idPos(), "operation-id", "the operationId %s is also that of %s at %s; one of the two is marked, so give each its own",
				tree.Quote(e.ID()), other.Route(), other.idPos())
		}
	}
}
