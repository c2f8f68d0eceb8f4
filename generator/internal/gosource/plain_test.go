package gosource_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/idemgen/idemgen/generator/internal/gosource"
)

// plainServer is the least that is a server without a strict one.
const plainServer = `package api

import "net/http"

type ServerInterface interface {
	// (POST /accounts/{id}/payments)
	Pay(w http.ResponseWriter, r *http.Request, id string, params PayParams)
	// (GET /payments)
	List(w http.ResponseWriter, r *http.Request)
}

type PayParams struct{}
`

// bodiesOf writes the bodies of the first operation.
func bodiesOf(pkg *gosource.Package) string {
	var all []string
	for _, b := range pkg.Operations[0].Bodies {
		all = append(all, strings.Join([]string{b.Tag, b.MediaType, b.Type.String(), b.Underlying}, " "))
	}
	return strings.Join(all, "; ")
}

func TestPlainServer(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ models, want string }{
		"by comment": {
			"// PayJSONRequestBody defines body for Pay for application/json ContentType.\ntype PayJSONRequestBody = Payment\n\n" +
				"// PayAppJSONRequestBody defines body for Pay for application/x+json; v=\"1 2\" ContentType.\r\ntype PayAppJSONRequestBody struct{}\n\ntype Payment struct{}\n",
			`JSON application/json PayJSONRequestBody Payment; AppJSON application/x+json; v="1 2" PayAppJSONRequestBody `,
		},
		"in a group": {
			"type (\n\t// PayTextRequestBody defines body for Pay for text/plain ContentType.\n\tPayTextRequestBody = Note\n\t// A note.\n\tNote string\n)\n",
			"Text text/plain PayTextRequestBody string",
		},
		"by name": {
			"type PayTextRequestBody string\n\ntype PayJSONRequestBody struct{}\n\ntype PayFormdataRequestBody map[string]string\n\ntype PayAllJSONRequestBody struct{}\n",
			"JSON application/json PayJSONRequestBody ; Formdata application/x-www-form-urlencoded PayFormdataRequestBody ; Text text/plain PayTextRequestBody string",
		},
		"of another":          {"// RefundJSONRequestBody defines body for Refund for application/json ContentType.\ntype RefundJSONRequestBody struct{}\n", ""},
		"a comment elsewhere": {"// PayJSONRequestBody defines body for Pay for application/json ContentType.\ntype Other struct{}\n", ""},
		"a cycle":             {"type PayTextRequestBody = A\n\ntype A = B\n\ntype B = A\n", "Text text/plain PayTextRequestBody B"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pkg, findings := load(t, map[string]string{"api.gen.go": plainServer, "models.go": "package api\n\n" + test.models})
			if pkg == nil {
				t.Fatal(findings)
			}
			if got := bodiesOf(pkg); got != test.want {
				t.Errorf("bodies %q, want %q", got, test.want)
			}
			if !pkg.HasServer || !pkg.Plain || len(pkg.Operations) != 2 {
				t.Errorf("%+v", pkg)
			}
			op := pkg.Operations[0]
			if op.Name != "Pay" || len(op.First) != 2 || len(op.Parameters) != 2 || !slices.Equal(op.Routes, []gosource.Route{{Method: "POST", Path: "/accounts/{id}/payments"}}) {
				t.Errorf("%+v", op)
			}
		})
	}
}

// The models may be in another package of the module that the server's file
// imports as ".". A package of another module is not looked for.
func TestPlainServerWithModelsElsewhere(t *testing.T) {
	t.Parallel()
	module := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(module, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module example.com/shop // the whole of it\n")
	write("models/models.go", "package models\n\n// PayJSONRequestBody defines body for Pay for application/json ContentType.\ntype PayJSONRequestBody struct{}\n")
	write("models/broken.go", "package models\n\nfunc\n")
	for path, want := range map[string]string{
		"example.com/shop/models":  "JSON application/json models.PayJSONRequestBody ",
		"example.com/shop/missing": "",
		"example.com/shopping":     "",
		"example.com/shop":         "",
	} {
		source := strings.Replace(plainServer, `import "net/http"`, "import (\n\t\"net/http\"\n\n\t. \""+path+"\"\n)", 1)
		pkg, findings := gosource.Load(filepath.Join(module, "internal", "api"), map[string][]byte{"api.gen.go": []byte(source)})
		if pkg == nil {
			t.Fatal(findings)
		}
		if got := bodiesOf(pkg); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
