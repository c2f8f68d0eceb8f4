package idempotencykey

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/ast/edge"
	"golang.org/x/tools/go/ast/inspector"
)

// isZero tells whether e is written as the zero key or request.
func (c *checker) isZero(e ast.Expr) bool {
	if !carriesKey(c.pass.TypesInfo.TypeOf(e)) {
		return false
	}
	switch e := ast.Unparen(e).(type) {
	case *ast.CompositeLit:
		return len(e.Elts) == 0
	case *ast.StarExpr:
		call, ok := ast.Unparen(e.X).(*ast.CallExpr)
		if !ok {
			return false
		}
		id, ok := ast.Unparen(call.Fun).(*ast.Ident)
		return ok && c.pass.TypesInfo.Uses[id] == types.Universe.Lookup("new")
	}
	return false
}

// checkZero reports zero keys and requests that are passed on or assigned, and
// requests that no constructor made.
func (c *checker) checkZero() {
	for cur := range c.root.Preorder((*ast.CallExpr)(nil), (*ast.AssignStmt)(nil), (*ast.CompositeLit)(nil)) {
		switch n := cur.Node().(type) {
		case *ast.CallExpr:
			c.checkArguments(cur, n)
		case *ast.AssignStmt:
			for i, target := range n.Lhs {
				s, ok := ast.Unparen(target).(*ast.SelectorExpr)
				if ok && len(n.Rhs) == len(n.Lhs) && isRequest(c.pass.TypesInfo.TypeOf(s.X)) && c.isZero(n.Rhs[i]) {
					c.reportf(zeroKey, n.Rhs[i], nil, "%s gets the zero key, which is no key: the call fails before it is sent", text(target))
				}
			}
		case *ast.CompositeLit:
			if len(n.Elts) > 0 && isRequest(c.pass.TypesInfo.TypeOf(n)) {
				c.reportf(zeroKey, n, nil, "this request has no input: make it with %s", c.constructor(n))
			}
		}
	}
}

// constructor names the function that makes requests of the type of lit.
func (c *checker) constructor(lit *ast.CompositeLit) string {
	return "New" + named(c.pass.TypesInfo.TypeOf(lit)).Obj().Name()
}

// checkArguments reports zero keys and requests among a call's arguments. A
// parameter of another type takes anything, like a comparison's.
func (c *checker) checkArguments(cur inspector.Cursor, call *ast.CallExpr) {
	fn := c.callee(call)
	if fn == nil || strings.Contains(fn.Name(), "Equal") {
		return
	}
	for i, arg := range call.Args {
		p := parameter(fn.Signature(), i)
		if p == nil || !takesKey(p.Type()) {
			continue
		}
		kind := "key, which is no key"
		if isRequest(c.pass.TypesInfo.TypeOf(arg)) {
			kind = "request, which has no key and no input"
		}
		switch {
		case c.isZero(arg):
			c.reportf(zeroKey, arg, nil, "%s gets the zero %s: it fails before anything is sent", fn.Name(), kind)
		case c.neverSet(cur, c.variable(arg)):
			c.reportf(zeroKey, arg, nil, "%s gets %s, which is never set and so the zero %s", fn.Name(), text(arg), kind)
		}
	}
}

// takesKey tells whether a parameter takes keys or requests and nothing else.
func takesKey(t types.Type) bool {
	if s, ok := t.(*types.Slice); ok { // a variadic parameter
		t = s.Elem()
	}
	return carriesKey(t)
}

// neverSet tells whether v is a local key or request that is declared without
// a value and gets none.
func (c *checker) neverSet(cur inspector.Cursor, v *types.Var) bool {
	if v == nil || !carriesKey(v.Type()) {
		return false
	}
	fn, ok := c.functionAround(cur)
	if !ok || !within(v.Pos(), fn.decl.Body) {
		return false
	}
	declared, set := false, false
	for cur, id := range each[*ast.Ident](fn.cur) {
		switch {
		case c.pass.TypesInfo.ObjectOf(id) != v:
		case c.declaresZero(cur):
			declared = true
		case c.sets(cur):
			set = true
		}
	}
	return declared && !set
}

// declaresZero tells whether id is declared as a zero value: var id T, or
// id := T{}.
func (c *checker) declaresZero(id inspector.Cursor) bool {
	switch n := id.Parent().Node().(type) {
	case *ast.ValueSpec:
		return len(n.Values) == 0
	case *ast.AssignStmt:
		return n.Tok == token.DEFINE && len(n.Lhs) == len(n.Rhs) &&
			id.ParentEdgeKind() == edge.AssignStmt_Lhs && c.isZero(n.Rhs[id.ParentEdgeIndex()])
	}
	return false
}

// sets tells whether the variable at id may get a value there: it is assigned
// to, or its address is taken, be it for a method.
func (c *checker) sets(id inspector.Cursor) bool {
	for cur := id; ; cur = cur.Parent() {
		switch parent := cur.Parent().Node().(type) {
		case *ast.ParenExpr, *ast.IndexExpr:
		case *ast.SelectorExpr:
			selection := c.pass.TypesInfo.Selections[parent]
			if selection != nil && selection.Kind() == types.MethodVal {
				_, pointer := selection.Obj().(*types.Func).Signature().Recv().Type().(*types.Pointer)
				return pointer
			}
		case *ast.UnaryExpr:
			return parent.Op == token.AND
		case *ast.AssignStmt:
			return cur.ParentEdgeKind() == edge.AssignStmt_Lhs
		case *ast.RangeStmt:
			return cur.ParentEdgeKind() != edge.RangeStmt_X
		case *ast.ValueSpec:
			return cur.ParentEdgeKind() == edge.ValueSpec_Names
		default:
			return false
		}
	}
}
