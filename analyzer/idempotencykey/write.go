package idempotencykey

import (
	"fmt"
	"go/ast"
	"go/types"
	"regexp"
	"slices"
	"strings"
)

// writeFact says that a function writes to a database through its receiver,
// through some of its parameters, or through a variable of its package.
type writeFact struct {
	Receiver, Package bool
	Params            []int
}

func (*writeFact) AFact() {}

func (f *writeFact) String() string {
	through := []string{}
	if f.Receiver {
		through = append(through, "receiver")
	}
	if f.Package {
		through = append(through, "package")
	}
	for _, i := range f.Params {
		through = append(through, fmt.Sprint(i))
	}
	return "writes(" + strings.Join(through, ",") + ")"
}

// source finds out where a database handle in a function's body comes from.
type source struct {
	*checker

	flow flow
	body *ast.BlockStmt
	seen map[*types.Var]bool
}

// origin returns the variables that the database handle e comes from and that
// are declared outside body, such as parameters. It is empty where that cannot
// be told.
func (c *checker) origin(e ast.Expr, f flow, body *ast.BlockStmt) []*types.Var {
	return source{c, f, body, map[*types.Var]bool{}}.of(e)
}

func (s source) of(e ast.Expr) []*types.Var {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return s.ofVariable(s.variable(e))
	case *ast.SelectorExpr:
		if v, ok := s.pass.TypesInfo.Uses[e.Sel].(*types.Var); ok && s.pass.TypesInfo.Selections[e] == nil {
			return []*types.Var{v} // of another package
		}
		return s.of(e.X)
	case *ast.StarExpr:
		return s.of(e.X)
	case *ast.UnaryExpr:
		return s.of(e.X)
	case *ast.TypeAssertExpr:
		return s.of(e.X)
	case *ast.CallExpr:
		if s.isConversion(e) {
			return s.of(e.Args[0])
		}
		return s.ofAll(s.handlesOf(e))
	}
	return nil
}

func (s source) ofVariable(v *types.Var) []*types.Var {
	switch {
	case v == nil:
		return nil
	case !within(v.Pos(), s.body):
		return []*types.Var{v}
	case s.seen[v]:
		return nil
	}
	s.seen[v] = true
	var values []ast.Expr
	for _, a := range s.flow[v] {
		if a.value != nil { // its address may be taken, it is the same handle still
			values = append(values, a.value)
		}
	}
	if len(values) == 0 {
		return s.of(s.begunWith(v, s.body))
	}
	return s.ofAll(values)
}

// ofAll is empty if one of exprs comes from somewhere unknown.
func (s source) ofAll(exprs []ast.Expr) []*types.Var {
	var together []*types.Var
	for _, e := range exprs {
		from := s.of(e)
		if len(from) == 0 {
			return nil
		}
		together = append(together, from...)
	}
	return together
}

// openers are methods that give a handle on the same database, and take a
// context for the time that takes. Other functions with a context may find a
// transaction in it.
var openers = map[string]bool{
	"Acquire": true, "AcquireConn": true, "Begin": true, "BeginTx": true, "BeginTxx": true, "Beginx": true,
	"Conn": true, "Connx": true, "PrepareContext": true, "Prepare": true, "WithContext": true,
}

// handlesOf returns the database handles that the result of a call is made
// from, or nil where that cannot be told.
func (c *checker) handlesOf(call *ast.CallExpr) []ast.Expr {
	var handles []ast.Expr
	receiver := c.receiver(call)
	if receiver != nil {
		handles = append(handles, receiver)
	}
	fn := c.callee(call)
	for _, arg := range call.Args {
		switch t := c.pass.TypesInfo.TypeOf(arg); {
		case t == nil:
		case carriesContext(t):
			if receiver == nil || fn == nil || !openers[fn.Name()] {
				return nil
			}
		case isDatabase(t):
			handles = append(handles, arg)
		}
	}
	return handles
}

// isDatabase tells whether t is a handle on a database: a pool, a connection
// or a transaction.
func isDatabase(t types.Type) bool {
	return slices.ContainsFunc([]string{"Exec", "ExecContext"}, func(name string) bool {
		fn := methodOf(t, name)
		return fn != nil && fn.Signature().Results().Len() > 0 && isOutcome(fn.Signature().Results().At(0).Type())
	})
}

// transactors run a function literal in a transaction of their own.
var transactors = map[string]bool{
	"BeginFunc": true, "BeginTxFunc": true, "ExecuteTx": true, "RunInTx": true, "Transaction": true,
}

// begunWith returns the handle that the transaction v was begun with, if v is
// the parameter of a literal that such a function runs.
func (c *checker) begunWith(v *types.Var, body *ast.BlockStmt) ast.Expr {
	var db ast.Expr
	ast.Inspect(body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || db != nil {
			return db == nil
		}
		fn := c.callee(call)
		if fn == nil || !transactors[fn.Name()] || !slices.ContainsFunc(call.Args, func(arg ast.Expr) bool {
			lit, ok := ast.Unparen(arg).(*ast.FuncLit)
			return ok && within(v.Pos(), lit.Type)
		}) {
			return true
		}
		if receiver := c.receiver(call); receiver != nil {
			db = receiver
			return false
		}
		for _, arg := range call.Args {
			if t := c.pass.TypesInfo.TypeOf(arg); t != nil && (isDatabase(t) || hasMethod(t, "Begin") || hasMethod(t, "BeginTx")) {
				db = arg
				return false
			}
		}
		return true
	})
	return db
}

// writing finds statements that change something. A statement that begins
// with WITH writes if one of its parts does.
var writing = regexp.MustCompile(`(?is)^(?:\s|--[^\n]*\n|/\*.*?\*/)*(?:` +
	`(?:INSERT|UPDATE|DELETE|MERGE|REPLACE|UPSERT|TRUNCATE|COPY|CALL|CREATE|ALTER|DROP)\s` +
	`|WITH\s.*\b(?:INSERT\s+INTO|UPDATE\s+\S+(?:\s+AS)?(?:\s+\S+)?\s+SET|DELETE\s+FROM|MERGE\s+INTO)\s)`)

// isOutcome tells whether t says what a statement has changed.
func isOutcome(t types.Type) bool {
	return isNamed(t, "database/sql", "Result") || isNamed(t, "github.com/jackc/pgx/v5/pgconn", "CommandTag")
}

// isRows tells whether t is what a query gives.
func isRows(t types.Type) bool {
	for _, name := range []string{"Row", "Rows"} {
		if isNamed(t, "database/sql", name) || isNamed(t, "github.com/jackc/pgx/v5", name) || isNamed(t, "github.com/jmoiron/sqlx", name) {
			return true
		}
	}
	return false
}

// gormWrites are the methods of *gorm.DB that write.
var gormWrites = map[string]bool{
	"Create": true, "CreateInBatches": true, "Delete": true, "Exec": true, "FirstOrCreate": true, "Save": true,
	"Update": true, "UpdateColumn": true, "UpdateColumns": true, "Updates": true,
}

// writes tells whether a method call writes to the database of its receiver,
// and whether its text says so, or it may as well read.
func (c *checker) writes(call *ast.CallExpr) (writes, certain bool) {
	fn := c.callee(call)
	if fn == nil || c.receiver(call) == nil {
		return false, false
	}
	switch path(fn) {
	case "gorm.io/gorm":
		return gormWrites[fn.Name()], gormWrites[fn.Name()]
	case "github.com/jackc/pgx/v5", "github.com/jackc/pgx/v5/pgxpool":
		switch fn.Name() {
		case "CopyFrom":
			return true, true
		case "SendBatch":
			return c.queuesWrite(call), false
		}
	}
	results := fn.Signature().Results()
	if results.Len() == 0 || !isOutcome(results.At(0).Type()) && !isRows(results.At(0).Type()) {
		return false, false
	}
	for _, arg := range call.Args {
		if sql, ok := c.constantString(arg); ok {
			writes := writing.MatchString(sql)
			return writes, writes
		}
	}
	return isOutcome(results.At(0).Type()), false
}

// queuesWrite tells whether the batch that a call sends has a statement that
// writes.
func (c *checker) queuesWrite(call *ast.CallExpr) bool {
	batch := c.variable(rootOf(call.Args[len(call.Args)-1]))
	if unary, ok := ast.Unparen(call.Args[len(call.Args)-1]).(*ast.UnaryExpr); ok {
		batch = c.variable(rootOf(unary.X))
	}
	if batch == nil {
		return false
	}
	for _, queue := range each[*ast.CallExpr](c.root) {
		receiver := c.receiver(queue)
		if receiver == nil || c.variable(rootOf(receiver)) != batch || len(queue.Args) == 0 {
			continue
		}
		if sql, ok := c.constantString(queue.Args[0]); ok && writing.MatchString(sql) {
			return true
		}
	}
	return false
}

// exportWriteFacts finds this package's functions that certainly write.
// Handlers are judged by themselves, and allowed writes are nobody's mistake.
func (c *checker) exportWriteFacts() {
	if skipsWriteFacts(c.pass.Pkg) {
		return
	}
	c.exportUntilStable(c.functions, func(fn function) bool {
		fact := writeFact{}
		for cur, call := range each[*ast.CallExpr](fn.cur) {
			_, handled := c.handlerAround(cur)
			if !handled && !c.allowed.allow(c.pass.Fset.Position(call.Pos()), writeOutsideTx) {
				c.addWrites(&fact, fn, call)
			}
		}
		writes := fact.Receiver || fact.Package || len(fact.Params) > 0
		if writes {
			c.pass.ExportObjectFact(fn.object, &fact)
		}
		return writes
	})
}

// skipsWriteFacts tells whether a package is a driver: what its functions
// write is their caller's text.
func skipsWriteFacts(p *types.Package) bool {
	return p.Path() == "database/sql" || strings.HasPrefix(p.Path(), "github.com/jackc/")
}

// addWrites adds to the fact of fn what call writes through.
func (c *checker) addWrites(fact *writeFact, fn function, call *ast.CallExpr) {
	var handles []ast.Expr
	if _, certain := c.writes(call); certain {
		handles = append(handles, c.receiver(call))
	} else {
		through, known := c.writtenThrough(call)
		if !known {
			return
		}
		if through == nil {
			fact.Package = true
		}
		handles = through
	}
	for _, e := range handles {
		for _, v := range c.origin(e, c.flowOf(fn), fn.decl.Body) {
			switch i := slices.Index(fn.params(), v); {
			case v == fn.object.Signature().Recv():
				fact.Receiver = true
			case i >= 0:
				if !slices.Contains(fact.Params, i) {
					fact.Params = append(fact.Params, i)
				}
			case v.Parent() == c.pass.Pkg.Scope():
				fact.Package = true
			}
		}
	}
}

// writtenThrough returns the expressions that a call to a function with a
// writeFact writes through; none, where it is a variable of that package.
func (c *checker) writtenThrough(call *ast.CallExpr) (handles []ast.Expr, known bool) {
	fn := c.callee(call)
	var fact writeFact
	if fn == nil || !c.pass.ImportObjectFact(fn, &fact) {
		return nil, false
	}
	if receiver := c.receiver(call); fact.Receiver && receiver != nil {
		handles = append(handles, receiver)
	}
	for _, i := range fact.Params {
		if i < len(call.Args) {
			handles = append(handles, call.Args[i])
		}
	}
	return handles, fact.Package || handles != nil
}

// checkWrite reports a call of a handler that writes, and not through its
// transaction.
func (c *checker) checkWrite(call *ast.CallExpr, h handler, f flow) {
	if !isDatabase(h.tx.Type()) {
		return
	}
	if variant := c.txVariant(call, h); variant != "" && c.outside(c.receiver(call), h, f) {
		c.reportf(writeOutsideTx, call, nil, "%s takes effect even if this handler is rolled back: call %s with its transaction", text(call.Fun), variant)
		return
	}
	if writes, _ := c.writes(call); writes {
		if e := c.receiver(call); c.outside(e, h, f) {
			c.reportf(writeOutsideTx, call, nil, "this handler writes through %s, so the write stays when the handler is rolled back, and is made again when it runs again: write through its transaction", text(e))
		}
		return
	}
	handles, known := c.writtenThrough(call)
	if !known {
		return
	}
	for _, e := range handles {
		if c.outside(e, h, f) {
			c.reportf(writeOutsideTx, call, nil, "%s writes through %s, so the write stays when this handler is rolled back, and is made again when it runs again: write through the transaction", text(call.Fun), text(e))
			return
		}
	}
	if handles == nil {
		c.reportf(writeOutsideTx, call, nil, "%s writes through a variable of its package, so the write stays when this handler is rolled back, and is made again when it runs again: write through the transaction", text(call.Fun))
	}
}

// outside tells whether a database handle certainly comes from elsewhere than
// the handler's transaction.
func (c *checker) outside(e ast.Expr, h handler, f flow) bool {
	from := c.origin(e, f, h.body)
	return len(from) > 0 && !slices.Contains(from, h.tx)
}

// readingWords are parts of the names of methods that only read.
var readingWords = []string{"Get", "List", "Find", "Read", "Count", "Load", "Lookup", "Select", "Query", "Fetch", "Exists"}

// txVariant returns the name of the method that does what call does in the
// handler's transaction, like InsertTx for Insert, or "".
func (c *checker) txVariant(call *ast.CallExpr, h handler) string {
	fn, receiver := c.callee(call), c.receiver(call)
	if fn == nil || receiver == nil || strings.HasSuffix(fn.Name(), "Tx") ||
		slices.ContainsFunc(readingWords, func(word string) bool { return strings.Contains(fn.Name(), word) }) {
		return ""
	}
	variant := methodOf(c.pass.TypesInfo.TypeOf(receiver), fn.Name()+"Tx")
	if variant == nil || variant.Signature().Params().Len() != fn.Signature().Params().Len()+1 {
		return ""
	}
	for p := range variant.Signature().Params().Variables() {
		if types.Identical(p.Type(), h.tx.Type()) {
			return variant.Name()
		}
	}
	return ""
}
