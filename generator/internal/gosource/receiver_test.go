package gosource_test

import (
	"strings"
	"testing"

	"github.com/idemgen/idemgen/generator/internal/gosource"
)

// received is what oapi-codegen v2.8 writes of two webhooks and a callback.
const received = `package api

import "net/http"

// ServerInterface represents all server handlers.
type ServerInterface interface{}

type WebhookReceiverInterface interface {
	// HandleLostWebhook handles the PUT webhook for payment.lost.
	// HandlePaidWebhook handles the POST webhook for payment.paid for good (POST /x).
	HandlePaidWebhook(w http.ResponseWriter, r *http.Request, params PaidParams)

	// HandleLostWebhook handles the PUT webhook for payment.lost.
	HandleLostWebhook(w http.ResponseWriter, r *http.Request)
}

type CallbackReceiverInterface interface {
	// HandleLostCallback handles the POST callback for lost.
	HandleShippedCallback(w http.ResponseWriter, r *http.Request)
}

type PaidParams struct{}

// PaidJSONRequestBody defines body for Paid for application/json ContentType.
type PaidJSONRequestBody = Event

type Event struct{}
`

// A package of receivers alone has an empty server beside them.
func TestReceivers(t *testing.T) {
	t.Parallel()
	pkg, findings := load(t, map[string]string{"api.gen.go": "//go:build hooks\n\n" + received})
	if pkg == nil {
		t.Fatal(findings)
	}
	if pkg.HasServer || pkg.Framework != gosource.NetHTTP || pkg.Pos.Line != 10 || pkg.Constraint != "hooks" {
		t.Errorf("server %v for %q at %s, constraint %q", pkg.HasServer, pkg.Framework, pkg.Pos, pkg.Constraint)
	}
	var got strings.Builder
	for _, r := range pkg.Receivers {
		got.WriteString(r.Kind + " " + r.Type + "\n")
		for _, op := range r.Operations {
			got.WriteString("\t" + op.Name + " " + op.Stem())
			for _, route := range op.Routes {
				got.WriteString(" (" + route.Method + " " + route.Path + ")")
			}
			for _, p := range op.Parameters {
				got.WriteString(" " + p.Name + " " + p.Type.String())
			}
			for _, b := range op.Bodies {
				got.WriteString(" " + b.MediaType)
			}
			got.WriteString("\n")
		}
	}
	want := `webhook WebhookReceiverInterface
	HandlePaidWebhook Paid (POST webhook payment.paid for good (POST /x)) params PaidParams application/json
	HandleLostWebhook Lost (PUT webhook payment.lost)
callback CallbackReceiverInterface
	HandleShippedCallback Shipped
`
	if got.String() != want {
		t.Errorf("got\n%swant\n%s", got.String(), want)
	}
	if pkg.Receiver("callback") != &pkg.Receivers[1] || pkg.Receiver("other") != nil {
		t.Error("the receivers of a kind are not found")
	}
}

// What is wrong with receivers is for those to know whose document marks one.
func TestProblemsOfReceivers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ old, with, want string }{
		"twice": {"HandleLostWebhook(w http", "HandlePaidWebhook(w http", "DIR/api.gen.go:14:2: the method HandlePaidWebhook is already declared at DIR/api.gen.go:11:2"},
		"name":  {"HandleLostWebhook(w http", "Lost(w http", "DIR/api.gen.go:14:2: Lost is not of the form Handle…Webhook"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			pkg, findings := gosource.Load(dir, map[string][]byte{"api.gen.go": []byte(strings.Replace(received, test.old, test.with, 1))})
			if pkg == nil || len(findings) > 0 {
				t.Fatal(findings)
			}
			problems := pkg.Receiver("webhook").Problems
			if len(problems) != 1 || !strings.HasPrefix(strings.ReplaceAll(problems[0].String(), dir, "DIR"), test.want) {
				t.Errorf("%v, want %q", problems, test.want)
			}
			if problems := pkg.Receiver("callback").Problems; len(problems) > 0 {
				t.Errorf("callbacks: %v", problems)
			}
		})
	}
}

// Receivers for what idemgen generates none for are known by it.
func TestUnsupportedReceivers(t *testing.T) {
	t.Parallel()
	for with, want := range map[string]string{
		"HandleShippedCallback(c *http.Cookie) error": "net/http",
		"HandleShippedCallback()":                     "no known framework",
	} {
		pkg, findings := load(t, map[string]string{"api.gen.go": strings.Replace(received, "HandleShippedCallback(w http.ResponseWriter, r *http.Request)", with, 1)})
		if pkg == nil {
			t.Fatal(findings)
		}
		if got := pkg.Receiver("callback"); got.Unsupported != want || len(got.Operations)+len(got.Problems) > 0 {
			t.Errorf("%s: %+v", with, got)
		}
	}
}
