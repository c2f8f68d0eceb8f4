package idempotencykey

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"time"

	"golang.org/x/tools/go/ast/inspector"
)

// verdict is what a visitor says of a part of an expression.
type verdict int

const (
	unknown verdict = iota // look at what the part is made of
	yes                    // this is what is looked for
	no                     // nothing of what this is made of matters
)

// isMadeOf tells whether judge says yes to a part that the text e is made of.
// It follows variables of the function, and calls that only form text.
func (c *checker) isMadeOf(e ast.Expr, f flow, judge func(ast.Expr) verdict) bool {
	seen := map[*types.Var]bool{}
	var visit func(e ast.Expr) bool
	visit = func(e ast.Expr) bool {
		e = ast.Unparen(e)
		switch judge(e) {
		case yes:
			return true
		case no:
			return false
		}
		switch e := e.(type) {
		case *ast.Ident:
			v := c.variable(e)
			if v == nil || seen[v] {
				return false
			}
			seen[v] = true
			return slices.ContainsFunc(f[v], func(a assignment) bool { return a.value != nil && visit(a.value) })
		case *ast.BinaryExpr:
			return visit(e.X) || visit(e.Y)
		case *ast.UnaryExpr:
			return e.Op != token.ARROW && visit(e.X)
		case *ast.IndexExpr:
			return visit(e.X)
		case *ast.SliceExpr:
			return visit(e.X)
		case *ast.StarExpr:
			return visit(e.X)
		case *ast.CompositeLit:
			return slices.ContainsFunc(e.Elts, visit)
		case *ast.CallExpr:
			if receiver := c.receiver(e); receiver != nil && visit(receiver) {
				return true
			}
			return c.formsText(e) && slices.ContainsFunc(e.Args, visit)
		}
		return false
	}
	return visit(e)
}

// textPackages hold functions that give their arguments another form.
var textPackages = map[string]bool{
	"bytes": true, "fmt": true, "slices": true, "strconv": true, "strings": true, "time": true,
	"crypto/md5": true, "crypto/sha1": true, "crypto/sha256": true, "crypto/sha3": true, "crypto/sha512": true,
	"encoding/base32": true, "encoding/base64": true, "encoding/binary": true, "encoding/hex": true, "encoding/json": true,
	"github.com/gofrs/uuid": true, "github.com/google/uuid": true, // UUIDs of a name
}

// formsText tells whether a call gives its arguments another form.
func (c *checker) formsText(call *ast.CallExpr) bool {
	if fn := c.callee(call); fn != nil {
		return textPackages[withoutVersion(path(fn))]
	}
	return c.isConversion(call) || c.pass.TypesInfo.Types[call.Fun].IsBuiltin()
}

// checkClock reports a key that is made from the time of day.
func (c *checker) checkClock(call *ast.CallExpr, f flow) {
	if c.isMadeOf(call.Args[0], f, func(e ast.Expr) verdict { return c.judgeClock(e) }) {
		c.reportf(unstableKey, call, nil, "this key is made from the clock: it is another key after a restart, and the same for two operations within a tick; take the identity of what is to happen once, and at most its day or hour")
	}
}

// coarse are the methods of a time.Time that show no less than an hour.
var coarse = map[string]bool{
	"Year": true, "Month": true, "Day": true, "YearDay": true, "Weekday": true, "ISOWeek": true, "Date": true, "Hour": true,
}

func (c *checker) judgeClock(e ast.Expr) verdict {
	if binary, ok := e.(*ast.BinaryExpr); ok && binary.Op == token.QUO && c.pass.TypesInfo.Types[binary.Y].Value != nil {
		return no // seconds divided into days or hours
	}
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return unknown
	}
	fn := c.callee(call)
	if path(fn) != "time" {
		return unknown
	}
	switch name := fn.Name(); {
	case fn.Signature().Recv() == nil:
		if name == "Now" || name == "Since" || name == "Until" {
			return yes
		}
	case coarse[name]:
		return no
	case (name == "Truncate" || name == "Round") && !c.isShort(call.Args[0]):
		return no
	case name == "Format" && !c.isFine(call.Args[0]):
		return no
	}
	return unknown
}

// isShort tells whether a duration is a constant below an hour.
func (c *checker) isShort(e ast.Expr) bool {
	value := c.pass.TypesInfo.Types[e].Value
	if value == nil {
		return false
	}
	d, exact := constant.Int64Val(constant.ToInt(value))
	return exact && time.Duration(d) < time.Hour
}

// isFine tells whether a layout is constant and shows minutes or less.
func (c *checker) isFine(e ast.Expr) bool {
	layout, ok := c.constantString(e)
	if !ok {
		return false
	}
	hour := time.Date(2001, 2, 3, 4, 0, 0, 0, time.UTC)
	return hour.Format(layout) != hour.Add(time.Hour-time.Nanosecond).Format(layout)
}

// attemptFields hold the number of the attempt that is running, and
// attemptFunctions return it.
var attemptFields = map[string]bool{
	"cloud.google.com/go/internal/pubsub.DeliveryAttempt": true,
	"cloud.google.com/go/pubsub.DeliveryAttempt":          true,
	"github.com/riverqueue/river/rivertype.Attempt":       true,
	"go.temporal.io/sdk/internal.Attempt":                 true,
}

var attemptFunctions = map[string]bool{
	"github.com/hibiken/asynq.GetRetryCount": true,
}

// checkAttemptNumber reports a key that is made from the number of the attempt:
// the counter of a retry loop, or the one that a queue keeps.
func (c *checker) checkAttemptNumber(cur inspector.Cursor, call *ast.CallExpr, f flow) {
	counters := map[*types.Var]bool{}
	for loop := range cur.Enclosing((*ast.ForStmt)(nil), (*ast.RangeStmt)(nil)) {
		if !c.retriesWith(loop, call, f) {
			break
		}
		a, _ := c.loopAttempt(loop)
		for v := range a.counters {
			counters[v] = true
		}
		for v, assignments := range f {
			if slices.ContainsFunc(assignments, func(x assignment) bool {
				return x.how == stepped && x.value == nil && within(x.pos, a.body)
			}) {
				counters[v] = true
			}
		}
	}
	if c.isMadeOf(call.Args[0], f, func(e ast.Expr) verdict {
		switch e := e.(type) {
		case *ast.Ident:
			if counters[c.variable(e)] {
				return yes
			}
		case *ast.SelectorExpr:
			field, _ := c.pass.TypesInfo.ObjectOf(e.Sel).(*types.Var)
			if field != nil && field.Pkg() != nil && attemptFields[withoutVersion(field.Pkg().Path())+"."+field.Name()] {
				return yes
			}
		case *ast.CallExpr:
			if fn := c.callee(e); fn != nil && attemptFunctions[path(fn)+"."+fn.Name()] {
				return yes
			}
		}
		return unknown
	}) {
		c.reportf(keyPerAttempt, call, nil, "this key is made from the number of the attempt, so a retry is another operation: leave the number out")
	}
}
