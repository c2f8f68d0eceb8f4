package idempotencykey

import (
	"go/ast"
	"go/types"
	"slices"

	"golang.org/x/tools/go/ast/inspector"
)

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
