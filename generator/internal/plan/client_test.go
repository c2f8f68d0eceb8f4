package plan_test

import (
	"os"
	"strings"
	"testing"

	"github.com/idemgen/idemgen/generator/internal/gosource"
	"github.com/idemgen/idemgen/generator/internal/plan"
	"github.com/idemgen/idemgen/generator/internal/spec"
)

// clientPackage is the golden client with some of its text replaced.
func clientPackage(t *testing.T, oldNew ...string) *gosource.Package {
	t.Helper()
	return goldenPackage(t, "client", oldNew...)
}

func goldenPackage(t *testing.T, name string, oldNew ...string) *gosource.Package {
	t.Helper()
	path := "../../../testdata/golden/" + name + "/api.gen.go"
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(src)
	for i := 0; i < len(oldNew); i += 2 {
		if !strings.Contains(text, oldNew[i]) {
			t.Fatalf("no %q in %s", oldNew[i], path)
		}
		text = strings.ReplaceAll(text, oldNew[i], oldNew[i+1])
	}
	pkg, findings := gosource.Load(t.TempDir(), map[string][]byte{"api.gen.go": []byte(text)})
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	return pkg
}

// An operation of a client is found by the path in its code; what cannot be
// found, or called, is an error.
func TestClientFindings(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		oldNew []string
		op     spec.Operation
		want   string
	}{
		"found without operationId": {nil, marked(1, "", "DELETE /payments/{id}"), ""},
		"stale":                     {nil, marked(1, "cancelPayment", "DELETE /payments/{id}/all"), "serves DELETE /payments/%s, and the document says DELETE /payments/{id}/all; run oapi-codegen again"},
		"unmatched":                 {nil, marked(1, "pay", "POST /pay"), "no generated method for pay (POST /pay)"},
		"another parser":            {[]string{"ParseCancelPaymentResponse", "readCancelPayment"}, marked(1, "", "DELETE /payments/{id}"), "no generated method for DELETE /payments/{id}"},
		"two methods of a name": {
			[]string{"GetPaymentWithResponse", "CancelPayment"}, marked(1, "", "DELETE /payments/{id}"),
			"the client has two methods called CancelPayment, a marked operation and one of its own; give the operation another operationId",
		},
		"its own comes first": {
			[]string{"CancelPaymentWithResponse", "Cancel2WithResponse", "NewCancelPaymentRequest", "NewCancel2Request", "CancelPaymentResponse", "Cancel2Response", "CloseAccountWithBodyWithResponse", "Cancel2"}, marked(1, "", "DELETE /payments/{id}"),
			"the client has two methods called Cancel2",
		},
		"the embedded type": {
			[]string{"CancelPaymentWithResponse", "ClientWithResponsesWithResponse", "NewCancelPaymentRequest", "NewClientWithResponsesRequest"}, marked(1, "", "DELETE /payments/{id}"),
			"a client cannot have a marked operation called ClientWithResponses",
		},
		"taken method": {
			[]string{"type Problem struct", "func (*CancelPaymentResponse) Replayed() {}\n\ntype Problem struct"}, marked(1, "", "DELETE /payments/{id}"),
			"CancelPaymentResponse.Replayed is a method that idemgen generates",
		},
		"taken package": {[]string{"type NewPayment struct", "type slices struct"}, marked(1, "", "DELETE /payments/{id}"), "slices is the name of a package that generated code imports"},
		"free package":  {[]string{"type NewPayment struct", "type cmp struct"}, marked(1, "", "DELETE /payments/{id}"), ""},
		"taken name":    {[]string{"type NewPayment struct", "type IdempotentClient struct"}, marked(1, "", "DELETE /payments/{id}"), "IdempotentClient is the name of something idemgen generates"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, findings := plan.New(&spec.Document{Operations: []spec.Operation{test.op}}, clientPackage(t, test.oldNew...))
			switch {
			case test.want == "" && (len(findings) > 0 || f == nil || f.HasServer || f.Client == nil):
				t.Errorf("%+v %v", f, findings)
			case test.want != "" && (len(findings) != 1 || !strings.Contains(findings[0].Message, test.want)):
				t.Errorf("findings %v, want one with %q", findings, test.want)
			}
		})
	}
}

// A client that cannot send all that the server beside it reads is of another
// run of oapi-codegen.
func TestClientOfAnotherDocument(t *testing.T) {
	t.Parallel()
	const (
		object = "type CancelPaymentRequestObject struct {\n"
		want   = "the client sends cancelPayment without all that the server reads, or with more"
	)
	doc := &spec.Document{Operations: []spec.Operation{marked(1, "cancelPayment", "DELETE /payments/{payment_id}")}}
	for _, more := range []string{"", "\tReason string `json:\"reason\"`\n", "\tParams CancelPaymentParams\n", "\tBody *CancelPaymentJSONRequestBody\n"} {
		f, findings := plan.New(doc, goldenPackage(t, "std-http", object, object+more))
		switch {
		case more == "" && (f == nil || len(findings) > 0):
			t.Errorf("%v", findings)
		case more != "" && (len(findings) != 1 || !strings.Contains(findings[0].Message, want)):
			t.Errorf("%q: findings %v, want one with %q", more, findings, want)
		}
	}
}

// A body that oapi-codegen's code loses is warned of.
func TestLostBody(t *testing.T) {
	t.Parallel()
	const declared = "type CloseAccountJSONRequestBody CloseAccountJSONBody"
	doc := &spec.Document{Operations: []spec.Operation{marked(1, "closeAccount", "POST /accounts/{account_id}/close")}}
	doc.Operations[0].Body = &spec.Body{MediaTypes: []spec.MediaType{{Name: "application/json"}}}
	if _, findings := plan.New(doc, clientPackage(t, declared, declared)); len(findings) > 0 {
		t.Errorf("%v", findings)
	}
	const lost = declared + "\n\nfunc (b CloseAccountJSONBody) MarshalJSON() ([]byte, error) { return nil, nil }"
	f, findings := plan.New(doc, clientPackage(t, declared, lost))
	if f == nil || len(findings) != 1 || findings.HasErrors() || !strings.Contains(findings[0].Message, "CloseAccountJSONRequestBody lacks the methods of CloseAccountJSONBody") {
		t.Errorf("%v", findings)
	}
	if _, findings := plan.New(doc, clientPackage(t, declared, lost+"\n\nfunc (CloseAccountJSONRequestBody) MarshalJSON() ([]byte, error) { return nil, nil }")); len(findings) > 0 {
		t.Errorf("%v", findings)
	}
}

// A name that package retry has in users' files is taken by another of theirs.
func TestRetryIsRenamed(t *testing.T) {
	t.Parallel()
	f, findings := plan.New(&spec.Document{Operations: []spec.Operation{marked(1, "", "DELETE /payments/{id}")}}, clientPackage(t, "type Problem struct", "func retry() {}\n\ntype Problem struct"))
	if len(findings) > 0 || f.RetryPackage != "retry2" {
		t.Errorf("%+v %v", f, findings)
	}
}
