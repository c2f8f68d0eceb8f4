package idempotencykey

import (
	"go/ast"
	"go/types"
	"iter"
	"slices"

	"golang.org/x/tools/go/ast/inspector"
)

// each gives the nodes of type N in cur, in the order of the source.
func each[N ast.Node](cur inspector.Cursor) iter.Seq2[inspector.Cursor, N] {
	return func(yield func(inspector.Cursor, N) bool) {
		var kind N
		for child := range cur.Preorder(kind) {
			if n, ok := child.Node().(N); ok && !yield(child, n) {
				return
			}
		}
	}
}

// function is a function or method of the package, with its body.
type function struct {
	cur    inspector.Cursor
	decl   *ast.FuncDecl
	object *types.Func
}

func (f function) params() []*types.Var {
	return slices.Collect(f.object.Signature().Params().Variables())
}

// declaredFunctions finds the package's functions.
func (c *checker) declaredFunctions() []function {
	var all []function
	for cur, decl := range each[*ast.FuncDecl](c.root) {
		object, ok := c.pass.TypesInfo.Defs[decl.Name].(*types.Func)
		if ok && decl.Body != nil {
			all = append(all, function{cur, decl, object})
		}
	}
	return all
}

// functionAround returns the function whose declaration cur stands in. The
// value of a package's variable stands in none.
func (c *checker) functionAround(cur inspector.Cursor) (function, bool) {
	for around := range cur.Enclosing((*ast.FuncDecl)(nil)) {
		if i := slices.IndexFunc(c.functions, func(f function) bool { return f.cur == around }); i >= 0 {
			return c.functions[i], true
		}
	}
	return function{}, false
}

// exportUntilStable exports a fact for each function that find finds one for.
// It goes over them again as long as it finds more: what a function does may
// follow from a fact of another.
func (c *checker) exportUntilStable(functions []function, export func(function) bool) {
	left := functions
	for {
		var still []function
		for _, fn := range left {
			if !export(fn) {
				still = append(still, fn)
			}
		}
		if len(still) == len(left) {
			return
		}
		left = still
	}
}
