package idempotencykey

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/edge"
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

// mintFact says that each call of a function sends a request under a new key.
type mintFact struct{}

func (*mintFact) AFact() {}

func (*mintFact) String() string { return "mints" }

// exportMintFacts finds this package's functions that make a key and send a
// request under it. Those that do so in a loop or a literal are left out, since
// they may send any number, and so are handlers, which are judged by themselves.
func (c *checker) exportMintFacts() {
	for _, fn := range c.functions {
		for cur, call := range each[*ast.CallExpr](fn.cur) {
			_, handled := c.handlerAround(cur)
			if !handled && !isNested(cur) && c.sendsFresh(call, c.flowOf(fn)) {
				c.pass.ExportObjectFact(fn.object, new(mintFact))
				break
			}
		}
	}
}

// sendsFresh tells whether a call hands on a request under a new key.
func (c *checker) sendsFresh(call *ast.CallExpr, f flow) bool {
	fn := c.callee(call)
	if fn == nil || carriesKey(c.pass.TypesInfo.TypeOf(call)) {
		return false
	}
	for i, arg := range call.Args {
		p := parameter(fn.Signature(), i)
		if p != nil && isRequest(p.Type()) && c.isFresh(arg, f) {
			return true
		}
	}
	return false
}

// isNested tells whether cur stands in a loop or a literal of its function.
func isNested(cur inspector.Cursor) bool {
	for around := range cur.Enclosing((*ast.ForStmt)(nil), (*ast.RangeStmt)(nil), (*ast.FuncLit)(nil), (*ast.FuncDecl)(nil)) {
		_, isDeclaration := around.Node().(*ast.FuncDecl)
		return !isDeclaration
	}
	return true
}

// checkMakers looks at every place where a key is made: what it is made of,
// and how often that happens.
func (c *checker) checkMakers() {
	for cur, call := range each[*ast.CallExpr](c.root) {
		fn := c.callee(call)
		if fn == nil {
			continue
		}
		if c.pass.ImportObjectFact(fn, new(mintFact)) {
			c.checkMint(cur, call)
		}
		if !c.returnsFreshKey(fn) && !isParser(fn) {
			continue
		}
		f := c.flowAround(cur)
		if !c.makesFresh(call, f) {
			c.checkClock(call, f)
			c.checkAttemptNumber(cur, call, f)
		} else if !c.checkRepetition(cur, call, f) {
			c.checkKeyInHandler(cur, call, f)
		}
	}
}

// checkRepetition reports a new key that is made again for each attempt.
func (c *checker) checkRepetition(cur inspector.Cursor, call *ast.CallExpr, f flow) bool {
	around, found := c.repetitionOf(cur, call, f, func(lit *ast.FuncLit) bool { return c.usedAlike(lit, call, f) })
	if found {
		place := "before the loop"
		if _, isLiteral := around.Node().(*ast.FuncLit); isLiteral {
			place = "outside the function"
		}
		c.reportf(keyPerAttempt, call, c.hoist(cur, call, around), "each attempt of this retry gets a new key, so a retry is another operation: make the key %s", place)
	}
	return found
}

// checkMint reports a call of a function that makes its own key, where that
// call is repeated.
func (c *checker) checkMint(cur inspector.Cursor, call *ast.CallExpr) {
	f := c.flowAround(cur)
	if _, found := c.repetitionOf(cur, call, f, func(lit *ast.FuncLit) bool {
		return !c.varies(call, c.literalAttempt(lit), f)
	}); found {
		c.reportf(keyPerAttempt, call, nil, "%s makes a new key at each call and is repeated here, so a retry is another operation: make the key before and pass it on", text(call.Fun))
	}
}

// repetitionOf returns the retry loop around a call, or the literal around it
// that a function repeats, if it makes the call alike in each attempt. A loop
// that is no retry loop gives its turns keys of their own.
func (c *checker) repetitionOf(cur inspector.Cursor, call *ast.CallExpr, f flow, alike func(*ast.FuncLit) bool) (inspector.Cursor, bool) {
	for around := range cur.Enclosing((*ast.ForStmt)(nil), (*ast.RangeStmt)(nil), (*ast.FuncLit)(nil)) {
		lit, isLiteral := around.Node().(*ast.FuncLit)
		switch {
		case !isLiteral:
			return around, c.retriesWith(around, call, f)
		case c.isRepeated(around) && alike(lit):
			return around, true
		}
	}
	return cur, false
}

// retriesWith tells whether a loop repeats a call that is made with target.
func (c *checker) retriesWith(loop inspector.Cursor, target ast.Node, f flow) bool {
	return slices.ContainsFunc(c.repeated(loop, f), func(call *ast.CallExpr) bool {
		return c.dependsOn(call, target, f, loop.Node())
	})
}

// isRepeated tells whether a function literal is given to a function that
// repeats it.
func (c *checker) isRepeated(lit inspector.Cursor) bool {
	parent := lit.Parent()
	call, ok := parent.Node().(*ast.CallExpr)
	if ok && c.isConversion(call) {
		parent = parent.Parent()
		call, ok = parent.Node().(*ast.CallExpr)
	}
	return ok && slices.ContainsFunc(c.repeatedArguments(call), func(i int) bool {
		return i < len(call.Args) && within(lit.Node().Pos(), call.Args[i])
	})
}

// usedAlike tells whether a repeated function calls something with the key at
// target, and else with the same input in each attempt.
func (c *checker) usedAlike(lit *ast.FuncLit, target ast.Node, f flow) bool {
	a, found := c.literalAttempt(lit), false
	ast.Inspect(lit.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if ok && call != target && !carriesKey(c.pass.TypesInfo.TypeOf(call)) && c.receivesKey(call) {
			found = found || c.dependsOn(call, target, f, lit) && !c.varies(call, a, f)
		}
		return !found
	})
	return found
}

// literalAttempt returns the attempt that a repeated function makes. Its
// parameters may differ each time.
func (c *checker) literalAttempt(lit *ast.FuncLit) attempt {
	a := attempt{node: lit, body: lit.Body, counters: map[*types.Var]bool{}}
	for _, field := range lit.Type.Params.List {
		for _, name := range field.Names {
			if v, ok := c.pass.TypesInfo.Defs[name].(*types.Var); ok {
				a.counters[v] = true
			}
		}
	}
	return a
}

// receivesKey tells whether a call hands a key or a request on to something
// that is no part of it.
func (c *checker) receivesKey(call *ast.CallExpr) bool {
	if receiver := c.receiver(call); receiver != nil && carriesKey(c.pass.TypesInfo.TypeOf(receiver)) {
		return false
	}
	return slices.ContainsFunc(call.Args, func(e ast.Expr) bool {
		return carriesKey(c.pass.TypesInfo.TypeOf(e))
	})
}

// hoist suggests to make a key before the loop or call around it, where that
// takes no more than moving it: the call needs nothing, and its name is free.
func (c *checker) hoist(cur inspector.Cursor, call *ast.CallExpr, around inspector.Cursor) []analysis.SuggestedFix {
	fun := ast.Unparen(call.Fun)
	if c.receiver(call) != nil || len(call.Args) > 0 || !isKey(c.pass.TypesInfo.TypeOf(call)) {
		return nil
	}
	if v := c.variable(fun); v != nil { // a function value may change with the attempt
		return nil
	}
	statement, ok := statementAround(around)
	if !ok {
		return nil
	}
	indent := c.indentOf(statement.Node())
	made := text(call)

	// key := New() moves as it is; a call inside an expression gets a name.
	if define, ok := cur.Parent().Node().(*ast.AssignStmt); ok && len(define.Lhs) == 1 {
		name, isName := define.Lhs[0].(*ast.Ident)
		if !isName || define.Tok.String() != ":=" || cur.Parent().Parent().Node() != bodyOf(around.Node()) ||
			!c.isFree(name.Name, statement) || c.setAgain(name, around) {
			return nil
		}
		return []analysis.SuggestedFix{{
			Message: "Make the key before the attempts",
			TextEdits: []analysis.TextEdit{
				{Pos: statement.Node().Pos(), End: statement.Node().Pos(), NewText: []byte(name.Name + " := " + made + "\n" + indent)},
				c.removeLine(define),
			},
		}}
	}
	const name = "key"
	if !c.isFree(name, statement) || c.uses(name, around) {
		return nil
	}
	return []analysis.SuggestedFix{{
		Message: "Make the key before the attempts",
		TextEdits: []analysis.TextEdit{
			{Pos: statement.Node().Pos(), End: statement.Node().Pos(), NewText: []byte(name + " := " + made + "\n" + indent)},
			{Pos: call.Pos(), End: call.End(), NewText: []byte(name)},
		},
	}}
}

// bodyOf returns what runs once for each attempt.
func bodyOf(n ast.Node) ast.Node {
	switch n := n.(type) {
	case *ast.ForStmt:
		return n.Body
	case *ast.RangeStmt:
		return n.Body
	case *ast.FuncLit:
		return n.Body
	}
	return nil
}

// statementAround returns the statement of a block that cur is a part of.
func statementAround(cur inspector.Cursor) (inspector.Cursor, bool) {
	for {
		parent := cur.Parent()
		switch parent.Node().(type) {
		case *ast.BlockStmt, *ast.CaseClause, *ast.CommClause:
			_, ok := cur.Node().(ast.Stmt)
			return cur, ok
		case *ast.FuncDecl, *ast.File, nil:
			return cur, false
		}
		cur = parent
	}
}

// isFree tells whether a variable can get that name before a statement,
// without hiding another one.
func (c *checker) isFree(name string, statement inspector.Cursor) bool {
	scope := c.pass.Pkg.Scope().Innermost(statement.Node().Pos())
	if scope == nil {
		return false
	}
	if scope.Lookup(name) != nil { // declared in the same block, perhaps below
		return false
	}
	_, object := scope.LookupParent(name, statement.Node().Pos())
	return object == nil
}

// uses tells whether something in around has that name already.
func (c *checker) uses(name string, around inspector.Cursor) bool {
	for cur, id := range each[*ast.Ident](around) {
		if id.Name == name && cur.ParentEdgeKind() != edge.SelectorExpr_Sel {
			return true
		}
	}
	return false
}

// setAgain tells whether the variable that name defines gets another value.
func (c *checker) setAgain(name *ast.Ident, around inspector.Cursor) bool {
	v := c.variable(name)
	return v == nil || len(c.flowAround(around)[v]) != 1
}

// indentOf returns the white space before the first statement of a line.
func (c *checker) indentOf(n ast.Node) string {
	file := c.pass.Fset.File(n.Pos())
	content, err := c.pass.ReadFile(file.Name())
	if err != nil {
		return ""
	}
	start := file.Offset(file.LineStart(file.Line(n.Pos())))
	line := string(content[start:file.Offset(n.Pos())])
	return line[:len(line)-len(strings.TrimLeft(line, " \t"))]
}

// removeLine removes a statement, and its line if nothing else stands there.
func (c *checker) removeLine(n ast.Node) analysis.TextEdit {
	file := c.pass.Fset.File(n.Pos())
	line := file.Line(n.Pos())
	edit := analysis.TextEdit{Pos: n.Pos(), End: n.End()}
	content, err := c.pass.ReadFile(file.Name())
	if err != nil || file.Line(n.End()) != line || line == file.LineCount() {
		return edit
	}
	start, next := file.LineStart(line), file.LineStart(line+1)
	before := string(content[file.Offset(start):file.Offset(n.Pos())])
	after := string(content[file.Offset(n.End()):file.Offset(next)])
	if strings.TrimSpace(before)+strings.TrimSpace(after) == "" {
		edit.Pos, edit.End = start, next
	}
	return edit
}
