package gosource

import (
	"go/ast"
	"regexp"
	"strings"

	"github.com/idemgen/idemgen/generator/internal/diag"
)

// Receiver is an interface of oapi-codegen whose methods receive webhooks or
// callbacks. There is no strict one.
type Receiver struct {
	Kind string // webhook or callback
	Type string // its name
	// Operations are its methods, in their order.
	Operations []Operation
	Pos        diag.Pos
	// Unsupported is what they are generated for if idemgen supports no receivers
	// of it.
	Unsupported string
	// Problems are findings for those whose document marks such an operation.
	Problems diag.List
}

// receiverKinds are the kinds of receivers and their interfaces.
var receiverKinds = []struct{ kind, suffix, name string }{
	{"webhook", "Webhook", "WebhookReceiverInterface"},
	{"callback", "Callback", "CallbackReceiverInterface"},
}

func receiverInterfaces() []string {
	var all []string
	for _, r := range receiverKinds {
		all = append(all, r.name)
	}
	return all
}

// ReceiverInterface returns the name of the interface of a kind of receivers.
func ReceiverInterface(kind string) string {
	for _, r := range receiverKinds {
		if r.kind == kind {
			return r.name
		}
	}
	return ""
}

// Receiver returns the receivers of a kind, nil if there are none.
func (p *Package) Receiver(kind string) *Receiver {
	for i := range p.Receivers {
		if p.Receivers[i].Kind == kind {
			return &p.Receivers[i]
		}
	}
	return nil
}

// receivers reads the interfaces of receivers.
func (l *loader) receivers(pkg *Package) {
	for _, kind := range receiverKinds {
		if d, ok := l.types[kind.name]; ok {
			r := Receiver{Kind: kind.kind, Type: kind.name, Pos: l.pos(d.spec.Name)}
			l.receiver(pkg, &r, kind.suffix)
			pkg.Receivers = append(pkg.Receivers, r)
			if !pkg.HasServer && pkg.Client == nil && len(pkg.Receivers) == 1 {
				pkg.Pos = r.Pos
			}
		}
	}
}

// receiver reads one interface. The names of its methods are that of the
// operation between Handle and a suffix.
func (l *loader) receiver(pkg *Package, r *Receiver, suffix string) {
	iface := l.methods(r.Type)
	bodies := l.bodies(iface.file)
	first := make(map[string]method, len(iface.methods))
	for _, m := range iface.methods {
		pos := l.pos(m.name)
		if other, ok := first[m.name.Name]; ok {
			r.Problems = append(r.Problems, diag.Errorf(pos, "go-shape", "the method %s is already declared at %s, since two %ss of the document have one Go name, or two operations share one by $ref; give one another operationId, or write it once, and run oapi-codegen again", m.name.Name, l.pos(other.name), r.Kind))
			continue
		}
		first[m.name.Name] = m
		stem, ok := stemOf(m.name.Name, suffix)
		if !ok {
			r.Problems = append(r.Problems, diag.Errorf(pos, "go-shape", "%s is not of the form Handle…%s; generate it with oapi-codegen v2.8", m.name.Name, suffix))
			continue
		}
		params := fields(iface.file, m.typ.Params, 0)
		known := frameworkOf(params)
		if known == nil || pkg.Framework != "" && known.name != pkg.Framework {
			r.Unsupported = packageOf(params)
			return
		}
		pkg.Framework, pkg.Context, pkg.ResponseOwner, pkg.Contexts = known.name, params[0].Type, known.responseOwner, known.contexts
		op := Operation{
			Name: m.name.Name, stem: stem, Pos: pos,
			First: params[:len(known.first)], Parameters: params[len(known.first):],
			Results: fields(iface.file, m.typ.Results, 0),
			Bodies:  bodies.of(stem),
		}
		if route, ok := receiverRoute(m.doc, m.name.Name); ok {
			op.Routes = []Route{route}
		}
		r.Operations = append(r.Operations, op)
	}
}

func stemOf(name, suffix string) (stem string, ok bool) {
	stem, prefixed := strings.CutPrefix(name, "Handle")
	stem, suffixed := strings.CutSuffix(stem, suffix)
	return stem, prefixed && suffixed && stem != ""
}

var receiverLine = regexp.MustCompile(`^// (\S+) handles the ([A-Z]+) ((?:webhook|callback) for .*)\.$`)

// receiverRoute reads the last line of a method's comment. A summary before it
// can look like it.
func receiverRoute(doc *ast.CommentGroup, name string) (Route, bool) {
	lines := comments(doc)
	if len(lines) == 0 {
		return Route{}, false
	}
	m := receiverLine.FindStringSubmatch(lines[len(lines)-1])
	if m == nil || m[1] != name {
		return Route{}, false
	}
	return Route{Method: m[2], Path: strings.Replace(m[3], " for ", " ", 1)}, true
}
