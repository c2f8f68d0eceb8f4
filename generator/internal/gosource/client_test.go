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

func NewClient(server string, opts ...ClientOption) (*Client, error) { return nil, nil }

type ClientWithResponsesInterface interface {
	GetWithResponse(ctx context.Context, reqEditors ...RequestEditorFn) (*GetResponse, error)
	PayWithBodyWithResponse(ctx context.Context, id openapi_types.UUID, params *PayParams, contentType string, body io.Reader, reqEditors ...RequestEditorFn) (*PayResult, error)
	PayWithResponse(ctx context.Context, id openapi_types.UUID, params *PayParams, body PayJSONRequestBody, reqEditors ...RequestEditorFn) (*PayResult, error)
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
	if pkg.HasServer || pkg.Client == nil || len(pkg.Client.Methods) != 3 || len(pkg.Operations) != 2 {
		t.Fatalf("%+v", pkg)
	}
	if pkg.Client.Type != "Client" {
		t.Errorf("the client is a %s", pkg.Client.Type)
	}
	if at := pkg.Pos.String(); !strings.HasSuffix(at, "client.gen.go:20:6") {
		t.Errorf("the client is at %s", at)
	}
	get, pay := pkg.Operations[0], pkg.Operations[1]
	if get.Name != "Get" || get.Routes[0] != (gosource.Route{Method: "GET", Path: "/all"}) || get.Call.Parse != "ParseGetResponse" || len(get.Call.Builders) != 1 || !get.Call.Params.IsZero() {
		t.Errorf("%+v %+v", get, get.Call)
	}
	call := pay.Call
	if pay.Name != "Pay" || pay.Routes[0] != (gosource.Route{Method: "POST", Path: "/accounts/%s/payments"}) || call.Response != "PayResult" || call.Parse != "ParsePayResult" {
		t.Errorf("%+v %+v", pay, call)
	}
	if len(call.Path) != 1 || call.Path[0].Name != "id" || call.Params.String() != "PayParams" {
		t.Errorf("%+v", call)
	}
	var builders []string
	for _, b := range call.Builders {
		what := b.Tag + " " + b.Body.String()
		if b.Any {
			what = "any"
		}
		builders = append(builders, b.Func+" "+what)
	}
	const want = "NewPayRequest JSON PayJSONRequestBody, NewPayRequestWithFormdataBody Formdata PayFormdataRequestBody, NewPayRequestWithBody any"
	if got := strings.Join(builders, ", "); got != want {
		t.Errorf("builders %s\nwant     %s", got, want)
	}
	if last := pkg.Client.Methods[2].Parameters; last[len(last)-1].Type.String() != "...RequestEditorFn" {
		t.Errorf("%+v", last)
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
		"not strict": {
			map[string]string{"client.gen.go": client, "server.gen.go": "package api\n\ntype ServerInterface interface{ Pay() }\n"},
			"DIR/server.gen.go:3:6: package api has a ServerInterface and no StrictServerInterface",
		},
		"no constructor": {
			map[string]string{"client.gen.go": strings.Replace(client, "func NewClient(", "func newClient(", 1)},
			"DIR/client.gen.go:20:6: package api does not declare NewClient, which a client of oapi-codegen v2.3 to v2.8 has",
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
