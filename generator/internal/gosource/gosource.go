// Package gosource reads what oapi-codegen has generated: the operations of a
// strict server and of a client, under the names that the Go code has and not
// the ones that naming rules would give. It parses and never type-checks, so
// that it is fast and works on a package that does not compile yet.
package gosource

import (
	"cmp"
	"errors"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/idemgen/idemgen/generator/internal/diag"
	"github.com/idemgen/idemgen/templates"
)

// Package is a directory of Go files, oapi-codegen's output among them.
type Package struct {
	Name string
	// HasServer says that there is a server, Plain that it is no strict one, and
	// Framework what it is for.
	HasServer, Plain bool
	Framework        Framework
	// Context is what the framework gives a handler first. ResponseOwner is what
	// echo makes a response for, as an expression of such a context c.
	Context       Type
	ResponseOwner string
	// Contexts is empty for frameworks other than fiber.
	Contexts Contexts
	// Options is the name of the type of the strict server's options, or "".
	// NewStrictHandlerWithOptions takes them.
	Options string
	// Operations are the methods of StrictServerInterface, in their order, or
	// those of a plain ServerInterface; in a package without a server, the
	// client's.
	Operations []Operation
	// Client is nil where there is none.
	Client *Client
	// Receivers are what webhooks and callbacks are sent to.
	Receivers []Receiver
	// Scope is what the package declares, and where: Type, func and, for
	// methods, Type.Method. What idemgen wrote is left out.
	Scope map[string]diag.Pos
	// Again says where types are that the package declares a second time.
	Again map[string]diag.Pos
	// Defined maps types to the type of the package that they are declared as,
	// and whose methods they do not have: type A B.
	Defined map[string]string
	// FillsOptions says that NewStrictHandlerWithOptions has defaults for the
	// error handlers that are left nil. oapi-codegen's did not before v2.8.
	FillsOptions bool
	// Patterns are what a std-http server registers; none for other servers.
	Patterns []Pattern
	// Constraint is the build constraint that the output of oapi-codegen has,
	// or "".
	Constraint string
	Pos        diag.Pos // of the interface that Operations are the methods of
}

// Operation is an operation under the name that its methods have. What is of
// the strict server is empty in a package without one.
type Operation struct {
	Name string
	stem string // see Stem; "" where it is Name
	Pos  diag.Pos
	// Routes are the lines of the method's comment of the form
	// (POST /accounts/{id}). oapi-codegen writes one; a summary can look like
	// another. A client's operation has the one of its code, where each
	// parameter of the path is %s.
	Routes   []Route
	Request  string  // name of the request object's type
	Fields   []Field // of the request object
	Response string  // name of the response object's type
	Visit    string  // its method
	// Parameters are those of the ServerInterface method of the same name,
	// without First, which are what the framework gives it.
	First, Parameters []Field
	// Results are those of a plain server's method.
	Results []Field
	// Bodies are the types that a plain server decodes bodies into.
	Bodies []Body
	// Call is how the client calls it, nil where there is no client.
	Call *Call
}

// Stem is what the names of the operation's types begin with.
func (o Operation) Stem() string { return cmp.Or(o.stem, o.Name) }

// Route is a method and a path as the document spells it. What a receiver is
// sent has no path: it is "webhook NAME" or "callback NAME" instead.
type Route struct{ Method, Path string }

// Field is a field of a struct or a parameter of a method.
type Field struct {
	Name string
	Type Type
	// Tagged says that the field has a tag: in request objects, path
	// parameters do and nothing else does.
	Tagged bool
}

// Load reads the Go files of dir that are no tests and that idemgen did not
// write. The overlay maps base names to content that stands for, or adds to,
// the files on disk. The findings are errors; the package is nil when there
// are any.
func Load(dir string, overlay map[string][]byte) (*Package, diag.List) {
	l := &loader{dir: dir, fset: token.NewFileSet()}
	pkg := l.load(overlay)
	if l.findings.HasErrors() {
		return nil, l.findings
	}
	return pkg, nil
}

type loader struct {
	dir      string
	fset     *token.FileSet
	findings diag.List
	files    []*file
	// types and funcs are declared by the package that holds the strict server.
	types map[string]declaration
	funcs map[string]function
}

type file struct {
	name    string
	src     []byte
	ast     *ast.File
	tok     *token.File
	imports map[string]Import
	// dot is the package that exported names come from which the package does
	// not declare: what the file imports as ".", or nil.
	dot   *Import
	scope map[string]diag.Pos // of the package
}

// declaration is a type and the file that declares it.
type declaration struct {
	spec *ast.TypeSpec
	file *file
}

// function is a function that is no method, and the file that declares it.
type function struct {
	decl *ast.FuncDecl
	file *file
}

const (
	strictInterface = "StrictServerInterface"
	serverInterface = "ServerInterface"
)

// outputs are the types that operations are read from.
var outputs = append([]string{strictInterface, serverInterface, clientInterface}, receiverInterfaces()...)

func enable() string {
	return "set " + Servers("or") + " under generate: in the oapi-codegen config, and run oapi-codegen"
}

func (l *loader) load(overlay map[string][]byte) *Package {
	l.parse(overlay)
	if l.findings.HasErrors() {
		return nil
	}
	if len(l.files) == 0 {
		l.errorf(l.dirPos(), "go-no-files", "no Go files here; run oapi-codegen first, or name its config under oapi-codegen: in the idemgen config")
		return nil
	}
	pkg := l.index()
	if pkg == nil {
		return nil
	}
	l.client(pkg)
	received := slices.ContainsFunc(receiverInterfaces(), func(name string) bool { return l.types[name].spec != nil })
	// Beside receivers, a server may be empty.
	has := func(name string) bool {
		return l.types[name].spec != nil && (!received || len(l.methods(name).methods) > 0)
	}
	switch {
	case has(strictInterface):
		l.strictServer(pkg)
	case has(serverInterface):
		l.plainServer(pkg)
	case pkg.Client == nil && !received:
		l.errorf(l.dirPos(), "go-no-server", "package %s has neither a ServerInterface nor a client; %s; or set client: true for a package that is a client alone", pkg.Name, enable())
	}
	l.join(pkg)
	l.receivers(pkg)
	pkg.Constraint = l.constraint()
	return pkg
}

// parse reads every file, the ones on disk and the ones in the overlay.
func (l *loader) parse(overlay map[string][]byte) {
	sources := make(map[string][]byte)
	entries, err := os.ReadDir(l.dir)
	if err != nil && (len(overlay) == 0 || !os.IsNotExist(err)) {
		l.errorf(l.dirPos(), diag.Unreadable, "cannot read the package directory: %v", diag.Reason(err))
		return
	}
	for _, e := range entries {
		name := e.Name()
		if _, ok := overlay[name]; ok || e.IsDir() || !isSource(name) {
			continue
		}
		src, err := os.ReadFile(filepath.Join(l.dir, name))
		if err != nil {
			l.errorf(l.filePos(name), diag.Unreadable, "cannot read the file: %v", diag.Reason(err))
			continue
		}
		sources[name] = src
	}
	for name, src := range overlay {
		if isSource(name) {
			sources[name] = src
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		src := sources[name]
		if templates.Written(src) {
			continue
		}
		f, err := parser.ParseFile(l.fset, l.filePos(name).File, src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			l.syntaxErrors(name, err)
			continue
		}
		l.files = append(l.files, &file{
			name: name, src: src, ast: f, tok: l.fset.File(f.FileStart), imports: importsOf(f),
		})
	}
}

// isSource reports whether the go command would compile a file of this name
// into the package.
func isSource(name string) bool {
	return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") &&
		!strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "_")
}

func (l *loader) syntaxErrors(name string, err error) {
	var list scanner.ErrorList
	if !errors.As(err, &list) || len(list) == 0 {
		l.errorf(l.filePos(name), "go-syntax", "%v", err)
		return
	}
	first := list[0]
	pos := diag.Pos{File: first.Pos.Filename, Line: first.Pos.Line, Col: first.Pos.Column}
	l.errorf(pos, "go-syntax", "%s; the file must parse before its operations can be read", first.Msg)
}

// index finds the package of the strict server and what it declares. Files of
// another package, such as a main package that a build constraint keeps out,
// are left alone.
func (l *loader) index() *Package {
	name := l.files[0].ast.Name.Name
	for _, f := range l.files {
		if IsGenerated(f.ast) {
			name = f.ast.Name.Name
			break
		}
	}
	pkg := &Package{Name: name, Scope: make(map[string]diag.Pos), Again: make(map[string]diag.Pos), Defined: make(map[string]string)}
	l.types = make(map[string]declaration)
	l.funcs = make(map[string]function)
	for _, f := range l.files {
		if f.ast.Name.Name != name {
			continue
		}
		f.scope = pkg.Scope
		l.dotImport(f)
		for _, d := range f.ast.Decls {
			l.declare(pkg, f, d)
		}
	}
	delete(pkg.Scope, "_")
	delete(pkg.Scope, "init") // any number of them is fine
	return pkg
}

// dotImport finds out where names can come from that a file does not declare.
func (l *loader) dotImport(f *file) {
	switch dots := dotImports(f.ast); {
	case len(dots) == 1:
		f.dot = &dots[0]
	case len(dots) > 1 && IsGenerated(f.ast):
		l.errorf(l.pos(f.ast.Name), "go-dot-imports", "this file imports %d packages as \".\", and does not say which of them declares what; give all but one an alias under additional-imports in the oapi-codegen config", len(dots))
	}
}

// declare adds what a declaration declares.
func (l *loader) declare(pkg *Package, f *file, d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv != nil {
			pkg.Scope[receiver(d)+"."+d.Name.Name] = l.pos(d.Name)
			return
		}
		pkg.Scope[d.Name.Name] = l.pos(d.Name)
		l.funcs[d.Name.Name] = function{d, f}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				l.refuseSecond(s, f)
				if _, again := l.types[s.Name.Name]; again {
					pkg.Again[s.Name.Name] = l.pos(s.Name)
					continue
				}
				pkg.Scope[s.Name.Name] = l.pos(s.Name)
				l.types[s.Name.Name] = declaration{s, f}
				if of, ok := s.Type.(*ast.Ident); ok && !s.Assign.IsValid() {
					pkg.Defined[s.Name.Name] = of.Name
				}
			case *ast.ValueSpec:
				for _, n := range s.Names {
					pkg.Scope[n.Name] = l.pos(n)
				}
			}
		}
	}
}

// refuseSecond refuses a second server or client, whose operations would take
// the place of the first one's.
func (l *loader) refuseSecond(s *ast.TypeSpec, f *file) {
	if first, ok := l.types[s.Name.Name]; ok && slices.Contains(outputs, s.Name.Name) {
		l.errorf(l.pos(s.Name), "go-two-outputs", "%s is already declared at %s: a package holds what oapi-codegen generates from one document; give each document a package of its own, or delete the file that is left over (%s or %s)",
			s.Name.Name, l.pos(first.spec.Name), first.file.name, f.name)
	}
}

// receiver returns the name of the type that a method is of.
func receiver(d *ast.FuncDecl) string {
	var names []string
	for _, f := range d.Recv.List {
		ast.Inspect(f.Type, func(n ast.Node) bool {
			if ident, ok := n.(*ast.Ident); ok {
				names = append(names, ident.Name) // type parameters follow
			}
			return true
		})
	}
	return append(names, "")[0]
}

// IsGenerated reports whether a file declares oapi-codegen's server or its
// client.
func IsGenerated(f *ast.File) bool {
	for _, d := range f.Decls {
		if g, ok := d.(*ast.GenDecl); ok {
			for _, s := range g.Specs {
				if t, ok := s.(*ast.TypeSpec); ok && slices.Contains(outputs, t.Name.Name) {
					return true
				}
			}
		}
	}
	return false
}

// strictServer reads the operations.
func (l *loader) strictServer(pkg *Package) {
	server, strict := l.methods(serverInterface), l.methods(strictInterface)
	pkg.HasServer, pkg.Pos = true, l.pos(l.types[strictInterface].spec.Name)
	if l.types[serverInterface].spec == nil {
		l.errorf(pkg.Pos, "go-no-server", "package %s has a StrictServerInterface and no ServerInterface; %s", pkg.Name, enable())
		return
	}
	known := l.framework(pkg, server)
	if known == nil {
		return
	}
	pkg.Framework, pkg.Contexts = known.name, known.contexts
	if _, ok := pkg.Scope[known.options]; ok {
		pkg.Options = known.options
	}
	for _, name := range known.declares {
		if _, ok := pkg.Scope[name]; !ok {
			l.errorf(pkg.Pos, "go-shape", "package %s does not declare %s, which a strict server of oapi-codegen v2.3 to v2.8 has; generate it again with one of these versions", pkg.Name, name)
		}
	}
	pkg.FillsOptions = l.fillsOptions()
	pkg.Patterns = l.patterns()

	raw := make(map[string]method, len(server.methods))
	for _, m := range server.methods {
		raw[m.name.Name] = m
	}
	first := make(map[string]method, len(strict.methods))
	for _, m := range strict.methods {
		if other, ok := first[m.name.Name]; ok {
			l.duplicate(m, other)
			continue
		}
		first[m.name.Name] = m
		if op, ok := l.operation(strict.file, m, known.writer); ok {
			r, found := raw[op.Name]
			if !found {
				l.errorf(op.Pos, "go-shape", "StrictServerInterface has a method %s and ServerInterface has not; generate both with one run of oapi-codegen", op.Name)
				continue
			}
			op.Parameters = fields(server.file, r.typ.Params, len(known.first))
			pkg.Operations = append(pkg.Operations, op)
		}
	}
}

// duplicate reports a method whose name another one has.
func (l *loader) duplicate(m, other method) {
	l.errorf(l.pos(m.name), "go-shape", "the method %s is already declared at %s, since two operations of the document have one Go name; give one another operationId and run oapi-codegen again", m.name.Name, l.pos(other.name))
}

type interfaceMethods struct {
	file    *file
	methods []method
}

type method struct {
	name *ast.Ident
	typ  *ast.FuncType
	doc  *ast.CommentGroup
}

// methods returns the methods of an interface type; none if there is no such
// type.
func (l *loader) methods(typeName string) interfaceMethods {
	d, ok := l.types[typeName]
	if !ok {
		return interfaceMethods{}
	}
	found := interfaceMethods{file: d.file}
	iface, ok := d.spec.Type.(*ast.InterfaceType)
	if !ok {
		return found
	}
	for _, f := range iface.Methods.List {
		if typ, ok := f.Type.(*ast.FuncType); ok && len(f.Names) == 1 {
			found.methods = append(found.methods, method{f.Names[0], typ, f.Doc})
		}
	}
	return found
}

// operation reads one method of the strict server and its objects.
func (l *loader) operation(f *file, m method, writer typeName) (Operation, bool) {
	op := Operation{Name: m.name.Name, Pos: l.pos(m.name), Routes: routes(m.doc)}
	params, results := fields(f, m.typ.Params, 0), fields(f, m.typ.Results, 0)
	if len(params) != 2 || len(results) != 2 || !params[0].Type.Is("context", "Context") {
		l.errorf(op.Pos, "go-shape", "%s is not of the form (ctx context.Context, request …RequestObject) (…ResponseObject, error); generate it with oapi-codegen v2.3 to v2.8", op.Name)
		return op, false
	}
	op.Request, op.Response = params[1].Type.String(), results[0].Type.String()

	request, ok := l.types[op.Request]
	fieldList, isStruct := structFields(request)
	if !ok || !isStruct {
		l.errorf(op.Pos, "go-shape", "%s is no struct of this package; generate it with oapi-codegen v2.3 to v2.8", op.Request)
		return op, false
	}
	op.Fields = fields(request.file, fieldList, 0)

	visits := l.methods(op.Response)
	if len(visits.methods) != 1 || !isVisit(visits.file, visits.methods[0], writer) {
		l.errorf(op.Pos, "go-shape", "%s is no interface of this package with the one method Visit…(%s) error, so an answer cannot be captured; generate it with oapi-codegen v2.3 to v2.8", op.Response, writer)
		return op, false
	}
	op.Visit = visits.methods[0].name.Name
	return op, true
}

func structFields(d declaration) (*ast.FieldList, bool) {
	if d.spec == nil {
		return nil, false
	}
	s, ok := d.spec.Type.(*ast.StructType)
	if !ok {
		return nil, false
	}
	return s.Fields, true
}

func isVisit(f *file, m method, writer typeName) bool {
	params, results := fields(f, m.typ.Params, 0), fields(f, m.typ.Results, 0)
	return len(params) == 1 && params[0].Type.Is(writer.path, writer.name) &&
		len(results) == 1 && results[0].Type.String() == "error"
}

// fields flattens a list, without its first skip entries.
func fields(f *file, list *ast.FieldList, skip int) []Field {
	if list == nil {
		return nil
	}
	var all []Field
	for _, item := range list.List {
		t := f.typeOf(item.Type)
		if len(item.Names) == 0 {
			all = append(all, Field{Type: t})
		}
		for _, n := range item.Names {
			all = append(all, Field{Name: n.Name, Type: t, Tagged: item.Tag != nil})
		}
	}
	return all[min(skip, len(all)):]
}

var routeLine = regexp.MustCompile(`^// \(([A-Z]+) (/.*)\)$`)

func routes(doc *ast.CommentGroup) []Route {
	if doc == nil {
		return nil
	}
	var found []Route
	for _, c := range doc.List {
		if m := routeLine.FindStringSubmatch(strings.TrimRight(c.Text, "\r")); m != nil {
			found = append(found, Route{Method: m[1], Path: m[2]})
		}
	}
	return found
}

// fillsOptions reports whether NewStrictHandlerWithOptions compares the error
// handlers with nil.
func (l *loader) fillsOptions() bool {
	f, ok := l.funcs["NewStrictHandlerWithOptions"]
	if !ok || f.decl.Body == nil {
		return false
	}
	compared := make(map[string]bool)
	ast.Inspect(f.decl.Body, func(n ast.Node) bool {
		if b, ok := n.(*ast.BinaryExpr); ok && b.Op == token.EQL {
			if sel, ok := b.X.(*ast.SelectorExpr); ok {
				compared[sel.Sel.Name] = true
			}
		}
		return true
	})
	return compared["RequestErrorHandlerFunc"] && compared["ResponseErrorHandlerFunc"]
}

func (l *loader) errorf(pos diag.Pos, code, format string, args ...any) {
	l.findings = append(l.findings, diag.Errorf(pos, code, format, args...))
}

func (l *loader) pos(n ast.Node) diag.Pos {
	// Positions are those of the file as it is: line directives would name
	// files that idemgen has not read.
	p := l.fset.PositionFor(n.Pos(), false)
	return diag.Pos{File: p.Filename, Line: p.Line, Col: p.Column}
}

func (l *loader) dirPos() diag.Pos { return diag.Pos{File: diag.FileName(l.dir)} }

func (l *loader) filePos(name string) diag.Pos {
	return diag.Pos{File: diag.FileName(filepath.Join(l.dir, name))}
}
