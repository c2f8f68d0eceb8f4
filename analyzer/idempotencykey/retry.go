package idempotencykey

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/ast/inspector"
)

// A retry loop counts or goes on without end, is left when a call has returned
// no error, and repeats that call with the same input. Each of the three is
// needed: a batch takes other input, a worker goes on after success, and a
// search for a free name varies the name.

// attempt is a part of the program that runs once for each attempt: the body
// of a loop, or a function literal.
type attempt struct {
	node ast.Node
	body *ast.BlockStmt
	// counters are its variables that differ in each attempt.
	counters map[*types.Var]bool
	label    string
}

// loopAttempt returns the attempt that a loop makes in each turn if the loop
// counts, waits or is endless: it takes its turns from no collection, channel
// or iterator.
func (c *checker) loopAttempt(cur inspector.Cursor) (attempt, bool) {
	a := attempt{node: cur.Node(), counters: map[*types.Var]bool{}}
	count := func(e ast.Expr) {
		if v := c.variable(e); v != nil {
			a.counters[v] = true
		}
	}
	switch n := cur.Node().(type) {
	case *ast.ForStmt:
		if n.Cond != nil && c.takesInput(n.Cond) {
			return a, false
		}
		a.body = n.Body
		if init, ok := n.Init.(*ast.AssignStmt); ok && n.Post != nil {
			for _, e := range init.Lhs {
				count(e)
			}
		}
		switch post := n.Post.(type) {
		case *ast.IncDecStmt:
			count(post.X)
		case *ast.AssignStmt:
			for _, e := range post.Lhs {
				count(e)
			}
		}
	case *ast.RangeStmt:
		if !countsOrWaits(c.pass.TypesInfo.TypeOf(n.X)) {
			return a, false
		}
		a.body = n.Body
		if n.Key != nil {
			count(n.Key)
		}
		if n.Value != nil {
			count(n.Value)
		}
	}
	if labeled, ok := cur.Parent().Node().(*ast.LabeledStmt); ok {
		a.label = labeled.Label.Name
	}
	return a, true
}

// countsOrWaits tells whether a range over t is a number of turns, or a list
// of pauses between attempts.
func countsOrWaits(t types.Type) bool {
	switch u := t.Underlying().(type) {
	case *types.Basic:
		return u.Info()&types.IsInteger != 0
	case *types.Slice:
		return isNamed(u.Elem(), "time", "Duration")
	case *types.Array:
		return isNamed(u.Elem(), "time", "Duration")
	}
	return false
}

// repeated returns the calls that the loop repeats until they succeed, or
// nothing if the loop is no retry loop.
func (c *checker) repeated(cur inspector.Cursor, f flow) []*ast.CallExpr {
	a, ok := c.loopAttempt(cur)
	if !ok {
		return nil
	}
	var calls []*ast.CallExpr
	ast.Inspect(a.body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ForStmt, *ast.RangeStmt, *ast.FuncLit:
			return false
		case *ast.AssignStmt:
			if len(n.Rhs) != 1 {
				return true
			}
			call, ok := ast.Unparen(n.Rhs[0]).(*ast.CallExpr)
			v := c.variable(n.Lhs[len(n.Lhs)-1])
			if ok && v != nil && isError(v.Type()) && c.leftOnSuccess(a, v) && !c.varies(call, a, f) {
				calls = append(calls, call)
			}
		}
		return true
	})
	return calls
}

// leftOnSuccess tells whether the loop ends because err is nil.
func (c *checker) leftOnSuccess(a attempt, err *types.Var) bool {
	if loop, ok := a.node.(*ast.ForStmt); ok && loop.Cond != nil && c.failed(loop.Cond, err) {
		return true
	}
	return c.leaves(a, a.body.List, err)
}

// leaves tells whether a statement of a list leaves the loop because err is
// nil.
func (c *checker) leaves(a attempt, stmts []ast.Stmt, err *types.Var) bool {
	for i, s := range stmts {
		leaves := false
		switch s := s.(type) {
		case *ast.IfStmt:
			leaves = c.ifLeaves(a, s, stmts[i+1:], err)
		case *ast.SwitchStmt:
			leaves = s.Tag == nil && slices.ContainsFunc(s.Body.List, func(n ast.Stmt) bool {
				clause, ok := n.(*ast.CaseClause)
				return ok && a.exits(clause, s) && slices.ContainsFunc(clause.List, func(e ast.Expr) bool {
					return c.succeeded(e, err)
				})
			})
		case *ast.BlockStmt:
			leaves = c.leaves(a, s.List, err)
		}
		if leaves {
			return true
		}
	}
	return false
}

// ifLeaves tells the same of an if, and of what follows it: the loop is left
// on success, or else it goes on with the next attempt after an error.
func (c *checker) ifLeaves(a attempt, s *ast.IfStmt, following []ast.Stmt, err *types.Var) bool {
	switch {
	case c.succeeded(s.Cond, err):
		return a.exits(s.Body)
	case c.failed(s.Cond, err):
		otherwise, isBlock := s.Else.(*ast.BlockStmt)
		return isBlock && a.exits(otherwise) ||
			endsWith(s.Body.List, token.CONTINUE) && leavesAtEnd(following)
	}
	return false
}

// succeeded tells whether a true cond says that err is nil, or of a kind that
// is not tried again.
func (c *checker) succeeded(cond ast.Expr, err *types.Var) bool {
	switch e := ast.Unparen(cond).(type) {
	case *ast.BinaryExpr:
		switch e.Op {
		case token.EQL:
			return c.comparesNil(e, err)
		case token.LAND: // err != nil && !retryable(err) speaks of an error alone
			return (c.succeeded(e.X, err) || c.succeeded(e.Y, err)) && !c.failed(e, err)
		case token.LOR:
			return c.succeeded(e.X, err) || c.succeeded(e.Y, err)
		}
	case *ast.UnaryExpr:
		call, ok := ast.Unparen(e.X).(*ast.CallExpr)
		return ok && e.Op == token.NOT && c.judges(call, err)
	}
	return false
}

// failed tells whether a true cond says that err is an error.
func (c *checker) failed(cond ast.Expr, err *types.Var) bool {
	switch e := ast.Unparen(cond).(type) {
	case *ast.BinaryExpr:
		switch e.Op {
		case token.NEQ:
			return c.comparesNil(e, err)
		case token.LAND, token.LOR:
			return c.failed(e.X, err) || c.failed(e.Y, err)
		}
	case *ast.CallExpr:
		return c.judges(e, err)
	}
	return false
}

func (c *checker) comparesNil(e *ast.BinaryExpr, err *types.Var) bool {
	x, y := e.X, e.Y
	return c.variable(x) == err && c.pass.TypesInfo.Types[y].IsNil() ||
		c.variable(y) == err && c.pass.TypesInfo.Types[x].IsNil()
}

// judges tells whether call decides on err.
func (c *checker) judges(call *ast.CallExpr, err *types.Var) bool {
	return slices.ContainsFunc(call.Args, func(e ast.Expr) bool { return c.variable(e) == err })
}

// exits tells whether a statement in node, which stands in around, leaves the
// loop. A loop inside it is another matter.
func (a attempt) exits(node ast.Node, around ...ast.Node) bool {
	found := false
	ast.PreorderStack(node, around, func(n ast.Node, stack []ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit, *ast.ForStmt, *ast.RangeStmt:
			return false
		case *ast.ReturnStmt:
			found = true
		case *ast.BranchStmt:
			switch {
			case n.Tok == token.GOTO,
				n.Tok == token.BREAK && n.Label != nil && n.Label.Name == a.label,
				n.Tok == token.BREAK && n.Label == nil && !slices.ContainsFunc(stack, takesBreak):
				found = true
			}
		}
		return !found
	})
	return found
}

// takesBreak tells whether a break in n, which is no loop, leaves n.
func takesBreak(n ast.Node) bool {
	switch n.(type) {
	case *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt:
		return true
	}
	return false
}

// endsWith tells whether a list of statements ends with that branch.
func endsWith(stmts []ast.Stmt, tok token.Token) bool {
	if len(stmts) == 0 {
		return false
	}
	branch, ok := stmts[len(stmts)-1].(*ast.BranchStmt)
	return ok && branch.Tok == tok
}

// leavesAtEnd tells whether a list of statements of a loop's body leaves the
// loop at its end.
func leavesAtEnd(stmts []ast.Stmt) bool {
	if endsWith(stmts, token.BREAK) {
		return true
	}
	if len(stmts) == 0 {
		return false
	}
	_, returns := stmts[len(stmts)-1].(*ast.ReturnStmt)
	return returns
}

// inputName begins the names of functions that return something else at each
// call.
var inputName = regexp.MustCompile(`^(?i:accept|advance|consume|dequeue|fetch|hasmore|hasnext|more|next|peek|poll|pop|pull|read|receive|recv|scan|take)([A-Z]|$)`)

// takesInput tells whether e asks an iterator, a queue or a channel for more.
func (c *checker) takesInput(e ast.Expr) bool {
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			found = found || c.isInput(n)
		case *ast.UnaryExpr:
			found = found || n.Op == token.ARROW
		}
		return !found
	})
	return found
}

// isInput tells whether a call takes the next piece of some input. The name of
// an API's operation says nothing of that kind, nor does a retry's own counter.
func (c *checker) isInput(call *ast.CallExpr) bool {
	var name string
	switch fun := ast.Unparen(call.Fun).(type) {
	case *ast.SelectorExpr:
		name = fun.Sel.Name
	case *ast.Ident:
		name = fun.Name
	}
	from := path(c.callee(call))
	return inputName.MatchString(name) && !c.receivesKey(call) &&
		!strings.Contains(from, "retry") && !strings.Contains(from, "backoff")
}

// varies tells whether a call of an attempt gets input that the attempt has
// made or taken, its key and its context aside: then the next attempt does
// something else.
func (c *checker) varies(call *ast.CallExpr, a attempt, f flow) bool {
	v := variation{c, call, a, f, map[*types.Var]bool{}, map[*types.Var]bool{}}
	return c.isInput(call) || v.inCall(call)
}

type variation struct {
	*checker

	call    *ast.CallExpr
	attempt attempt
	flow    flow

	begun, done map[*types.Var]bool
}

// in tells whether the value of e differs in each attempt.
func (v variation) in(e ast.Expr) bool {
	if e == nil {
		return false
	}
	if t := v.pass.TypesInfo.TypeOf(e); t != nil && (isKey(t) || isContext(t)) {
		return false
	}
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return v.inVariable(v.variable(e))
	case *ast.SelectorExpr:
		return v.in(e.X)
	case *ast.StarExpr:
		return v.in(e.X)
	case *ast.TypeAssertExpr:
		return v.in(e.X)
	case *ast.IndexExpr:
		return v.in(e.X) || v.in(e.Index)
	case *ast.SliceExpr:
		return v.in(e.X) || v.in(e.Low) || v.in(e.High)
	case *ast.KeyValueExpr:
		return v.in(e.Value)
	case *ast.BinaryExpr:
		return v.in(e.X) || v.in(e.Y)
	case *ast.UnaryExpr:
		return e.Op == token.ARROW || v.in(e.X)
	case *ast.CompositeLit:
		return slices.ContainsFunc(e.Elts, v.in)
	case *ast.CallExpr:
		return v.madeBy(e)
	case *ast.FuncLit:
		return v.inFunction(e)
	}
	return false
}

// inFunction looks at what a function literal uses of the attempt around it.
func (v variation) inFunction(lit *ast.FuncLit) bool {
	found := false
	ast.Inspect(lit.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.UnaryExpr:
			found = found || n.Op == token.ARROW
		case *ast.CallExpr:
			found = found || v.isInput(n)
		case *ast.Ident:
			found = found || v.in(n)
		}
		return !found
	})
	return found
}

func (v variation) inVariable(obj *types.Var) bool {
	switch {
	case obj == nil || v.done[obj]:
		return false
	case v.attempt.counters[obj]:
		return true
	case v.begun[obj]: // it is made from itself, and so from the attempt before
		return !within(obj.Pos(), v.attempt.body)
	}
	v.begun[obj] = true
	defer func() { v.done[obj] = true }()
	for _, a := range v.flow[obj] {
		// A method that keeps its state in its receiver still does the same.
		if !within(a.pos, v.attempt.body) || a.part && obj.Kind() == types.RecvVar {
			continue
		}
		switch {
		case a.how == stepped, a.how == addressed && !within(a.pos, v.call):
			return true
		case a.value == nil:
		case within(v.call.Pos(), a.value): // its own result, of the attempt before
			return true
		case v.in(a.value):
			return true
		}
	}
	return false
}

// madeBy tells whether a call that makes input returns something else in each
// attempt.
func (v variation) madeBy(call *ast.CallExpr) bool {
	if v.isConversion(call) {
		return v.in(call.Args[0])
	}
	f := v.callee(call)
	switch {
	case path(f) == "time" || path(f) == "context":
		return false
	case isRandom(f), v.isInput(call):
		return true
	case f != nil && len(call.Args) == 0:
		return !v.reads(call, f) && !v.makesFresh(call, v.flow)
	}
	return v.inCall(call)
}

// reads tells whether a call without arguments shows a value rather than
// making one.
func (v variation) reads(call *ast.CallExpr, f *types.Func) bool {
	receiver := v.receiver(call)
	return receiver != nil && (f.Name() == "String" || carriesKey(v.pass.TypesInfo.TypeOf(receiver)))
}

func (v variation) inCall(call *ast.CallExpr) bool {
	if receiver := v.receiver(call); receiver != nil && v.in(receiver) {
		return true
	}
	if lit, ok := ast.Unparen(call.Fun).(*ast.FuncLit); ok && v.in(lit) {
		return true
	}
	return slices.ContainsFunc(call.Args, v.in)
}

// retryFact says that a function repeats those of its parameters until they
// return no error.
type retryFact struct{ Params []int }

func (*retryFact) AFact() {}

func (f *retryFact) String() string { return fmt.Sprintf("repeats%v", f.Params) }

// exportRetryFacts finds this package's functions that repeat a parameter.
func (c *checker) exportRetryFacts() {
	var candidates []function
	for _, fn := range c.functions {
		if slices.ContainsFunc(fn.params(), isFunction) {
			candidates = append(candidates, fn)
		}
	}
	c.exportUntilStable(candidates, func(fn function) bool {
		fact := retryFact{}
		for i, p := range fn.params() {
			if isFunction(p) && c.repeats(fn, p) {
				fact.Params = append(fact.Params, i)
			}
		}
		if len(fact.Params) > 0 {
			c.pass.ExportObjectFact(fn.object, &fact)
		}
		return len(fact.Params) > 0
	})
}

func isFunction(v *types.Var) bool {
	_, ok := v.Type().Underlying().(*types.Signature)
	return ok
}

// repeats tells whether a function calls its parameter p in a retry loop, or
// lets another function repeat it.
func (c *checker) repeats(fn function, p *types.Var) bool {
	f := c.flowOf(fn)
	callsIt := func(e ast.Expr) bool { return c.calls(e, p) }
	for loop := range fn.cur.Preorder((*ast.ForStmt)(nil), (*ast.RangeStmt)(nil)) {
		for _, call := range c.repeated(loop, f) {
			if callsIt(call) {
				return true
			}
		}
	}
	for _, call := range each[*ast.CallExpr](fn.cur) {
		for _, i := range c.repeatedArguments(call) {
			if i < len(call.Args) && callsIt(call.Args[i]) {
				return true
			}
		}
	}
	return false
}

// calls tells whether e is the function p, a call of it, or a function literal
// that calls it.
func (c *checker) calls(e ast.Expr, p *types.Var) bool {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return c.variable(e) == p
	case *ast.CallExpr:
		return c.variable(e.Fun) == p || c.isConversion(e) && c.calls(e.Args[0], p)
	case *ast.FuncLit:
		found := false
		ast.Inspect(e.Body, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			found = found || ok && c.variable(call.Fun) == p
			return !found
		})
		return found
	}
	return false
}

// retryFunctions are functions of well-known modules that repeat the argument
// at that position, and do so by way of an interface or of a method of the
// function's type, where no fact is found. Paths are without a major version's
// suffix.
var retryFunctions = map[string]int{
	"github.com/avast/retry-go.Do":                         0,
	"github.com/cenkalti/backoff.Retry":                    0,
	"github.com/cenkalti/backoff.RetryNotify":              0,
	"github.com/eapache/go-resiliency/retrier.Run":         0,
	"github.com/eapache/go-resiliency/retrier.RunCtx":      1,
	"k8s.io/apimachinery/pkg/util/wait.ExponentialBackoff": 1,
	"k8s.io/client-go/util/retry.OnError":                  2,
	"k8s.io/client-go/util/retry.RetryOnConflict":          1,
}

// repeatedArguments returns the positions of the arguments that the called
// function repeats.
func (c *checker) repeatedArguments(call *ast.CallExpr) []int {
	f := c.callee(call)
	if f == nil {
		return nil
	}
	var fact retryFact
	if c.pass.ImportObjectFact(f, &fact) {
		return fact.Params
	}
	if i, found := retryFunctions[withoutVersion(path(f))+"."+f.Name()]; found {
		return []int{i}
	}
	return nil
}

// withoutVersion drops the suffix of a major version, like /v5.
func withoutVersion(path string) string {
	i := strings.LastIndex(path, "/v")
	if i < 0 || strings.Trim(path[i+2:], "0123456789") != "" {
		return path
	}
	return path[:i]
}

// listRetryLoops reports what is taken for a retry loop.
func (c *checker) listRetryLoops() {
	if !*c.enabled[retryLoop] {
		return
	}
	for loop := range c.root.Preorder((*ast.ForStmt)(nil), (*ast.RangeStmt)(nil)) {
		if calls := c.repeated(loop, c.flowAround(loop)); len(calls) > 0 {
			c.reportf(retryLoop, calls[0], nil, "this call is repeated until it succeeds")
		}
	}
}
