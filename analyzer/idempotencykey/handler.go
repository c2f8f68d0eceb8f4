package idempotencykey

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/ast/inspector"
)

// handler is a function that runs at most once for a key: a method of a
// generated IdempotentServer, or the function given to idempotency.Do.
type handler struct {
	cur  inspector.Cursor // of its declaration or literal
	body *ast.BlockStmt
	tx   *types.Var // what it writes through, or its lease
}

// findHandlers finds this package's handlers.
func (c *checker) findHandlers() []handler {
	var all []handler
	add := func(cur inspector.Cursor, body *ast.BlockStmt, tx *types.Var) {
		known := slices.ContainsFunc(all, func(h handler) bool { return h.cur == cur })
		if tx != nil && !known {
			all = append(all, handler{cur, body, tx})
		}
	}
	for _, fn := range c.functions {
		add(fn.cur, fn.decl.Body, handlerTx(fn.object.Signature()))
	}
	for cur, call := range each[*ast.CallExpr](c.root) {
		if len(call.Args) == 0 || !runsHandler(c.callee(call)) {
			continue
		}
		last := call.Args[len(call.Args)-1]
		switch e := ast.Unparen(last).(type) {
		case *ast.FuncLit:
			if sig, ok := c.pass.TypesInfo.TypeOf(e).(*types.Signature); ok {
				lit, _ := cur.FindNode(e)
				add(lit, e.Body, workTx(sig))
			}
		case *ast.Ident, *ast.SelectorExpr:
			object := c.used(e)
			if i := slices.IndexFunc(c.functions, func(fn function) bool { return fn.object == object }); i >= 0 {
				add(c.functions[i].cur, c.functions[i].decl.Body, workTx(object.Signature()))
			}
		}
	}
	return all
}

// used returns the function that e names, or nil.
func (c *checker) used(e ast.Expr) *types.Func {
	if s, ok := e.(*ast.SelectorExpr); ok {
		e = s.Sel
	}
	id, ok := e.(*ast.Ident)
	if !ok {
		return nil
	}
	object, _ := c.pass.TypesInfo.Uses[id].(*types.Func)
	return object
}

// handlerTx returns the transaction or lease of a handler: a function that takes
// a context or, in a server without a strict one, what the server's framework
// gives it, then the transaction or lease, and a request. It is nil for other
// functions.
func handlerTx(sig *types.Signature) *types.Var {
	p := sig.Params()
	n := p.Len()
	switch {
	case n == 3 && (isContext(p.At(0).Type()) || isFrameworkContext(p.At(0).Type())):
	case n == 4 && isNamed(p.At(0).Type(), "net/http", "ResponseWriter") && isHTTPRequest(p.At(1).Type()):
	default:
		return nil
	}
	if tx := p.At(n - 2); isTx(tx.Type()) && isRequest(p.At(n-1).Type()) {
		return tx
	}
	return nil
}

// workTx returns the transaction of the function given to Do or Execute.
func workTx(sig *types.Signature) *types.Var {
	if sig.Params().Len() < 2 {
		return nil
	}
	return sig.Params().At(1)
}

// isTx tells whether t is what a store gives to handlers: the transaction of a
// database, a type of the runtime, nothing, or a type parameter.
func isTx(t types.Type) bool {
	if _, ok := types.Unalias(t).(*types.TypeParam); ok {
		return true
	}
	if s, ok := t.Underlying().(*types.Struct); ok && s.NumFields() == 0 {
		return true
	}
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		if n := named(p.Elem()); n != nil && n.Obj().Pkg() != nil && strings.HasPrefix(n.Obj().Pkg().Path()+"/", runtimeModule+"/") {
			return true
		}
	}
	return hasMethod(t, "Commit") && hasMethod(t, "Rollback")
}

func hasMethod(t types.Type, name string) bool { return methodOf(t, name) != nil }

// methodOf returns the exported method of that name that a value of type t has,
// or nil.
func methodOf(t types.Type, name string) *types.Func {
	object, _, _ := types.LookupFieldOrMethod(t, true, nil, name)
	fn, _ := object.(*types.Func)
	return fn
}

// runsHandler tells whether fn runs its last argument as a handler.
func runsHandler(fn *types.Func) bool {
	if fn == nil {
		return false
	}
	p := fn.Signature().Params()
	switch fn.Name() {
	case "Do":
		return path(fn) == runtimePath
	case "Execute":
		return p.Len() == 3 && isNamed(p.At(1).Type(), runtimePath, "Request")
	}
	return false
}

// handlerAround returns the handler that cur stands in.
func (c *checker) handlerAround(cur inspector.Cursor) (handler, bool) {
	if len(c.handlers) == 0 {
		return handler{}, false
	}
	for around := range cur.Enclosing((*ast.FuncDecl)(nil), (*ast.FuncLit)(nil)) {
		if i := slices.IndexFunc(c.handlers, func(h handler) bool { return h.cur == around }); i >= 0 {
			return c.handlers[i], true
		}
	}
	return handler{}, false
}

// checkKeyInHandler reports a new key of a handler that goes to a call. A key
// that is written through the transaction is another matter: it stays exactly
// if the handler's effects do.
func (c *checker) checkKeyInHandler(cur inspector.Cursor, call *ast.CallExpr, f flow) {
	h, ok := c.handlerAround(cur)
	if !ok {
		return
	}
	found := false
	ast.Inspect(h.body, func(n ast.Node) bool {
		sink, ok := n.(*ast.CallExpr)
		if ok && !found && sink != call && !carriesKey(c.pass.TypesInfo.TypeOf(sink)) && c.receivesKey(sink) {
			found = c.passesKey(sink) && c.dependsOn(sink, call, f, h.body) && !c.mentions(sink, h, f)
		}
		return !found
	})
	if found {
		c.reportf(keyInHandler, call, nil, "this handler makes a new key for a call: when it runs again, it calls under another key; take idempotency.Derive, which gives the same one")
	}
}

// passesKey tells whether a call has a parameter for keys or requests alone.
func (c *checker) passesKey(call *ast.CallExpr) bool {
	fn := c.callee(call)
	if fn == nil {
		return false
	}
	for i := range call.Args {
		if p := parameter(fn.Signature(), i); p != nil && takesKey(p.Type()) {
			return true
		}
	}
	return false
}

// mentions tells whether a call is given the transaction of its handler, or
// something made from it.
func (c *checker) mentions(call *ast.CallExpr, h handler, f flow) bool {
	seen := map[*types.Var]bool{}
	var mentions func(n ast.Node) bool
	mentions = func(n ast.Node) bool {
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
			found = v == h.tx
			if isError(v.Type()) || isContext(v.Type()) || carriesKey(v.Type()) {
				return true
			}
			for _, a := range f[v] {
				found = found || a.value != nil && mentions(a.value)
			}
			return !found
		})
		return found
	}
	return mentions(call)
}

// checkHandlers looks for effects of handlers outside their transactions.
func (c *checker) checkHandlers() {
	for _, h := range c.handlers {
		f := c.flowAround(h.cur)
		for cur, call := range each[*ast.CallExpr](h.cur) {
			if inner, ok := c.handlerAround(cur); !ok || inner.cur != h.cur {
				continue
			}
			c.checkWrite(call, h, f)
			if c.sendsHTTP(call) {
				c.reportf(rawHTTP, call, nil, "this handler sends a request that nothing makes safe to repeat: call a generated client with a key from idempotency.Derive, or enqueue the call through the transaction")
			}
		}
	}
}

// sendsHTTP tells whether a call sends a request that may have effects.
func (c *checker) sendsHTTP(call *ast.CallExpr) bool {
	fn := c.callee(call)
	if path(fn) != "net/http" {
		return false
	}
	if recv := fn.Signature().Recv(); recv != nil && !isNamed(recv.Type(), "net/http", "Client") {
		return false
	}
	return fn.Name() == "Post" || fn.Name() == "PostForm" || fn.Name() == "Do"
}
