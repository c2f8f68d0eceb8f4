package idempotencykey

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/ast/inspector"
)

// freshFact says that every key and every request that a function returns is
// under a new random key, errors aside.
type freshFact struct{}

func (*freshFact) AFact() {}

func (*freshFact) String() string { return "fresh" }

// exportFreshFacts finds this package's functions that return new keys.
func (c *checker) exportFreshFacts() {
	var candidates []function
	for _, fn := range c.functions {
		results := slices.Collect(fn.object.Signature().Results().Variables())
		if slices.ContainsFunc(results, func(v *types.Var) bool { return carriesKey(v.Type()) }) {
			candidates = append(candidates, fn)
		}
	}
	c.exportUntilStable(candidates, func(fn function) bool {
		fresh := c.returnsFresh(fn)
		if fresh {
			c.pass.ExportObjectFact(fn.object, new(freshFact))
		}
		return fresh
	})
}

// returnsFresh tells whether a function returns new keys and zero ones alone,
// and at least one new key.
func (c *checker) returnsFresh(fn function) bool {
	f, fresh, other := c.flowOf(fn), false, false
	fn.cur.Inspect([]ast.Node{(*ast.FuncLit)(nil), (*ast.ReturnStmt)(nil)}, func(cur inspector.Cursor) bool {
		n, ok := cur.Node().(*ast.ReturnStmt)
		if !ok {
			return false // a literal's returns are its own
		}
		for _, e := range n.Results {
			switch t := c.pass.TypesInfo.TypeOf(e); {
			case len(n.Results) == 1 && c.isFresh(e, f):
				fresh = true
			case !carriesKey(t) || c.isZero(e):
			case c.isFresh(e, f):
				fresh = true
			default:
				other = true
			}
		}
		other = other || len(n.Results) == 0
		return true
	})
	return fresh && !other
}

// isFresh tells whether e is a new random key, or a request under one.
func (c *checker) isFresh(e ast.Expr, f flow) bool {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		v := c.variable(e)
		return v != nil && len(f[v]) > 0 && !slices.ContainsFunc(f[v], func(a assignment) bool {
			return a.value == nil || c.variable(a.value) == v || !c.isFresh(a.value, f)
		})
	case *ast.CallExpr:
		if c.makesFresh(e, f) {
			return true
		}
		return carriesKey(c.pass.TypesInfo.TypeOf(e)) &&
			slices.ContainsFunc(e.Args, func(arg ast.Expr) bool {
				return isKey(c.pass.TypesInfo.TypeOf(arg)) && c.isFresh(arg, f)
			})
	}
	return false
}

// makesFresh tells whether a call itself makes a new random key.
func (c *checker) makesFresh(call *ast.CallExpr, f flow) bool {
	fn := c.callee(call)
	if fn == nil {
		return false
	}
	return c.returnsFreshKey(fn) || isParser(fn) && c.isMadeOf(call.Args[0], f, func(e ast.Expr) verdict {
		if made, ok := e.(*ast.CallExpr); ok && isRandom(c.callee(made)) {
			return yes
		}
		return unknown
	})
}

// returnsFreshKey tells whether each call of fn returns a new key, or a request
// under one.
func (c *checker) returnsFreshKey(fn *types.Func) bool {
	return path(fn) == runtimePath && fn.Name() == "NewKey" || c.pass.ImportObjectFact(fn, new(freshFact))
}

// isParser tells whether fn makes a key from one text: ParseKey, MustParseKey,
// and generated parsers.
func isParser(fn *types.Func) bool {
	sig := fn.Signature()
	if sig.Params().Len() != 1 || sig.Results().Len() == 0 || !isKey(sig.Results().At(0).Type()) {
		return false
	}
	basic, ok := sig.Params().At(0).Type().Underlying().(*types.Basic)
	return ok && basic.Kind() == types.String
}

// randomPackages make values that are new at each call.
var randomPackages = map[string]bool{
	"crypto/rand": true, "math/rand": true,
	"github.com/gofrs/uuid": true, "github.com/google/uuid": true, "github.com/hashicorp/go-uuid": true,
	"github.com/oklog/ulid": true, "github.com/rs/xid": true, "github.com/segmentio/ksuid": true,
	"github.com/satori/go.uuid": true, "github.com/jaevor/go-nanoid": true, "github.com/matoous/go-nanoid": true,
}

// isRandom tells whether fn returns a new random value. UUIDs of versions 3
// and 5 are made from their arguments, and Parse and Must from theirs.
func isRandom(fn *types.Func) bool {
	if fn == nil || !randomPackages[withoutVersion(path(fn))] || fn.Signature().Recv() != nil {
		return false
	}
	for _, prefix := range []string{"New", "Make", "Must", "Generate", "Text", "Int", "Uint", "Perm", "N"} {
		if strings.HasPrefix(fn.Name(), prefix) {
			return !slices.Contains([]string{"NewSHA1", "NewMD5", "NewHash", "NewV3", "NewV5", "Must", "MustParse", "MustParseStrict"}, fn.Name())
		}
	}
	return false
}
