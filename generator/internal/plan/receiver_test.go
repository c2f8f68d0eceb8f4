package plan_test

import (
	"strings"
	"testing"

	"github.com/idemgen/idemgen/generator/internal/diag"
	"github.com/idemgen/idemgen/generator/internal/gosource"
	"github.com/idemgen/idemgen/generator/internal/plan"
	"github.com/idemgen/idemgen/generator/internal/spec"
)

// hooksPackage has receivers with these methods, each given as name and comment
// line.
func hooksPackage(t *testing.T, more string, methods ...string) *gosource.Package {
	t.Helper()
	text := map[string]string{"Webhook": "", "Callback": ""}
	for _, m := range methods {
		name, comment, _ := strings.Cut(m, " ")
		for suffix := range text {
			if strings.HasSuffix(name, suffix) {
				text[suffix] += "\t// " + comment + "\n\t" + name + "(w http.ResponseWriter, r *http.Request)\n"
			}
		}
	}
	src := "package api\n\nimport \"net/http\"\n\n" + more
	for _, suffix := range []string{"Webhook", "Callback"} {
		if text[suffix] != "" {
			src += "type " + suffix + "ReceiverInterface interface {\n" + text[suffix] + "}\n"
		}
	}
	pkg, findings := gosource.Load(t.TempDir(), map[string][]byte{"api.gen.go": []byte(src)})
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	return pkg
}

// generatedAs is a method with oapi-codegen's comment.
func generatedAs(name, receives string) string {
	return name + " " + name + " handles the " + receives + "."
}

func received(line int, kind spec.Kind, id, method, name string) spec.Operation {
	op := marked(line, id, method+" "+string(kind)+" "+name)
	op.Kind, op.Path = kind, string(kind)+" "+name
	return op
}

// A webhook or a callback is found by the name in the method's comment; what
// cannot be found is an error, since it would be received unprotected.
func TestReceivers(t *testing.T) {
	t.Parallel()
	paid := generatedAs("HandlePaidWebhook", "POST webhook for paid")
	doneA, doneB := generatedAs("HandleACallback", "POST callback for done"), generatedAs("HandleBCallback", "POST callback for done")
	for name, test := range map[string]struct {
		more    string
		methods []string
		ops     []spec.Operation
		want    string // "KIND: Name=ID ..." or the finding
	}{
		"by name":               {"", []string{generatedAs("HandleOtherWebhook", "POST webhook for paid")}, []spec.Operation{received(1, spec.Webhook, "", "POST", "paid")}, "webhook: HandleOtherWebhook=POST webhook paid;"},
		"by operationId":        {"", []string{"HandlePaidWebhook a summary"}, []spec.Operation{received(1, spec.Webhook, "is-paid", "POST", "x"), received(2, spec.Webhook, "paid", "POST", "y")}, "openapi.yaml:1: no generated method for is-paid (POST webhook x)"},
		"by operationId alone":  {"", []string{"HandlePaidWebhook a summary"}, []spec.Operation{received(2, spec.Webhook, "paid", "POST", "y")}, "webhook: HandlePaidWebhook=paid;"},
		"another method":        {"", []string{paid}, []spec.Operation{received(1, spec.Webhook, "paid", "PUT", "paid")}, "the generated method HandlePaidWebhook (DIR/api.gen.go:7:2) serves POST webhook paid, and the document says PUT webhook paid; run oapi-codegen again"},
		"callback of that name": {"", []string{paid}, []spec.Operation{received(1, spec.Callback, "", "POST", "paid")}, "openapi.yaml:1: package api has no CallbackReceiverInterface, so nothing receives POST callback paid; oapi-codegen v2.8 and later generate it with std-http-server"},
		"callbacks of one name": {
			"", []string{doneA, doneB, paid},
			[]spec.Operation{received(1, spec.Callback, "b", "POST", "done"), received(2, spec.Webhook, "", "POST", "paid")},
			"webhook: HandlePaidWebhook=POST webhook paid; callback: HandleBCallback=b;",
		},
		"callbacks without operationId": {
			"", []string{doneA, doneB},
			[]spec.Operation{received(1, spec.Callback, "", "POST", "done")},
			"openapi.yaml:1: POST callback done could be HandleACallback or HandleBCallback in the generated code; give it an operationId",
		},
		"interface":   {"type IdempotentWebhookReceiver int\n", []string{paid}, []spec.Operation{received(1, spec.Webhook, "", "POST", "paid")}, "DIR/api.gen.go:5:6: IdempotentWebhookReceiver is the name of something idemgen generates"},
		"constructor": {"func NewIdempotentWebhookReceiver() {}\n", []string{paid}, []spec.Operation{received(1, spec.Webhook, "", "POST", "paid")}, "DIR/api.gen.go:5:6: NewIdempotentWebhookReceiver is the name of something idemgen generates"},
		"type":        {"type PaidInput int\n", []string{paid}, []spec.Operation{received(1, spec.Webhook, "", "POST", "paid")}, "openapi.yaml:2: PaidInput of POST webhook paid is already declared (DIR/api.gen.go:5:6); write name: PaidOnceIdempotentRequest"},
		"no new keys": {"type NewPaidIdempotencyKey int\n", []string{paid}, []spec.Operation{received(1, spec.Webhook, "", "POST", "paid")}, "webhook: HandlePaidWebhook=POST webhook paid;"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pkg := hooksPackage(t, test.more, test.methods...)
			f, findings := plan.New(&spec.Document{Operations: test.ops}, pkg)
			if got := summary(f, findings); !strings.Contains(strings.ReplaceAll(got, dirOf(pkg), "DIR"), test.want) {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

func dirOf(pkg *gosource.Package) string {
	return strings.TrimSuffix(pkg.Pos.File, "/api.gen.go")
}

func summary(f *plan.File, findings diag.List) string {
	var b strings.Builder
	if f != nil {
		for _, r := range f.Receivers {
			b.WriteString(string(r.Kind) + ":")
			for _, op := range r.Operations {
				b.WriteString(" " + op.Method() + "=" + op.ID())
			}
			b.WriteString("; ")
		}
	}
	for _, d := range findings {
		b.WriteString(d.String() + "\n")
	}
	return b.String()
}

// A client receives nothing: beside marked operations that it calls, webhooks are
// for another package. Alone they would be received by nobody.
func TestReceiversOfClient(t *testing.T) {
	t.Parallel()
	hook := received(1, spec.Webhook, "", "POST", "paid")
	f, findings := plan.New(&spec.Document{Operations: []spec.Operation{marked(1, "", "DELETE /payments/{id}"), hook}}, clientPackage(t))
	if f == nil || len(f.Receivers) > 0 || len(f.Operations) != 1 || f.Client == nil {
		t.Errorf("%+v, %v", f, findings)
	}
	f, findings = plan.New(&spec.Document{Operations: []spec.Operation{hook}}, clientPackage(t))
	if f != nil || !strings.Contains(findings[0].String(), "has no WebhookReceiverInterface") {
		t.Errorf("%+v, %v", f, findings)
	}
}

// A server that oapi-codegen before v2.8 has generated receives no webhooks, and
// would be taken for one that does.
func TestReceiversOfOlderServer(t *testing.T) {
	t.Parallel()
	ops := []spec.Operation{marked(1, "", "DELETE /payments/{id}"), received(3, spec.Webhook, "", "POST", "paid")}
	f, findings := plan.New(&spec.Document{Operations: ops}, goldenPackage(t, "oapi-codegen-v2.7"))
	if f != nil || len(findings) != 1 || !strings.HasPrefix(findings[0].String(), "openapi.yaml:3: package api has no WebhookReceiverInterface") {
		t.Errorf("%+v, %v", f, findings)
	}
}

// Where nothing but webhooks is marked, nothing is generated for a server or a
// client beside the receivers.
func TestReceiversAlone(t *testing.T) {
	t.Parallel()
	hook := received(1, spec.Webhook, "", "POST", "ping")
	f, findings := plan.New(&spec.Document{Operations: []spec.Operation{hook}}, goldenPackage(t, "webhooks"))
	if f == nil || f.HasServer || f.Client != nil || len(f.Operations)+len(f.Methods) > 0 || len(f.Receivers) != 1 || len(f.Receivers[0].Operations) != 1 {
		t.Errorf("%+v, %v", f, findings)
	}
}
