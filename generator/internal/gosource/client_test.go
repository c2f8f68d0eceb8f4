package gosource_test

import (
	"strings"
	"testing"

	"github.com/idemgen/idemgen/generator/internal/gosource"
)

// client is the least that is a client.
const client = `package api

import (
	"context"
	"fmt"
	"io"
	"net/http"

	openapi_types "github.com/oapi-codegen/runtime/types"
)

type Client struct{}
type ClientOption func(*Client) error
type ClientInterface interface{}
type ClientWithResponses struct{}
type RequestEditorFn func()

func (c *Client) applyEditors(ctx context.Context, req *http.Request, additionalEditors []RequestEditorFn) error { return nil }

func NewClient(server string, opts ...ClientOption) (*Client, error) { return nil, nil }

type ClientWithResponsesInterface interface {
	GetWithResponse(ctx context.Context, reqEditors ...RequestEditorFn) (*GetResponse, error)
	PayWithBodyWithResponse(ctx context.Context, id openapi_types.UUID, params *PayParams, contentType string, body io.Reader, reqEditors ...RequestEditorFn) (*PayResult, error)
	PayWithResponse(ctx context.Context, id openapi_types.UUID, params *PayParams, body PayJSONRequestBody, reqEditors ...RequestEditorFn) (*PayResult, error)
	PayWithFormdataBodyWithResponse(ctx context.Context, id openapi_types.UUID, params *PayParams, body PayFormdataRequestBody, reqEditors ...RequestEditorFn) (*PayResult, error)
}

func NewGetRequest(server string) (*http.Request, error) {
	operationPath := fmt.Sprintf("/all")
	return http.NewRequest(http.MethodGet, operationPath, nil)
}
func NewPayRequest(server string, id openapi_types.UUID, params *PayParams, body PayJSONRequestBody) (*http.Request, error) {
	return NewPayRequestWithBody(server, id, params, "application/json", nil)
}
func NewPayRequestWithFormdataBody(server string, id openapi_types.UUID, params *PayParams, body PayFormdataRequestBody) (*http.Request, error) {
	return nil, nil
}
func NewPayRequestWithBody(server string, id openapi_types.UUID, params *PayParams, contentType string, body io.Reader) (*http.Request, error) {
	operationPath := fmt.Sprintf("/accounts/%s/payments", id)
	return http.NewRequest("POST", operationPath, body)
}

func ParseGetResponse(rsp *http.Response) (*GetResponse, error) { return nil, nil }
func ParsePayResult(rsp *http.Response) (*PayResult, error) { return nil, nil }

// Functions of the user's own that look like oapi-codegen's.
func NewRequest() {}
func NewOrderRequest(id string) (*http.Request, error) { return nil, nil }
func NewCartRequest(server string) string { return "" }
`

// A package that is a client alone gives the client's operations, in the order
// of its methods, with what its code says of them.
func TestClientAlone(t *testing.T) {
	t.Parallel()
	pkg, findings := load(t, map[string]string{"client.gen.go": client})
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	if pkg.HasServer || pkg.Client == nil || len(pkg.Client.Methods) != 4 || len(pkg.Operations) != 2 {
		t.Fatalf("%+v", pkg)
	}
	if pkg.Client.Type != "Client" {
		t.Errorf("the client is a %s", pkg.Client.Type)
	}
	if at := pkg.Pos.String(); !strings.HasSuffix(at, "client.gen.go:22:6") {
		t.Errorf("the client is at %s", at)
	}
	get, pay := pkg.Operations[0], pkg.Operations[1]
	if get.Name != "Get" || get.Routes[0] != (gosource.Route{Method: "GET", Path: "/all"}) || get.Call.Parse != "ParseGetResponse" || get.Call.Build != "NewGetRequest" || get.Call.HasBody || len(get.Call.Encoders) != 0 || !get.Call.Params.IsZero() {
		t.Errorf("%+v %+v", get, get.Call)
	}
	call := pay.Call
	if pay.Name != "Pay" || pay.Routes[0] != (gosource.Route{Method: "POST", Path: "/accounts/%s/payments"}) || call.Response != "PayResult" || call.Parse != "ParsePayResult" {
		t.Errorf("%+v %+v", pay, call)
	}
	if len(call.Path) != 1 || call.Path[0].Name != "id" || call.Params.String() != "PayParams" {
		t.Errorf("%+v", call)
	}
	if call.Build != "NewPayRequestWithBody" || !call.HasBody {
		t.Errorf("%+v", call)
	}
	var encoders []string
	for _, e := range call.Encoders {
		encoders = append(encoders, e.Func+" "+e.Tag+" "+e.Body.String())
	}
	const want = "NewPayRequest JSON PayJSONRequestBody, NewPayRequestWithFormdataBody Formdata PayFormdataRequestBody"
	if got := strings.Join(encoders, ", "); got != want {
		t.Errorf("encoders %s\nwant     %s", got, want)
	}
	if last := pkg.Client.Methods[2].Parameters; last[len(last)-1].Type.String() != "...RequestEditorFn" {
		t.Errorf("%+v", last)
	}
}

// What a package does not declare is of the package that its file imports as
// ".", wherever it stands in a type.
func TestDotImport(t *testing.T) {
	t.Parallel()
	source := strings.NewReplacer(
		"import (", "import (\n\t. \"example.com/go-models/v2\"",
		"id openapi_types.UUID, params", "id map[Kind][]struct{ Name openapi_types.UUID; Client *Client; Other func(Kind) string }, params",
	).Replace(client)
	pkg, findings := load(t, map[string]string{"client.gen.go": source})
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	call := pkg.Operations[1].Call
	const want = "map[models.Kind][]struct{ Name openapi_types.UUID; Client *Client; Other func(models.Kind) string }"
	if got := call.Path[0].Type; got.String() != want || len(got.Imports()) != 3 || got.Imports()[0].Path != "example.com/go-models/v2" {
		t.Errorf("%s of %+v, want %s", got, got.Imports(), want)
	}
	if got := call.Params.String(); got != "models.PayParams" {
		t.Errorf("the parameters are %s", got)
	}
}

// Operations can be called like what oapi-codegen makes of another one's name.
func TestClientOfOddNames(t *testing.T) {
	t.Parallel()
	source := strings.NewReplacer(
		"GetWithResponse(ctx", "PayRequestWithBodyWithBodyWithResponse(ctx", "GetResponse", "PayRequestWithBodyResponse",
		"reqEditors ...RequestEditorFn) (*GetResponse", "contentType string, body io.Reader, reqEditors ...RequestEditorFn) (*PayRequestWithBodyResponse",
		"NewGetRequest(server string)", "NewPayRequestWithBodyRequestWithBody(server string, contentType string, body io.Reader)",
	).Replace(client)
	pkg, findings := load(t, map[string]string{"client.gen.go": source})
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	if len(pkg.Operations) != 2 || pkg.Operations[0].Name != "PayRequestWithBody" || pkg.Operations[1].Name != "Pay" || len(pkg.Operations[1].Call.Encoders) != 2 {
		t.Errorf("%+v", pkg.Operations)
	}
}

// In a package with both, the server's operations know how the client calls
// them.
func TestClientBesideServer(t *testing.T) {
	t.Parallel()
	pkg, findings := load(t, map[string]string{"server.gen.go": generated, "client.gen.go": client})
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	if !pkg.HasServer || pkg.Client == nil || len(pkg.Operations) != 1 || pkg.Operations[0].Call == nil || pkg.Operations[0].Request == "" {
		t.Errorf("%+v", pkg)
	}
}

// A server that idemgen cannot protect is an error, with a client beside it
// too; so is a client that lacks a part.
func TestClientFindings(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		files map[string]string
		want  string
	}{
		"two operations of a name": {
			map[string]string{"client.gen.go": strings.Replace(client, "PayWithResponse(", "GetWithResponse(", 1)},
			"DIR/client.gen.go:25:2: the method GetWithResponse is already declared at DIR/client.gen.go:23:2, since two operations",
		},
		"an operation called as a field": {
			map[string]string{"client.gen.go": strings.Replace(client, "type Client struct{}", "type Client struct{ Server string }\n\nfunc (c *Client) Server() {}", 1)},
			"DIR/client.gen.go:14:18: Server is a method of the client and a field of it at DIR/client.gen.go:12:21; give the operation",
		},
		"no editors": {
			map[string]string{"client.gen.go": strings.Replace(client, "applyEditors(", "runEditors(", 1)},
			"DIR/client.gen.go:20:6: NewClient does not return a pointer to a type with a method applyEditors",
		},
		"two dot imports": {
			map[string]string{"client.gen.go": strings.Replace(client, "import (", "import (\n\t. \"example.com/models\"\n\t. \"example.com/more\"", 1)},
			"DIR/client.gen.go:1:9: this file imports 2 packages as \".\"",
		},
		"no constructor": {
			map[string]string{"client.gen.go": strings.Replace(client, "func NewClient(", "func newClient(", 1)},
			"DIR/client.gen.go:22:6: package api does not declare NewClient, which a client of oapi-codegen v2.3 to v2.8 has",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pkg, findings := load(t, test.files)
			if pkg != nil || len(findings) != 1 || !strings.Contains(findings[0], test.want) {
				t.Errorf("package %v, findings %q, want one with %q", pkg != nil, findings, test.want)
			}
		})
	}
}
