package plan

import (
	"regexp"
	"slices"
	"strings"

	"github.com/idemgen/idemgen/generator/internal/gosource"
	"github.com/idemgen/idemgen/generator/internal/spec"
)

// marked returns the marked operations of a kind.
func (p *planner) marked(kind spec.Kind) []*spec.Operation {
	var all []*spec.Operation
	for i := range p.doc.Operations {
		if op := &p.doc.Operations[i]; op.Kind == kind && op.Policy != nil {
			all = append(all, op)
		}
	}
	return all
}

// match finds the Go method of every operation: by the route in the method's
// comment, else by the operationId. What cannot be matched is an error, because
// it would run unprotected.
func (p *planner) match(operations []*spec.Operation, among []gosource.Operation) map[string]*spec.Operation {
	marked := make(map[string]*spec.Operation)
	methods := indexMethods(among)
	for _, op := range operations {
		method := p.methodOf(op, methods)
		if method == nil {
			continue
		}
		if first, ok := marked[method.Name]; ok {
			p.errorf(op.Pos, "operation-ambiguous", "%s and %s (%s) are both the generated method %s; give one of them another operationId", op.ID(), first.ID(), first.Pos, method.Name)
			continue
		}
		marked[method.Name] = op
	}
	return marked
}

// methodIndex finds generated methods by what a document says of them.
type methodIndex struct {
	byRoute map[gosource.Route][]*gosource.Operation
	byName  map[string][]*gosource.Operation // folded
}

func indexMethods(methods []gosource.Operation) methodIndex {
	index := methodIndex{make(map[gosource.Route][]*gosource.Operation), make(map[string][]*gosource.Operation)}
	for i := range methods {
		m := &methods[i]
		for _, r := range m.Routes {
			r.Path = withoutNames(r.Path)
			index.byRoute[r] = append(index.byRoute[r], m)
		}
		name := spec.Folded(m.Stem())
		index.byName[name] = append(index.byName[name], m)
	}
	return index
}

func (p *planner) methodOf(op *spec.Operation, methods methodIndex) *gosource.Operation {
	byRoute := methods.byRoute[gosource.Route{Method: op.Method, Path: withoutNames(op.Path)}]
	var byID []*gosource.Operation
	if op.OperationID != "" {
		byID = methods.byName[spec.Folded(op.OperationID)]
	}
	if len(byRoute) > 1 {
		// A summary looked like a route; the operationId tells them apart.
		for _, m := range byRoute {
			if slices.Contains(byID, m) {
				return m
			}
		}
		p.errorf(op.Pos, "operation-ambiguous", "%s could be %s or %s in the generated code; give it an operationId and run oapi-codegen again", op.ID(), byRoute[0].Name, byRoute[1].Name)
		return nil
	}
	if len(byRoute) == 1 {
		return byRoute[0]
	}
	if len(byID) == 1 && len(byID[0].Routes) == 0 {
		return byID[0]
	}
	if len(byID) == 1 {
		m, r := byID[0], byID[0].Routes[0]
		p.errorf(op.Pos, "operation-stale", "the generated method %s (%s) serves %s %s, and the document says %s; run oapi-codegen again", m.Name, m.Pos, r.Method, r.Path, op.Route())
		return nil
	}
	p.errorf(op.Pos, "operation-unmatched", "no generated method for %s (%s): is the oapi-codegen output stale, or does its config leave the operation out? Run oapi-codegen again, or remove the marker", op.ID(), op.Route())
	return nil
}

var pathParameter = regexp.MustCompile(`\{[^{}]*\}`)

// withoutNames is a path without the names of its parameters, which the code of
// a client does not have, and without the spaces around it, which gofmt trims
// from the comments of a server.
func withoutNames(path string) string {
	return strings.TrimSpace(pathParameter.ReplaceAllLiteralString(path, "%s"))
}
