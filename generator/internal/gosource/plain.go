package gosource

import (
	"go/ast"
	"go/parser"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// Body is a type that oapi-codegen declares for a body of one media type.
type Body struct {
	MediaType string // as the document spells it
	Tag       string // names the body in Go: JSON, Formdata
	Type      Type
	// Underlying is what the type is declared as, as far as that is a name; ""
	// where it is something else, or not known.
	Underlying string
}

// plainServer reads the operations of a server that users implement themselves.
func (l *loader) plainServer(pkg *Package) {
	pkg.HasServer, pkg.Plain, pkg.Pos = true, true, l.pos(l.types[serverInterface].spec.Name)
	server := l.methods(serverInterface)
	known := l.framework(pkg, server)
	if known == nil {
		return
	}
	pkg.Framework, pkg.ResponseOwner, pkg.Contexts = known.name, known.responseOwner, known.contexts
	pkg.Patterns = l.patterns()
	bodies := l.bodies(server.file)
	first := make(map[string]method, len(server.methods))
	for _, m := range server.methods {
		if other, ok := first[m.name.Name]; ok {
			l.duplicate(m, other)
			continue
		}
		first[m.name.Name] = m
		params := fields(server.file, m.typ.Params, 0)
		if !known.takes(params) {
			l.errorf(l.pos(m.name), "go-shape", "%s does not begin with the parameters of %s, as the other methods do; generate it with oapi-codegen v2.3 to v2.8", m.name.Name, known.servers[0])
			continue
		}
		name := m.name.Name
		pkg.Operations = append(pkg.Operations, Operation{
			Name: name, Pos: l.pos(m.name), Routes: routes(m.doc),
			First: params[:len(known.first)], Parameters: params[len(known.first):],
			Results: fields(server.file, m.typ.Results, 0),
			Bodies:  bodies.of(name),
		})
	}
}

// bodyComment is what oapi-codegen says of the types of bodies.
var bodyComment = regexp.MustCompile(`^// (\S+) defines body for (\S+) for (.*) ContentType\.$`)

// bodySuffix ends the names of these types: PayJSONRequestBody.
const bodySuffix = "RequestBody"

// bodyTypes are the types of bodies that can be seen from the server.
type bodyTypes struct {
	commented map[string][]Body // by the name of the operation
	named     map[string]Body   // by their own names
}

// bodies finds the types of bodies, in the package and in the one that the
// server's file imports as ".", as far as that is in the same module.
func (l *loader) bodies(server *file) bodyTypes {
	found := bodyTypes{commented: make(map[string][]Body), named: make(map[string]Body)}
	if server.dot != nil {
		for _, f := range l.packageFiles(server.dot.Path) {
			found.add(f, func(name string) Type {
				return Type{text: []string{"", "." + name}, pkgs: []Import{*server.dot}}
			})
		}
	}
	for _, f := range l.files {
		if f.scope != nil { // it is of the package
			found.add(f.ast, func(name string) Type { return Type{text: []string{name}} })
		}
	}
	return found
}

// add adds the types that a file declares.
func (b bodyTypes) add(f *ast.File, typeOf func(name string) Type) {
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range g.Specs {
			t, ok := s.(*ast.TypeSpec)
			if !ok {
				continue
			}
			body := Body{Type: typeOf(t.Name.Name)}
			if of, ok := t.Type.(*ast.Ident); ok {
				body.Underlying = of.Name
			}
			b.named[t.Name.Name] = body
			for _, c := range comments(g.Doc, t.Doc) {
				if m := bodyComment.FindStringSubmatch(c); m != nil && m[1] == t.Name.Name {
					body.MediaType, body.Tag = m[3], strings.TrimSuffix(strings.TrimPrefix(m[1], m[2]), bodySuffix)
					b.commented[m[2]] = append(b.commented[m[2]], body)
				}
			}
		}
	}
}

func comments(groups ...*ast.CommentGroup) []string {
	var lines []string
	for _, g := range groups {
		if g != nil {
			for _, c := range g.List {
				lines = append(lines, strings.TrimRight(c.Text, "\r"))
			}
		}
	}
	return lines
}

// bodyTags are what oapi-codegen calls bodies of the common media types.
var bodyTags = map[string]string{
	"application/json":                  "JSON",
	"application/x-www-form-urlencoded": "Formdata",
	"text/plain":                        "Text",
}

// BodyType returns the name by which the type of an operation's body is found
// without a comment, and false for media types that have none.
func BodyType(operation, mediaType string) (name string, ok bool) {
	tag, ok := bodyTags[mediaType]
	return operation + tag + bodySuffix, ok
}

// of returns the types of an operation's bodies: those whose comments say so,
// or else those whose names do, which people may have declared themselves.
func (b bodyTypes) of(operation string) []Body {
	found := b.commented[operation]
	if found == nil {
		for _, mediaType := range slices.Sorted(maps.Keys(bodyTags)) {
			name, _ := BodyType(operation, mediaType)
			if body, ok := b.named[name]; ok {
				body.MediaType, body.Tag = mediaType, bodyTags[mediaType]
				found = append(found, body)
			}
		}
	}
	for i := range found {
		found[i].Underlying = b.underlying(found[i].Underlying)
	}
	return found
}

// underlying follows declarations of one name as another.
func (b bodyTypes) underlying(name string) string {
	for range b.named {
		next, ok := b.named[name]
		if !ok || next.Underlying == "" {
			break
		}
		name = next.Underlying
	}
	return name
}

// packageFiles parses the files of a package of the module that the directory
// is in; none if it is of another one, or does not parse.
func (l *loader) packageFiles(importPath string) []*ast.File {
	dir, ok := l.dirOf(importPath)
	if !ok {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var files []*ast.File
	for _, e := range entries {
		if e.IsDir() || !isSource(e.Name()) {
			continue
		}
		name := filepath.Join(dir, e.Name())
		if f, err := parser.ParseFile(l.fset, name, nil, parser.ParseComments|parser.SkipObjectResolution); err == nil {
			files = append(files, f)
		}
	}
	return files
}

// dirOf returns the directory of a package of the module around l.dir.
func (l *loader) dirOf(importPath string) (string, bool) {
	dir, err := filepath.Abs(l.dir)
	if err != nil {
		return "", false
	}
	for {
		if content, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil {
			rest, ok := strings.CutPrefix(importPath+"/", modfile.ModulePath(content)+"/")
			return filepath.Join(dir, filepath.FromSlash(path.Clean(rest))), ok
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", false
		}
		dir = parent
	}
}
