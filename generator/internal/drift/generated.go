package drift

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/idemgen/idemgen/generator/internal/diag"
	"github.com/idemgen/idemgen/generator/internal/spec"
)

// Generated is what a file that idemgen has generated says of its document.
type Generated struct {
	// Operations are the marked ones, at the position of what declares them.
	Operations []spec.Operation
	// Methods are the Go names of all operations.
	Methods map[string]bool
}

// Read reads a generated file. What runs is what this file says, whatever has
// become of the document that it was made from. Its error is that of a file
// which does not parse, or is not of the form that this version writes; then
// nothing is known, since half of an answer would pass for no change.
func Read(name string, src []byte) (Generated, error) {
	r := reader{name: name, fset: token.NewFileSet()}
	file, err := parser.ParseFile(r.fset, name, src, parser.SkipObjectResolution)
	if err != nil {
		return Generated{}, err
	}
	found := Generated{Methods: make(map[string]bool)}
	for _, d := range file.Decls {
		decl, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range decl.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				if iface, ok := s.Type.(*ast.InterfaceType); ok && slices.Contains(interfaces, s.Name.Name) {
					methods(iface, found.Methods)
				}
			case *ast.ValueSpec:
				if len(s.Names) != 1 || len(s.Values) != 1 {
					continue
				}
				if lit, ok := s.Values[0].(*ast.CompositeLit); ok && selector(lit.Type) == "idempotency.Operation" {
					found.Operations = append(found.Operations, r.operation(s.Names[0], lit))
				}
			}
		}
	}
	if r.err == nil && len(found.Operations) == 0 {
		r.err = errors.New("it declares no operation")
	}
	return found, r.err
}

// interfaces are those that users implement or call.
var interfaces = []string{"IdempotentServer", "IdempotentWebhookReceiver", "IdempotentCallbackReceiver", "IdempotentClient"}

// methods adds the names of an interface's methods. A client's unmarked ones
// end as oapi-codegen has them.
func methods(iface *ast.InterfaceType, into map[string]bool) {
	for _, m := range iface.Methods.List {
		for _, name := range m.Names {
			into[name.Name] = true
			into[strings.TrimSuffix(name.Name, "WithResponse")] = true
		}
	}
}

// reader reads the literals of one file and keeps the first error.
type reader struct {
	name string
	fset *token.FileSet
	err  error
}

func (r *reader) unknown(n ast.Node) {
	if r.err == nil {
		r.err = fmt.Errorf("line %d is not of this version's form", r.fset.Position(n.Pos()).Line)
	}
}

// each calls read for every field of a literal, with its name and value.
func (r *reader) each(n ast.Expr, read func(name string, value ast.Expr)) {
	lit, ok := n.(*ast.CompositeLit)
	if !ok {
		r.unknown(n)
		return
	}
	for _, e := range lit.Elts {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok {
			r.unknown(e)
			continue
		}
		name, _ := kv.Key.(*ast.Ident)
		if name == nil {
			r.unknown(e)
			continue
		}
		read(name.Name, kv.Value)
	}
}

func (r *reader) operation(name *ast.Ident, lit *ast.CompositeLit) spec.Operation {
	at := r.fset.Position(name.Pos())
	op := spec.Operation{Pos: diag.Pos{File: r.name, Line: at.Line, Col: at.Column}}
	p := &spec.Policy{Pos: op.Pos, Required: true}
	op.Policy = p
	var id string
	r.each(lit, func(name string, v ast.Expr) {
		switch name {
		case "ID":
			id = r.text(v)
		case "Method":
			op.Method = r.text(v)
		case "Path":
			op.Path = r.text(v)
		case "Key":
			p.Key = r.key(v)
		case "Optional":
			p.Required = !r.truth(v)
		case "Retention":
			p.Retention = time.Duration(r.number(v))
		case "Fingerprint":
			p.Fingerprint = r.fingerprint(v)
		case "Parameters":
			op.Parameters = r.parameters(v)
		case "Bodies":
			op.Body = r.body(v)
		case "WaitUpTo":
			p.WaitUpTo = time.Duration(r.number(v))
		case "Lease":
			p.Lease = time.Duration(r.number(v))
		case "Release":
			for _, status := range r.list(v) {
				p.Release = append(p.Release, int(r.number(status)))
			}
		default:
			r.unknown(v)
		}
	})
	if id != op.ID() { // which is that of an operation without an operationId
		op.OperationID = id
	}
	return op
}

func (r *reader) key(n ast.Expr) (key spec.Key) {
	r.each(n, func(name string, v ast.Expr) {
		switch name {
		case "Header":
			key.Name = r.text(v)
		case "Body":
			key.Name, key.InBody = r.text(v), true
		case "Format":
			switch selector(v) {
			case "idempotency.KeyOpaque":
				key.Format = spec.FormatOpaque
			case "idempotency.KeyUUID":
				key.Format = spec.FormatUUID
			case "idempotency.KeyUUIDv7":
				key.Format = spec.FormatUUIDv7
			default:
				r.unknown(v)
			}
		case "MaxLength":
			key.MaxLength = int(r.number(v))
		default:
			r.unknown(v)
		}
	})
	return key
}

func (r *reader) fingerprint(n ast.Expr) (f spec.Fingerprint) {
	r.each(n, func(name string, v ast.Expr) {
		switch name {
		case "Raw":
			f.Raw = r.truth(v)
		case "Exclude":
			f.Exclude = r.texts(v)
		case "Include":
			f.Include = r.texts(v)
		default:
			r.unknown(v)
		}
	})
	return f
}

func (r *reader) parameters(n ast.Expr) (all []spec.Parameter) {
	r.each(n, func(name string, v ast.Expr) {
		in, ok := map[string]string{"Headers": "header", "Cookies": "cookie"}[name]
		if !ok {
			r.unknown(v)
		}
		for _, name := range r.texts(v) {
			all = append(all, spec.Parameter{Name: name, In: in})
		}
	})
	return all
}

// body reads the media types of the body. Their kinds follow from them.
func (r *reader) body(n ast.Expr) *spec.Body {
	body := new(spec.Body)
	for _, declared := range r.list(n) {
		r.each(declared, func(name string, v ast.Expr) {
			switch name {
			case "MediaType":
				body.MediaTypes = append(body.MediaTypes, spec.MediaType{Name: r.text(v)})
			case "Kind":
			default:
				r.unknown(v)
			}
		})
	}
	return body
}

// list returns the elements of a slice.
func (r *reader) list(n ast.Expr) []ast.Expr {
	lit, ok := n.(*ast.CompositeLit)
	if !ok {
		r.unknown(n)
		return nil
	}
	return lit.Elts
}

func (r *reader) texts(n ast.Expr) (all []string) {
	for _, e := range r.list(n) {
		all = append(all, r.text(e))
	}
	return all
}

func (r *reader) text(n ast.Expr) string {
	lit, ok := n.(*ast.BasicLit)
	if ok && lit.Kind == token.STRING {
		if s, err := strconv.Unquote(lit.Value); err == nil {
			return s
		}
	}
	r.unknown(n)
	return ""
}

// truth reads true, the only value that is written.
func (r *reader) truth(n ast.Expr) bool {
	if selector(n) != "true" {
		r.unknown(n)
		return false
	}
	return true
}

// units are the constants that stand in durations.
var units = map[string]time.Duration{
	"time.Hour": time.Hour, "time.Minute": time.Minute, "time.Second": time.Second,
	"time.Millisecond": time.Millisecond, "time.Microsecond": time.Microsecond, "time.Nanosecond": time.Nanosecond,
}

// number reads 5, 5 * time.Second and idempotency.StatusClass(5), which is -5.
func (r *reader) number(n ast.Expr) int64 {
	switch n := n.(type) {
	case *ast.BasicLit:
		if i, err := strconv.ParseInt(n.Value, 10, 64); err == nil {
			return i
		}
	case *ast.BinaryExpr:
		if unit, ok := units[selector(n.Y)]; ok && n.Op == token.MUL {
			return r.number(n.X) * int64(unit)
		}
	case *ast.CallExpr:
		if selector(n.Fun) == "idempotency.StatusClass" && len(n.Args) == 1 {
			return -r.number(n.Args[0])
		}
	}
	r.unknown(n)
	return 0
}

// selector returns the text of a name such as true or time.Second, or "".
func selector(n ast.Expr) string {
	switch n := n.(type) {
	case *ast.Ident:
		return n.Name
	case *ast.SelectorExpr:
		if pkg := selector(n.X); pkg != "" {
			return pkg + "." + n.Sel.Name
		}
	}
	return ""
}
