package plan

import (
	"slices"
	"strings"

	"github.com/idemgen/idemgen/generator/internal/gosource"
	"github.com/idemgen/idemgen/generator/internal/spec"
)

// Receiver is the model of what is generated for the receivers of webhooks or
// of callbacks. They are plain servers of another interface, and what differs
// from the file's server has the same names here.
type Receiver struct {
	*File
	Handlers
	Kind       spec.Kind
	RawServer  string
	Operations []*Operation
	Methods    []Method
}

// Handlers are the names of what users implement and what makes a server of it.
type Handlers struct {
	Interface   string // that users implement
	Constructor string
	Implements  string // oapi-codegen's interface
}

var serverHandlers = Handlers{Interface: "IdempotentServer", Constructor: "NewIdempotentHandler", Implements: "ServerInterface"}

// receiversOf returns what is left of a package for a document that marks
// nothing of its server and its client.
func receiversOf(pkg *gosource.Package) *gosource.Package {
	rest := *pkg
	rest.HasServer, rest.Plain, rest.Client, rest.Operations, rest.Patterns = false, false, nil, nil, nil
	return &rest
}

// All are the marked operations, those of the server and of the client first.
func (f *File) All() []*Operation {
	all := slices.Clone(f.Operations)
	for _, r := range f.Receivers {
		all = append(all, r.Operations...)
	}
	return all
}

// HasStrict reports whether there are handlers that return their answers, as
// those of a strict server do.
func (f *File) HasStrict() bool { return f.HasServer && !f.Plain }

// HasPlain reports whether there are handlers that write their answers.
func (f *File) HasPlain() bool { return f.Plain || len(f.Receivers) > 0 }

// receivers decides what is generated for webhooks and callbacks.
func (p *planner) receivers(f *File) {
	for _, kind := range []spec.Kind{spec.Webhook, spec.Callback} {
		marked := p.marked(kind)
		found := p.pkg.Receiver(string(kind))
		switch {
		case len(marked) == 0:
			continue
		case found == nil && p.pkg.Client != nil && !p.pkg.HasServer:
			continue // the package calls what is marked beside, and another one receives
		case found == nil:
			for _, op := range marked {
				p.errorf(op.Pos, "go-no-receiver", "package %s has no %s, so nothing receives %s; oapi-codegen v2.8 and later generate it with %s under generate: in the oapi-codegen config, or remove the marker",
					p.pkg.Name, gosource.ReceiverInterface(string(kind)), op.ID(), gosource.Servers("or"))
			}
			continue
		case found.Unsupported != "":
			for _, op := range marked {
				p.errorf(op.Pos, "go-no-receiver", "the %s of package %s is for %s, for which idemgen generates no receivers of %s; choose %s under generate: in the oapi-codegen config, or remove the marker",
					found.Type, p.pkg.Name, found.Unsupported, op.ID(), gosource.Servers("or"))
			}
			continue
		case found.Problems.HasErrors():
			p.findings = append(p.findings, found.Problems...)
			continue
		}
		r := &Receiver{File: f, Kind: kind, Handlers: receiverOf(kind, found)}
		for _, name := range []string{r.Interface, r.Constructor} {
			p.reserveName(name, found.Pos)
		}
		r.Methods, r.Operations = p.methods(found.Operations, p.match(marked, found.Operations), true)
		r.RawServer = p.scope.free(lowerFirst(r.Interface))
		f.Receivers = append(f.Receivers, r)
	}
}

func receiverOf(kind spec.Kind, found *gosource.Receiver) Handlers {
	name := "IdempotentWebhookReceiver"
	if kind == spec.Callback {
		name = "IdempotentCallbackReceiver"
	}
	return Handlers{Interface: name, Constructor: "New" + name, Implements: found.Type}
}

// Leases reports whether handlers of the receiver run under leases.
func (r *Receiver) Leases() bool { return anyLease(r.Operations) }

// Plural is the kind in comments.
func (r *Receiver) Plural() string { return string(r.Kind) + "s" }

// HandlerSuffix ends the names of the functions that make a handler of one
// method.
func (r *Receiver) HandlerSuffix() string {
	return strings.TrimSuffix(r.Implements, "ReceiverInterface") + "Handler"
}
