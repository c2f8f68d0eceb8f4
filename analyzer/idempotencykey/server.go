package idempotencykey

import (
	"go/ast"
	"go/types"
	"strings"

	"golang.org/x/tools/go/ast/inspector"
)

// protectors are the functions that idemgen generates to protect what stands
// behind an interface of oapi-codegen's. Each returns that interface, but for a
// strict server's, which is protected as a plain one.
var protectors = map[string]string{
	"ServerInterface":           "NewIdempotentHandler",
	"StrictServerInterface":     "NewIdempotentHandler",
	"WebhookReceiverInterface":  "NewIdempotentWebhookReceiver",
	"CallbackReceiverInterface": "NewIdempotentCallbackReceiver",
}

// protector returns the function that protects what t takes, or nil where t is
// another type, or its package protects nothing.
func protector(t types.Type) *types.Func {
	n := named(t)
	if n == nil || n.Obj().Pkg() == nil {
		return nil
	}
	fn, ok := n.Obj().Pkg().Scope().Lookup(protectors[n.Obj().Name()]).(*types.Func)
	if !ok || fn.Signature().Params().Len() < 2 || fn.Signature().Results().Len() != 1 {
		return nil
	}
	store := named(fn.Signature().Params().At(1).Type())
	if store == nil || store.Obj().Pkg() == nil || store.Obj().Pkg().Path() != runtimePath {
		return nil
	}
	return fn
}

// checkServers reports servers and receivers that oapi-codegen's functions, or
// its wrapper of single routes, get as they are.
func (c *checker) checkServers() {
	for cur := range c.root.Preorder((*ast.CallExpr)(nil), (*ast.CompositeLit)(nil)) {
		switch n := cur.Node().(type) {
		case *ast.CallExpr:
			fn := c.callee(n)
			if fn == nil || !servesArgument(fn.Name()) {
				continue
			}
			for i, arg := range n.Args {
				if p := parameter(fn.Signature(), i); p != nil {
					c.checkServer(cur, fn, p.Type(), arg)
				}
			}
		case *ast.CompositeLit:
			wrapper := named(c.pass.TypesInfo.TypeOf(n))
			if wrapper == nil || wrapper.Obj().Name() != "ServerInterfaceWrapper" {
				continue
			}
			for _, e := range n.Elts {
				field, ok := e.(*ast.KeyValueExpr)
				if !ok {
					continue
				}
				c.checkServer(cur, wrapper.Obj(), c.pass.TypesInfo.TypeOf(field.Key), field.Value)
			}
		}
	}
}

// servesArgument tells whether oapi-codegen gives its functions that serve a
// server or receiver such a name.
func servesArgument(name string) bool {
	return strings.HasPrefix(name, "Handler") || strings.HasPrefix(name, "RegisterHandlers") || strings.HasPrefix(name, "NewStrictHandler") ||
		strings.HasSuffix(name, "WebhookHandler") || strings.HasSuffix(name, "CallbackHandler")
}

// checkServer reports arg if it goes to generated code, at by, as a server or
// receiver that is certainly none of the protected ones.
func (c *checker) checkServer(cur inspector.Cursor, by types.Object, wanted types.Type, arg ast.Expr) {
	protect := protector(wanted)
	if protect == nil || by.Pkg() != protect.Pkg() || servesUnmarked(by, protect) {
		return
	}
	server := c.concreteType(cur, arg)
	if server == nil || isUnimplemented(server, protect.Pkg()) || holds(server, protect.Signature().Results().At(0).Type(), map[types.Type]bool{}) {
		return
	}
	c.reportf(unprotectedServer, arg, nil, "%s gets %s, whose handlers run unprotected: serve what %s.%s returns",
		by.Name(), text(arg), protect.Pkg().Name(), protect.Name())
}

// servesUnmarked tells whether by serves a single webhook or callback, which
// runs without a key in protected receivers, too. Servers are served whole.
func servesUnmarked(by types.Object, protect *types.Func) bool {
	if protect.Name() == protectors["ServerInterface"] {
		return false
	}
	event := strings.TrimSuffix(by.Name(), "Handler")
	method := methodOf(protect.Signature().Params().At(0).Type(), "Handle"+event)
	if method == nil {
		return false
	}
	for p := range method.Signature().Params().Variables() {
		if isRequest(p.Type()) {
			return false
		}
	}
	return true
}

// concreteType returns the type of the value of e, or nil where that is not
// known: e is of an interface type, and neither a conversion nor a local
// variable that gets one value only.
func (c *checker) concreteType(cur inspector.Cursor, e ast.Expr) types.Type {
	if v := c.variable(e); v != nil && types.IsInterface(v.Type()) {
		fn, ok := c.functionAround(cur)
		if !ok || !within(v.Pos(), fn.decl.Body) {
			return nil
		}
		values := c.flowOf(fn)[v]
		if len(values) != 1 || values[0].how != assigned {
			return nil
		}
		e = values[0].value
	}
	if call, ok := ast.Unparen(e).(*ast.CallExpr); ok && c.isConversion(call) && len(call.Args) == 1 {
		e = call.Args[0]
	}
	t := c.pass.TypesInfo.TypeOf(e)
	if _, several := t.(*types.Tuple); several || t == nil || t == types.Typ[types.UntypedNil] || types.IsInterface(t) {
		return nil
	}
	return t
}

// isUnimplemented tells whether t is oapi-codegen's server that does nothing.
func isUnimplemented(t types.Type, generated *types.Package) bool {
	return isNamed(t, generated.Path(), "Unimplemented")
}

// holds tells whether t is a struct that wraps another server or receiver: one
// of its fields is of an interface type with the methods of wanted.
func holds(t, wanted types.Type, seen map[types.Type]bool) bool {
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	s, ok := t.Underlying().(*types.Struct)
	methods, isInterface := wanted.Underlying().(*types.Interface)
	if !ok || !isInterface || seen[t] {
		return false
	}
	seen[t] = true
	for f := range s.Fields() {
		if types.IsInterface(f.Type()) && types.Implements(f.Type(), methods) || f.Embedded() && holds(f.Type(), wanted, seen) {
			return true
		}
	}
	return false
}
