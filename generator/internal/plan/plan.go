// Package plan decides what is generated: which Go method an operation of the
// document is, and every name, type and value that the templates print.
package plan

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/idemgen/idemgen/generator/internal/diag"
	"github.com/idemgen/idemgen/generator/internal/gosource"
	"github.com/idemgen/idemgen/generator/internal/spec"
)

// File is the model of the generated file.
type File struct {
	Package string
	Source  string // base name of the document
	// Constraint is the file's build constraint, or "".
	Constraint string
	Imports    []string // specs; an empty one stands between the standard library's and others
	// Operations are the marked ones and Methods all, both in the order of
	// StrictServerInterface, or of the client's interface without one.
	Operations []*Operation
	Methods    []Method
	// HasServer says that there is server code, and Plain that it is without a
	// strict server. Target names the template of what differs between
	// frameworks.
	HasServer, Plain bool
	Target           string
	// Context is the type that the framework gives a handler first, and
	// Framework the name under which the file imports its package.
	Context, Framework string
	// ResponseOwner is what echo makes a response for, as an expression.
	ResponseOwner string
	// Contexts are the methods of fiber's context that return other contexts.
	Contexts gosource.Contexts
	Handlers
	// Receivers are those of webhooks and of callbacks that are marked.
	Receivers []*Receiver
	// Client is nil where there is no client.
	Client *Client
	// RetryPackage is the name under which the file imports package retry, ""
	// without a client.
	RetryPackage string
	// Options is the type of the strict server's options, "" where it has
	// none, and FillsOptions says that oapi-codegen's code has defaults for them.
	Options      string
	FillsOptions bool
	Hidden
}

// Method is a method of the server that users implement.
type Method struct {
	Name          string
	Route         string // "POST /path", or "" where the generated code does not say
	RequestObject string
	Response      string
	// First, Parameters and Results are those of a plain server's method. First
	// are the framework's, and among Parameters too.
	First, Parameters, Results string
	Marked                     *Operation // nil for unmarked operations
}

// Doc is the comment of the method. The document's path is in it.
func (m Method) Doc() string {
	switch {
	case m.Marked == nil && m.Route == "":
		return m.Name + " is not idempotent."
	case m.Marked == nil:
		return m.Name + " handles " + m.Route + "."
	case m.Marked.Lease() != "" && m.Marked.Optional():
		return m.Name + " handles " + m.Marked.Route() + " under a lease, until there is an answer for its key; without a key it runs every time."
	case m.Marked.Lease() != "":
		return m.Name + " handles " + m.Marked.Route() + " under a lease, until there is an answer for its key."
	case m.Marked.Optional():
		return m.Name + " handles " + m.Marked.Route() + ", at most once for each key; without a key it runs every time."
	default:
		return m.Name + " handles " + m.Marked.Route() + ", at most once for each key."
	}
}

// The names that users type beside those of single operations.
var (
	serverNames = []string{
		"IdempotentServer", "NewIdempotentHandler",
		"IdempotencyRequestHeaders", "IdempotencyResponseHeaders",
	}
	strictNames = []string{"WithStrictServer"}
	clientNames = []string{"IdempotentClient", "NewIdempotentClient", "WithClientOptions"}
)

// New decides what is generated for the marked operations of doc in pkg. The
// file is nil when the findings hold an error.
func New(doc *spec.Document, pkg *gosource.Package) (*File, diag.List) {
	p := &planner{doc: doc, pkg: pkg, scope: newScope(pkg)}
	if len(p.marked(spec.Served)) == 0 {
		p.pkg = receiversOf(pkg)
	}
	f := p.plan()
	if p.findings.HasErrors() {
		return nil, p.findings
	}
	return f, p.findings
}

type planner struct {
	doc      *spec.Document
	pkg      *gosource.Package
	scope    *scope
	findings diag.List
}

func (p *planner) errorf(pos diag.Pos, code, format string, args ...any) {
	p.findings = append(p.findings, diag.Errorf(pos, code, format, args...))
}

func (p *planner) plan() *File {
	f := &File{Package: p.pkg.Name, Source: p.doc.Name, Constraint: p.pkg.Constraint, Options: p.pkg.Options, FillsOptions: p.pkg.FillsOptions, HasServer: p.pkg.HasServer, Plain: p.pkg.Plain, Handlers: serverHandlers}
	marked := p.match(p.marked(spec.Served), p.pkg.Operations)
	p.checkPatterns(marked)
	p.reserve()

	f.Methods, f.Operations = p.methods(p.pkg.Operations, marked, p.pkg.Plain)
	p.receivers(f)
	if p.findings.HasErrors() {
		return nil
	}

	imports := newImports(p.scope)
	if p.pkg.Client != nil {
		f.RetryPackage = imports.name(gosource.Import{Name: "retry", Path: retryPath})
	}
	for _, op := range f.All() {
		op.RetryPackage = f.RetryPackage
		op.fill(imports)
		p.checkBodies(op)
	}
	if f.Plain {
		fillSignatures(f.Methods, p.pkg.Operations, imports)
	}
	for _, r := range f.Receivers {
		fillSignatures(r.Methods, p.pkg.Receiver(string(r.Kind)).Operations, imports)
	}
	f.Client = p.client(f, imports)
	if f.HasServer || len(f.Receivers) > 0 {
		f.Target = string(p.pkg.Framework)
		f.Context = p.pkg.Context.Format(imports.name)
		f.Contexts = p.pkg.Contexts
		f.Framework = imports.name(p.pkg.Context.Imports()[0])
		f.ResponseOwner = p.pkg.ResponseOwner
	}
	imports.uses(f)
	p.reservePackages(imports)
	f.Imports = imports.lines()
	if f.Target == "" {
		return f
	}
	f.Hidden = p.hidden()
	return f
}

// methods decides which methods users implement, and takes the names of the
// marked operations among them.
func (p *planner) methods(operations []gosource.Operation, marked map[string]*spec.Operation, plain bool) (all []Method, found []*Operation) {
	for i := range operations {
		method := &operations[i]
		if method.Name == "ServerInterface" || method.Name == "IdempotentServer" {
			p.errorf(method.Pos, "name-collision", "an operation called %s cannot be wrapped; give it another operationId, or another name with x-go-name", method.Name)
			continue
		}
		m := Method{Name: method.Name, RequestObject: method.Request, Response: method.Response}
		if len(method.Routes) == 1 { // more say nothing: a summary looks like one
			m.Route = method.Routes[0].Method + " " + method.Routes[0].Path
		}
		if op, ok := marked[method.Name]; ok {
			p.refuseTwice(op, method)
			m.Marked = &Operation{spec: op, method: method, hasServer: p.pkg.HasServer || plain, plain: plain, names: p.name(op, method)}
			p.checkPlainBodies(m.Marked)
			found = append(found, m.Marked)
		}
		all = append(all, m)
	}
	return all, found
}

// refuseTwice refuses an operation of which a type has two declarations: nobody
// can say which of them code that uses it would get.
func (p *planner) refuseTwice(op *spec.Operation, method *gosource.Operation) {
	used := []string{method.Request, method.Response}
	if method.Call != nil {
		used = append(used, method.Call.Response)
	}
	for _, name := range used {
		if again, twice := p.pkg.Again[name]; twice {
			p.errorf(again, "go-declared-twice", "the type %s of %s (%s) is already declared at %s; if a schema of the document has this name, set response-type-suffix under output-options in the oapi-codegen config, or give the schema another name with x-go-name",
				name, op.ID(), op.Route(), p.pkg.Scope[name])
		}
	}
}

// reserve takes the names that are the same in every package.
func (p *planner) reserve() {
	var fixed []string
	if p.pkg.HasServer {
		fixed = append(fixed, serverNames...)
	}
	if p.pkg.HasServer && !p.pkg.Plain {
		fixed = append(fixed, strictNames...)
	}
	if p.pkg.Client != nil {
		fixed = append(fixed, clientNames...)
	}
	for _, name := range fixed {
		p.reserveName(name, p.pkg.Pos)
	}
}

func (p *planner) reserveName(name string, pos diag.Pos) {
	if at, taken := p.scope.take(name, pos); taken {
		p.errorf(at, "name-collision", "%s is the name of something idemgen generates; rename this declaration (a schema with x-go-name)", name)
	}
}

// reservePackages takes the names of the packages that the templates name, as
// far as this file imports them.
func (p *planner) reservePackages(imports *imports) {
	for _, path := range slices.Sorted(maps.Keys(imports.byPath)) {
		name, fixed := packages[path]
		if !fixed {
			continue
		}
		if pos, taken := p.scope.take(name, p.pkg.Pos); taken {
			p.errorf(pos, "name-collision", "%s is the name of a package that generated code imports; rename this declaration", name)
		}
	}
}

// Leases reports whether handlers of the server run under leases.
func (f *File) Leases() bool { return anyLease(f.Operations) }

func anyLease(operations []*Operation) bool {
	return slices.ContainsFunc(operations, func(o *Operation) bool { return o.Lease() != "" })
}

// RequestHeaders lists the header fields that keys travel in.
func (f *File) RequestHeaders() []string {
	var names []string
	for _, op := range f.Operations {
		if !op.KeyInBody() {
			names = append(names, op.KeyName())
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(strings.ToLower(a), strings.ToLower(b)), cmp.Compare(a, b))
	})
	return slices.CompactFunc(names, strings.EqualFold)
}

// ResponseHeaders lists the header fields that answers carry because of idemgen.
func (f *File) ResponseHeaders() []string {
	return []string{"Idempotent-Replayed", "Retry-After"}
}
