// Package drift says what a change of the document means for those who are out
// there already: clients that send requests as they did, and live keys, whose
// answers are stored.
package drift

import (
	"regexp"
	"strings"

	"github.com/idemgen/idemgen/generator/internal/diag"
	"github.com/idemgen/idemgen/generator/internal/spec"
)

// Compare returns one finding for each change of meaning between the operations
// before and those now, each of them all of a document, or the marked ones. A
// finding is an error where a client or a live key notices, and a warning where
// none does. Its position is that of the value that has changed, of the
// operation where that is no longer marked, and the older one's where it is
// gone.
//
// An operation that was not marked before is new, and none of its business,
// unless existed says that it was there.
func Compare(before, now []spec.Operation, existed func(*spec.Operation) bool) diag.List {
	known := make(map[string]bool)
	for i := range before {
		if before[i].Policy != nil {
			known[before[i].ID()] = true
		}
	}
	byID, byRoute := index(now)
	var c comparison
	renamed := make(map[*spec.Operation]bool)
	for i := range before {
		old := &before[i]
		if old.Policy == nil {
			continue
		}
		op := byID[old.ID()]
		if op == nil {
			if op = byRoute[route(old)]; op != nil && known[op.ID()] {
				op = nil // it has a past of its own
			}
		}
		switch {
		case op == nil:
			c.errorf(old.Pos, "operation-removed", "%s (%s) is not in the document any more: its clients find nothing, and its live keys are not replayed; keep it until no retry can come", old.ID(), old.Route())
		case op.Policy == nil:
			c.errorf(op.Pos, "protection-lost", "%s is not marked any more: each retry runs again, whatever its key, and live keys are not replayed; mark it again, or wait until no client retries it", old.ID())
		default:
			if op.ID() != old.ID() {
				renamed[op] = true
				c.errorf(op.Policy.Pos, "operation-renamed", "%s is the new name of %s: live keys are not found under it, and their retries run again; keep %q as the operationId, or wait until no retry can come", op.ID(), old.ID(), old.ID())
			}
			c.operation(old, op)
		}
	}
	for i := range now {
		if op := &now[i]; op.Policy != nil && !known[op.ID()] && !renamed[op] && existed(op) {
			c.gained(op)
		}
	}
	return c.findings
}

// Unmarked returns a function that says whether an operation was there, and not
// marked.
func Unmarked(before []spec.Operation) func(*spec.Operation) bool {
	byID, byRoute := index(before)
	return func(op *spec.Operation) bool {
		old := byID[op.ID()]
		if old == nil {
			old = byRoute[route(op)]
		}
		return old != nil && old.Policy == nil
	}
}

func index(operations []spec.Operation) (byID, byRoute map[string]*spec.Operation) {
	byID, byRoute = make(map[string]*spec.Operation), make(map[string]*spec.Operation)
	for i := range operations {
		op := &operations[i]
		byID[op.ID()] = op
		route := route(op)
		if _, taken := byRoute[route]; taken {
			op = nil // callbacks of one name are not told apart by it
		}
		byRoute[route] = op
	}
	return byID, byRoute
}

var pathParameter = regexp.MustCompile(`\{[^{}]*\}`)

// route is the operation's route without the names of parameters, which neither
// clients nor fingerprints know.
func route(op *spec.Operation) string {
	return pathParameter.ReplaceAllLiteralString(op.Route(), "{}")
}

// target is the method and the path of an operation. A webhook or a callback is
// received where it was, whatever its name is.
func target(op *spec.Operation) string {
	if !strings.HasPrefix(op.Path, "/") {
		return op.Method
	}
	return op.Route()
}

// moved reports whether two operations are at different places. The names of
// parameters make no difference.
func moved(old, op *spec.Operation) bool {
	place := func(op *spec.Operation) string { return pathParameter.ReplaceAllLiteralString(target(op), "{}") }
	return place(old) != place(op)
}

// comparison collects findings.
type comparison struct{ findings diag.List }

func (c *comparison) errorf(pos diag.Pos, code, format string, args ...any) {
	c.findings = append(c.findings, diag.Errorf(pos, code, format, args...))
}

func (c *comparison) warnf(pos diag.Pos, code, format string, args ...any) {
	c.findings = append(c.findings, diag.Warningf(pos, code, format, args...))
}

// gained reports an operation that is protected from now on.
func (c *comparison) gained(op *spec.Operation) {
	if op.Policy.Required {
		c.errorf(op.Policy.Pos, "protection-gained", "%s is marked now and requires a key: a request without one, which ran before, is answered 400 key_missing; begin with required: false, and require the key when all clients send it", op.ID())
		return
	}
	c.warnf(op.Policy.Pos, "protection-gained", "%s is marked now: a request with a key is protected, and one without runs as before and is counted as unprotected", op.ID())
}

// operation compares an operation with what it was.
func (c *comparison) operation(old, op *spec.Operation) {
	moved := moved(old, op)
	if moved {
		c.errorf(op.Policy.Pos, "operation-moved", "%s is at %s now, and was at %s: a client that calls the old place finds nothing, and a live key at the new one is answered 422 mismatch; keep the old place until no retry can come",
			op.ID(), target(op), target(old))
	}
	c.required(old, op)
	c.place(old, op)
	c.format(old, op)
	c.length(old, op)
	c.retention(old, op)
	if !moved && op.ID() == old.ID() { // else no live key is compared, or none can match
		c.fingerprint(old, op)
		c.parameters(old, op)
		c.bodies(old, op)
	}
	c.inFlight(old, op)
	c.mode(old, op)
	c.release(old, op)
}
