package gosource

import (
	"go/ast"
	"go/token"
	"strconv"
	"strings"

	"github.com/idemgen/idemgen/generator/internal/diag"
)

// Pattern is what a std-http server registers an operation under, in the form
// of net/http's ServeMux: POST /accounts/{id}.
type Pattern struct {
	Operation string // name of its method
	Text      string
	Pos       diag.Pos
}

// patterns reads the calls m.HandleFunc("POST "+options.BaseURL+"/path",
// wrapper.Method) of HandlerWithOptions. Those of other servers name no method
// in their path.
func (l *loader) patterns() []Pattern {
	f, ok := l.funcs["HandlerWithOptions"]
	if !ok || f.decl.Body == nil {
		return nil
	}
	var found []Pattern
	ast.Inspect(f.decl.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) != 2 {
			return true
		}
		register, isSelector := call.Fun.(*ast.SelectorExpr)
		handler, isMethod := call.Args[1].(*ast.SelectorExpr)
		if !isSelector || !isMethod || register.Sel.Name != "HandleFunc" {
			return true
		}
		text := patternText(call.Args[0])
		if method, path, _ := strings.Cut(text, " "); method != "" && strings.HasPrefix(path, "/") {
			found = append(found, Pattern{Operation: handler.Sel.Name, Text: text, Pos: l.pos(call.Args[0])})
		}
		return true
	})
	return found
}

// patternText joins the parts of a pattern. The base URL that users may set
// counts as empty.
func patternText(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		return patternText(e.X) + patternText(e.Y)
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			text, _ := strconv.Unquote(e.Value) // a literal that parses has a value
			return text
		}
	case *ast.SelectorExpr:
		if method, ok := strings.CutPrefix(e.Sel.Name, "Method"); ok {
			return strings.ToUpper(method)
		}
	}
	return ""
}
