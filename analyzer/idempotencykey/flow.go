package idempotencykey

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/ast/inspector"
)

// flow says where the variables of a function, and of the function literals in
// it, get their values.
type flow map[*types.Var][]assignment

// assignment gives a variable, or a part of it, a value.
type assignment struct {
	pos token.Pos
	// value is what is assigned, or nil where the value comes from a step, a
	// range or through a pointer.
	value ast.Expr
	how   manner
	part  bool
}

type manner int

const (
	assigned  manner = iota // k = value, k := value, k.f = value, var k = value
	stepped                 // k++, k += value, and the variables of a range
	addressed               // &k
)

// flowOf returns the flow of a declared function.
func (c *checker) flowOf(fn function) flow {
	if f, ok := c.flows[fn.decl]; ok {
		return f
	}
	f := flow{}
	add := func(target ast.Expr, how manner, value ast.Expr) {
		root := rootOf(target)
		if v := c.variable(root); v != nil {
			f[v] = append(f[v], assignment{target.Pos(), value, how, root != ast.Unparen(target)})
		}
	}
	for cur := range fn.cur.Preorder((*ast.AssignStmt)(nil), (*ast.ValueSpec)(nil), (*ast.IncDecStmt)(nil), (*ast.RangeStmt)(nil), (*ast.UnaryExpr)(nil)) {
		switch n := cur.Node().(type) {
		case *ast.AssignStmt:
			how := assigned
			if n.Tok != token.ASSIGN && n.Tok != token.DEFINE {
				how = stepped
			}
			for i, target := range n.Lhs {
				add(target, how, matching(n.Rhs, len(n.Lhs), i))
			}
		case *ast.ValueSpec:
			for i, name := range n.Names {
				if len(n.Values) > 0 {
					add(name, assigned, matching(n.Values, len(n.Names), i))
				}
			}
		case *ast.IncDecStmt:
			add(n.X, stepped, nil)
		case *ast.RangeStmt:
			for _, target := range []ast.Expr{n.Key, n.Value} {
				if target != nil {
					add(target, stepped, n.X)
				}
			}
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				add(n.X, addressed, nil)
			}
		}
	}
	c.flows[fn.decl] = f
	return f
}

// matching returns the value that the i-th of n targets gets: its own, or the
// call that gives them all.
func matching(values []ast.Expr, n, i int) ast.Expr {
	if len(values) == n {
		return values[i]
	}
	return values[0]
}

// rootOf returns the expression that e is a part of: x for x.f, x[i] and *x.
func rootOf(e ast.Expr) ast.Expr {
	for {
		switch x := ast.Unparen(e).(type) {
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		default:
			return x
		}
	}
}

// within tells whether pos lies in node.
func within(pos token.Pos, node ast.Node) bool {
	return node.Pos() <= pos && pos < node.End()
}

// flowAround returns the flow of the declaration that encloses cur, which is
// empty for the value of a package's variable.
func (c *checker) flowAround(cur inspector.Cursor) flow {
	if fn, ok := c.functionAround(cur); ok {
		return c.flowOf(fn)
	}
	return nil
}

// dependsOn tells whether e is made from what stands at target, in part of the
// program that region bounds.
func (c *checker) dependsOn(e ast.Node, target ast.Node, f flow, region ast.Node) bool {
	seen := map[*types.Var]bool{}
	var depends func(n ast.Node) bool
	depends = func(n ast.Node) bool {
		if within(target.Pos(), n) {
			return true
		}
		found := false
		ast.Inspect(n, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok || found {
				return !found
			}
			v, ok := c.pass.TypesInfo.ObjectOf(id).(*types.Var)
			if !ok || seen[v] {
				return true
			}
			seen[v] = true
			for _, a := range f[v] {
				if a.value != nil && within(a.pos, region) && depends(a.value) {
					found = true
				}
			}
			return !found
		})
		return found
	}
	return depends(e)
}
