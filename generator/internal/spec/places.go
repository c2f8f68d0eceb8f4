package spec

import (
	"slices"
	"strconv"
	"strings"

	"github.com/idemgen/idemgen/generator/internal/diag"
	"github.com/idemgen/idemgen/generator/internal/tree"
)

// checkPlaces refuses markers that stand where they mark nothing, and
// extensions whose name is nearly the marker's.
func (l *loader) checkPlaces() {
	walkParts(l.root, nil, false, l.checkMembers)
	for _, v := range l.elsewhere {
		walkParts(v.Value, v.location, false, l.checkMembers)
		l.refuseDefaults(v.File().Root())
	}
}

// refuseDefaults refuses defaults in v, which is not the document's root.
func (l *loader) refuseDefaults(v tree.Value) {
	if f := v.Field(l.opts.Marker + "-defaults"); f.Value.Exists() {
		l.errorf(f.Key.Pos(), "marker-place", "%s belongs at the root of %s", f.Name, l.root.File().Name)
	}
}

// namedThings are members whose own members are named by the document's
// author, so that such a name is no extension.
var namedThings = []string{
	"properties", "patternProperties", "dependentSchemas", "dependentRequired", "$defs", "definitions",
	"headers", "encoding", "content", "links", "callbacks", "examples", "variables", "mapping", "scopes", responses,
}

// responses have statuses for names, and the name default.
const responses = "responses"

// dataMembers hold data, in which every name is allowed.
var dataMembers = []string{"example", "default", "enum", "const", "value", "security"}

// walkParts visits v and all parts that it holds, which are no data. The path
// leads there; named says that v's members are named by the author. Below a part
// for which visit returns false, nothing is visited.
func walkParts(v tree.Value, path []string, named bool, visit func(v tree.Value, path []string, named bool) bool) {
	if !visit(v, path, named) {
		return
	}
	for _, item := range v.Items() {
		walkParts(item, path, false, visit)
	}
	for _, f := range v.Fields() {
		isData := strings.HasPrefix(f.Name, "x-") || slices.Contains(dataMembers, f.Name) || f.Name == "examples" && f.Value.IsList()
		if isData && !named {
			continue
		}
		below := slices.Concat(path, []string{f.Name})
		inComponents := len(path) == 1 && path[0] == "components"
		walkParts(f.Value, below, !named && (inComponents || f.Value.IsMap() && slices.Contains(namedThings, f.Name)), visit)
	}
}

func (l *loader) checkMembers(v tree.Value, path []string, named bool) bool {
	inside, _ := inItem(path)
	ofOperation := len(inside) == 2 && inside[1] == responses
	if !named || ofOperation {
		for _, f := range v.Fields() {
			l.checkPlace(v, f, path)
		}
	}
	return true
}

func (l *loader) checkPlace(owner tree.Value, f tree.Field, path []string) {
	defaults := l.opts.Marker + "-defaults"
	switch f.Name {
	case l.opts.Marker:
		if !slices.Contains(l.effective, f.Value) {
			l.errorf(f.Key.Pos(), "marker-place", "%s marks nothing %s", f.Name, placeOf(owner, path, defaults))
		}
		return
	case defaults:
		if len(path) > 0 {
			l.refuseDefaults(owner)
		}
		return
	}
	if inside, ok := inItem(path); len(path) > 0 && (!ok || len(inside) > 1) {
		return // neither a path item nor an operation
	}
	if l.opts.Marker != DefaultMarker && (f.Name == DefaultMarker || f.Name == DefaultMarker+"-defaults") {
		return
	}
	for _, name := range []string{f.Name, "x-" + f.Name} {
		if near := diag.Nearest(name, []string{l.opts.Marker, defaults}); near != "" {
			l.errorf(f.Key.Pos(), "marker-misspelt", "did you mean %s? %s marks nothing", near, strconv.QuoteToASCII(f.Name))
			return
		}
	}
}

// inItem returns the part of a path that is inside of a path item, and whether
// the path leads to one or into one.
func inItem(path []string) (inside []string, ok bool) {
	switch {
	case len(path) < 2 || path[0] != "paths" && path[0] != "webhooks":
		return nil, false
	case path[0] == "paths" && len(path) >= 6 && path[3] == "callbacks":
		return path[6:], true
	default:
		return path[2:], true
	}
}

// placeOf says where a marker stands and where it should.
func placeOf(owner tree.Value, path []string, defaults string) string {
	const move = "; put it on an operation (beside its responses)"
	inside, inItem := inItem(path)
	switch {
	case owner.Get("$ref").Exists():
		return "beside a $ref, where readers drop it; put it on the operation itself"
	case len(path) == 0:
		return "at the document's root; for common settings write " + defaults
	case path[0] == "components":
		return "under components unless a path, a webhook or a callback refers to it" + move
	case len(path) == 1 && (path[0] == "paths" || path[0] == "webhooks"):
		return "on " + path[0] + move
	case !inItem:
		return "under " + path[0] + move
	case len(inside) > 1 && inside[1] == "callbacks" && path[0] == "paths" && len(path) < 6:
		return "on " + path[len(path)-1] + "; put it on the operation (post, put, ...) of the callback that it should mark"
	case len(inside) > 1 && inside[1] == "callbacks":
		return "under callbacks of a webhook or of another callback, for which oapi-codegen generates nothing; remove it"
	case len(inside) == 0:
		return "on a path item; put it on each operation (post, put, ...) that it should mark"
	case len(inside) == 1 && methods[inside[0]]:
		return "beside the $ref of its path item, where readers drop it; put it on the operation that the $ref leads to"
	case len(inside) == 1 && methods[strings.ToLower(inside[0])]:
		return "on " + inside[0] + ", which is no method; write " + strings.ToLower(inside[0])
	default:
		return "inside of " + path[len(path)-1] + move
	}
}
