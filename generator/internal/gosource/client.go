package gosource

import (
	"go/ast"
	"go/token"
	"regexp"
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
	// Pattern is the path as the code has it, with %s for each parameter.
	Method, Pattern string
	Path            []Field // path parameters, in the order of the path
	Params          Type    // of the other parameters; the zero Type if there are none
	// Builders make requests, one for each body that is encoded for the
	// caller, and one that takes any. An operation without a body has one.
	Builders []Builder
	Parse    string // the function that reads a response
	Response string // the type that it returns a pointer to
}

// Builder is a function that makes a request.
type Builder struct {
	Func string
	// Tag names the body in Go: JSON, Formdata.
	Tag  string
	Body Type // of the body that it encodes; the zero Type if it encodes none
	Any  bool // it takes a media type and a reader
}

const clientInterface = "ClientWithResponsesInterface"

// client reads the client, if there is one.
func (l *loader) client(pkg *Package) {
	found := l.methods(clientInterface)
	if l.types[clientInterface].spec == nil {
		return
	}
	c := &Client{Pos: l.pos(l.types[clientInterface].spec.Name)}
	for _, m := range found.methods {
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
		if _, declared := pkg.Scope[c.Type]; !declared {
			l.errorf(l.pos(f.decl.Name), "go-shape", "NewClient does not return a pointer to a type of this package and an error; generate the client with oapi-codegen v2.3 to v2.8")
		}
	}
	pkg.Client = c
}

// join finds out how the client calls each operation. In a package without a
// server the operations are those that the client can call.
func (l *loader) join(pkg *Package) {
	if pkg.Client == nil {
		return
	}
	calls, order := l.calls(pkg.Client)
	if !pkg.HasServer {
		pkg.Pos = pkg.Client.Pos
		for _, name := range order {
			call := calls[name]
			op := Operation{Name: name, Pos: l.pos(l.funcs[call.Builders[0].Func].decl.Name)}
			if call.Method != "" {
				op.Routes = []Route{{call.Method, call.Pattern}}
			}
			pkg.Operations = append(pkg.Operations, op)
		}
	}
	for i := range pkg.Operations {
		pkg.Operations[i].Call = calls[pkg.Operations[i].Name]
	}
}

var builderName = regexp.MustCompile(`^New(.+?)Request(?:With(.*)Body)?$`)

// calls returns the operations that have a builder, a method and a parser, by
// name, and the names in the order of the client's methods.
func (l *loader) calls(c *Client) (map[string]*Call, []string) {
	parsers := l.parsers()
	responses := make(map[string]string) // by method
	for _, m := range c.Methods {
		if len(m.Results) == 2 {
			if elem, ok := m.Results[0].Type.Elem(); ok {
				responses[m.Name] = elem.String()
			}
		}
	}
	calls := make(map[string]*Call)
	operations := make(map[string]string) // by response
	for name, f := range l.funcs {
		match := builderName.FindStringSubmatch(name)
		if match == nil || !isBuilder(f) {
			continue
		}
		operation := match[1]
		response := responses[operation+"WithResponse"]
		if response == "" {
			response = responses[operation+"WithBodyWithResponse"]
		}
		if response == "" { // every body has a name of its own
			response = responses[operation+strings.TrimPrefix(name, "New"+operation+"Request")+"WithResponse"]
		}
		if response == "" || parsers[response] == "" {
			continue
		}
		call := calls[operation]
		if call == nil {
			call = &Call{Response: response, Parse: parsers[response]}
			calls[operation], operations[response] = call, operation
		}
		call.Builders = append(call.Builders, Builder{Func: name, Tag: match[2]})
	}
	for _, call := range calls {
		slices.SortFunc(call.Builders, func(a, b Builder) int {
			return int(l.funcs[a.Func].decl.Pos() - l.funcs[b.Func].decl.Pos())
		})
		l.arguments(call)
	}
	var order []string
	for _, m := range c.Methods {
		if name := operations[responses[m.Name]]; name != "" && !slices.Contains(order, name) {
			order = append(order, name)
		}
	}
	return calls, order
}

// isBuilder reports whether f takes a server's address and returns a request.
func isBuilder(f function) bool {
	params, results := fields(f.file, f.decl.Type.Params, 0), fields(f.file, f.decl.Type.Results, 0)
	return len(params) > 0 && params[0].Type.String() == "string" &&
		len(results) == 2 && results[0].Type.Is("net/http", "*Request")
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

// arguments reads what the builders of a call take, and where they send it.
func (l *loader) arguments(call *Call) {
	hasAny := slices.ContainsFunc(call.Builders, func(b Builder) bool { return strings.HasSuffix(b.Func, "RequestWithBody") })
	for i := range call.Builders {
		b := &call.Builders[i]
		f := l.funcs[b.Func]
		params := fields(f.file, f.decl.Type.Params, 1)
		switch {
		case strings.HasSuffix(b.Func, "RequestWithBody") && len(params) >= 2 && params[len(params)-1].Type.Is("io", "Reader"):
			b.Any = true
			params = params[:len(params)-2]
		case hasAny && len(params) >= 1:
			b.Body = params[len(params)-1].Type
			if b.Tag == "" {
				b.Tag = "JSON"
			}
			params = params[:len(params)-1]
		}
		if n := len(params); n > 0 && params[n-1].Name == "params" {
			if elem, ok := params[n-1].Type.Elem(); ok {
				call.Params = elem
				params = params[:n-1]
			}
		}
		call.Path = params
		if method, pattern, ok := route(f.decl.Body); ok {
			call.Method, call.Pattern = method, pattern
		}
	}
}

// route finds the method and the path that a builder's code has.
func route(body *ast.BlockStmt) (method, pattern string, ok bool) {
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
	return method, pattern, method != "" && pattern != ""
}

func literal(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}
