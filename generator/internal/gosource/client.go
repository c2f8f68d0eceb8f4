package gosource

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"

	"github.com/idemgen/idemgen/generator/internal/diag"
)

// Client is oapi-codegen's client with parsed responses.
type Client struct {
	Pos diag.Pos // of its interface
	// Type is the name of the struct that NewClient returns a pointer to:
	// Client, unless oapi-codegen's client-type-name says otherwise.
	Type string
	// Methods are the interface's, in their order.
	Methods []ClientMethod
}

// ClientMethod is a method of the client.
type ClientMethod struct {
	Name       string
	Parameters []Field
	Results    []Field
}

// Call is how a client calls one operation.
type Call struct {
	Operation string // name of the operation
	// Pattern is the path as the code has it, with %s for each parameter.
	Method, Pattern string
	Path            []Field // path parameters, in the order of the path
	Params          Type    // of the other parameters; the zero Type if there are none
	// Build is the function that makes a request. Where the operation has a
	// body it takes a media type and a reader.
	Build   string
	HasBody bool
	// Encoders make requests of bodies that they encode.
	Encoders []Encoder
	Parse    string // the function that reads a response
	Response string // the type that it returns a pointer to
}

// Encoder is a function that makes a request of a body of one type.
type Encoder struct {
	Func string
	Tag  string // names the body in Go: JSON, Formdata
	Body Type
}

const clientInterface = "ClientWithResponsesInterface"

// client reads the client, if there is one.
func (l *loader) client(pkg *Package) {
	declared := l.types[clientInterface].spec
	if declared == nil {
		return
	}
	found := l.methods(clientInterface)
	c := &Client{Pos: l.pos(declared.Name)}
	first := make(map[string]method, len(found.methods))
	for _, m := range found.methods {
		if other, ok := first[m.name.Name]; ok {
			l.duplicate(m, other)
			continue
		}
		first[m.name.Name] = m
		c.Methods = append(c.Methods, ClientMethod{
			Name:       m.name.Name,
			Parameters: fields(found.file, m.typ.Params, 0),
			Results:    fields(found.file, m.typ.Results, 0),
		})
	}
	for _, name := range []string{"ClientInterface", "ClientOption", "ClientWithResponses", "NewClient", "RequestEditorFn"} {
		if _, ok := pkg.Scope[name]; !ok {
			l.errorf(c.Pos, "go-shape", "package %s does not declare %s, which a client of oapi-codegen v2.3 to v2.8 has; generate it again with one of these versions", pkg.Name, name)
		}
	}
	if f, ok := l.funcs["NewClient"]; ok {
		if results := fields(f.file, f.decl.Type.Results, 0); len(results) == 2 {
			if elem, pointer := results[0].Type.Elem(); pointer {
				c.Type = elem.String()
			}
		}
		if _, ok := pkg.Scope[c.Type+".applyEditors"]; !ok {
			l.errorf(l.pos(f.decl.Name), "go-shape", "NewClient does not return a pointer to a type with a method applyEditors, and an error; generate the client with oapi-codegen v2.3 to v2.8")
		}
	}
	l.refuseFieldNames(pkg, c)
	pkg.Client = c
}

// refuseFieldNames refuses operations that are called as a field of the client
// is, such as Server.
func (l *loader) refuseFieldNames(pkg *Package, c *Client) {
	list, ok := structFields(l.types[c.Type])
	if !ok {
		return
	}
	for _, f := range list.List {
		for _, name := range f.Names {
			if at, taken := pkg.Scope[c.Type+"."+name.Name]; taken {
				l.errorf(at, "go-declared-twice", "%s is a method of the client and a field of it at %s; give the operation of this name another operationId, or another name with x-go-name", name.Name, l.pos(name))
			}
		}
	}
}

// join finds out how the client calls each operation. In a package without a
// server the operations are those that the client can call.
func (l *loader) join(pkg *Package) {
	if pkg.Client == nil {
		return
	}
	calls := l.calls(pkg.Client)
	if !pkg.HasServer {
		pkg.Pos = pkg.Client.Pos
		for _, call := range calls {
			op := Operation{Name: call.Operation, Pos: l.pos(l.funcs[call.Build].decl.Name)}
			if call.Method != "" {
				op.Routes = []Route{{call.Method, call.Pattern}}
			}
			pkg.Operations = append(pkg.Operations, op)
		}
	}
	for i := range pkg.Operations {
		op := &pkg.Operations[i]
		if at := slices.IndexFunc(calls, func(c *Call) bool { return c.Operation == op.Name }); at >= 0 {
			op.Call = calls[at]
		}
	}
}

// calls returns how the client calls the operations that have a method, a
// function that builds requests and one that parses responses, in the order of
// the methods.
//
// An operation's methods share the type of its responses. The first one is
// called PayWithResponse, or PayWithBodyWithResponse and takes any body; the
// others have a suffix for the body that they encode.
func (l *loader) calls(c *Client) []*Call {
	parsers := l.parsers()
	byResponse := make(map[string]*Call)
	var calls []*Call
	for _, m := range c.Methods {
		name, ok := strings.CutSuffix(m.Name, "WithResponse")
		if !ok || len(m.Parameters) < 2 || len(m.Results) != 2 {
			continue
		}
		elem, _ := m.Results[0].Type.Elem()
		response := elem.String()
		params := m.Parameters[1 : len(m.Parameters)-1] // without the context and the editors
		if call := byResponse[response]; call != nil {
			if e, ok := call.encoder(name, params); ok && l.funcs[e.Func].decl != nil {
				call.Encoders = append(call.Encoders, e)
			}
			continue
		}
		call := &Call{Operation: name, Response: response, Parse: parsers[response]}
		if n := len(params); n >= 2 && params[n-1].Type.Is("io", "Reader") {
			call.HasBody = true
			call.Operation = strings.TrimSuffix(name, "WithBody")
			params = params[:n-2]
		}
		byResponse[response] = call
		call.Build = call.builder(name)
		build, ok := l.funcs[call.Build]
		if !ok || build.decl.Body == nil || call.Parse == "" {
			continue
		}
		if n := len(params); n > 0 && params[n-1].Name == "params" {
			if elem, ok := params[n-1].Type.Elem(); ok {
				call.Params = elem
				params = params[:n-1]
			}
		}
		call.Path = params
		call.Method, call.Pattern = route(build.decl.Body)
		calls = append(calls, call)
	}
	return calls
}

// builder returns the name of the function that makes requests for a method.
func (c *Call) builder(method string) string {
	return "New" + c.Operation + "Request" + strings.TrimPrefix(method, c.Operation)
}

// encoder returns what encodes the body of a method, the last of its parameters.
func (c *Call) encoder(method string, params []Field) (Encoder, bool) {
	if len(params) == 0 {
		return Encoder{}, false
	}
	e := Encoder{Func: c.builder(method), Tag: "JSON", Body: params[len(params)-1].Type}
	if suffix, ok := strings.CutPrefix(method, c.Operation+"With"); ok {
		e.Tag = strings.TrimSuffix(suffix, "Body")
	}
	return e, true
}

// parsers returns the functions that read a response, by the type they make of
// it.
func (l *loader) parsers() map[string]string {
	found := make(map[string]string)
	for name, f := range l.funcs {
		params, results := fields(f.file, f.decl.Type.Params, 0), fields(f.file, f.decl.Type.Results, 0)
		if strings.HasPrefix(name, "Parse") && len(params) == 1 && params[0].Type.Is("net/http", "*Response") && len(results) == 2 {
			if elem, ok := results[0].Type.Elem(); ok {
				found[elem.String()] = name
			}
		}
	}
	return found
}

// route finds the method and the path that a builder's code has; both are
// empty unless both are there.
func route(body *ast.BlockStmt) (method, pattern string) {
	ast.Inspect(body, func(n ast.Node) bool {
		call, isCall := n.(*ast.CallExpr)
		if !isCall || len(call.Args) == 0 {
			return true
		}
		sel, isSel := call.Fun.(*ast.SelectorExpr)
		if !isSel {
			return true
		}
		switch sel.Sel.Name {
		case "Sprintf":
			if text, isText := literal(call.Args[0]); isText && pattern == "" && strings.HasPrefix(text, "/") {
				pattern = text
			}
		case "NewRequest":
			if text, isText := literal(call.Args[0]); isText {
				method = text
			} else if name, isName := call.Args[0].(*ast.SelectorExpr); isName { // http.MethodPost
				method = strings.ToUpper(strings.TrimPrefix(name.Sel.Name, "Method"))
			}
		}
		return true
	})
	if method == "" || pattern == "" {
		return "", ""
	}
	return method, pattern
}

func literal(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}
