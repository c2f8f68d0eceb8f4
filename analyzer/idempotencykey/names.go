package idempotencykey

import (
	"go/ast"
	"go/constant"
	"go/types"
	"slices"

	"golang.org/x/tools/go/types/typeutil"
)

// The analyzer knows the runtime by these names, since the two never import
// each other.
const (
	runtimeModule = "github.com/idemgen/idemgen/runtime"
	runtimePath   = "github.com/idemgen/idemgen/runtime/idempotency"
)

// named returns the named type that t is, without its type arguments, or nil.
func named(t types.Type) *types.Named {
	n, ok := types.Unalias(t).(*types.Named)
	if !ok {
		return nil
	}
	return n.Origin()
}

// isNamed tells whether t, or what it points to, is the type of that name.
func isNamed(t types.Type, path, name string) bool {
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	n := named(t)
	return n != nil && n.Obj().Name() == name && n.Obj().Pkg() != nil && n.Obj().Pkg().Path() == path
}

// isKey tells whether t is an idempotency key.
func isKey(t types.Type) bool {
	_, pointer := types.Unalias(t).(*types.Pointer)
	return !pointer && isNamed(t, runtimePath, "Key")
}

// isRequest tells whether t is a generated request: a struct with a field
// IdempotencyKey that holds a key, and a sealed input.
func isRequest(t types.Type) bool {
	if named(t) == nil {
		return false
	}
	s, ok := t.Underlying().(*types.Struct)
	if !ok {
		return false
	}
	hasKey, hasInput := false, false
	for f := range s.Fields() {
		hasKey = hasKey || f.Name() == "IdempotencyKey" && isKey(f.Type())
		hasInput = hasInput || isNamed(f.Type(), runtimePath, "Sealed")
	}
	return hasKey && hasInput
}

func carriesKey(t types.Type) bool { return t != nil && (isKey(t) || isRequest(t)) }

func isContext(t types.Type) bool {
	_, pointer := types.Unalias(t).(*types.Pointer)
	return !pointer && isNamed(t, "context", "Context")
}

// frameworkContexts are the packages that declare a type Context or Ctx, which
// the handlers of a framework's servers get.
var frameworkContexts = []string{
	"github.com/gin-gonic/gin",
	"github.com/gofiber/fiber/v2",
	"github.com/gofiber/fiber/v3",
	"github.com/kataras/iris/v12/context",
	"github.com/labstack/echo/v4",
	"github.com/labstack/echo/v5",
}

// isFrameworkContext tells whether t is what a framework's handlers get.
func isFrameworkContext(t types.Type) bool {
	return slices.ContainsFunc(frameworkContexts, func(path string) bool {
		return isNamed(t, path, "Context") || isNamed(t, path, "Ctx")
	})
}

// isHTTPRequest tells whether t is what the handlers of net/http get.
func isHTTPRequest(t types.Type) bool { return isNamed(t, "net/http", "Request") }

// carriesContext tells whether a middleware can have put something into t.
func carriesContext(t types.Type) bool {
	return isContext(t) || isFrameworkContext(t) || isHTTPRequest(t)
}

func isError(t types.Type) bool {
	return t != nil && types.Identical(t, types.Universe.Lookup("error").Type())
}

// callee returns the function or method that is called, without its type
// arguments, or nil for a function value, a builtin and a conversion.
func (c *checker) callee(call *ast.CallExpr) *types.Func {
	f, ok := typeutil.Callee(c.pass.TypesInfo, call).(*types.Func)
	if !ok {
		return nil
	}
	return f.Origin()
}

// path returns the path of the package that declares f, or "" for a nil f and
// for the error interface's method.
func path(f *types.Func) string {
	if f == nil || f.Pkg() == nil {
		return ""
	}
	return f.Pkg().Path()
}

// receiver returns the expression whose method is called, or nil for a plain
// function.
func (c *checker) receiver(call *ast.CallExpr) ast.Expr {
	fun := ast.Unparen(call.Fun)
	if indexed, ok := fun.(*ast.IndexExpr); ok {
		fun = indexed.X
	}
	s, ok := fun.(*ast.SelectorExpr)
	if !ok {
		return nil
	}
	if c.pass.TypesInfo.Selections[s] == nil {
		return nil
	}
	return s.X
}

// isConversion tells whether call converts its argument to a type.
func (c *checker) isConversion(call *ast.CallExpr) bool {
	return c.pass.TypesInfo.Types[call.Fun].IsType()
}

// variable returns the variable that e names, or nil.
func (c *checker) variable(e ast.Expr) *types.Var {
	id, ok := ast.Unparen(e).(*ast.Ident)
	if !ok {
		return nil
	}
	v, _ := c.pass.TypesInfo.ObjectOf(id).(*types.Var)
	return v
}

// constantString returns the value of e if it is a constant text.
func (c *checker) constantString(e ast.Expr) (string, bool) {
	value := c.pass.TypesInfo.Types[e].Value
	if value == nil || value.Kind() != constant.String {
		return "", false
	}
	return constant.StringVal(value), true
}

// parameter returns the declared parameter that takes the i-th argument of a
// call to a function of that signature, or nil.
func parameter(sig *types.Signature, i int) *types.Var {
	n := sig.Params().Len()
	if sig.Variadic() && i >= n {
		i = n - 1
	}
	if i >= n {
		return nil
	}
	return sig.Params().At(i)
}
