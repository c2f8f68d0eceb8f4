package generator_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/idemgen/idemgen/generator"
	"github.com/idemgen/idemgen/generator/internal/tree"
)

// Documents that people publish, marked from the config because nobody may
// edit them, become servers that compile and keep what the marks promise over
// HTTP: first request, replay, mismatch and missing key.
//
// The documents are no part of the repository. They are read from IDEM_SPECS,
// or ../shared/specs beside the repository. Each case of testdata/real says
// what its document needs of oapi-codegen to compile at all.
//
// Covers GEN-11.
func TestRealDocuments(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	specs := realSpecs(t, root)
	for name, document := range map[string]string{
		"adyen":    "adyen-checkout-v72.json",
		"formance": "formance-ledger.yaml",
		"square":   "square-connect.json",
		"svix":     "svix-server.json",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			from := filepath.Join(root, "testdata", "real", name)
			place(t, filepath.Join(specs, document), filepath.Join(dir, document), squareMended...)
			configs, err := filepath.Glob(filepath.Join(from, "*.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			for _, config := range configs {
				place(t, config, filepath.Join(dir, filepath.Base(config)))
			}
			place(t, filepath.Join(from, "drive_test.go.txt"), filepath.Join(dir, "drive_test.go"))
			placeModule(t, root, dir)

			config, err := generator.LoadConfig(filepath.Join(dir, "idemgen.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			result, err := generator.Generate(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := result.Write(); err != nil {
				t.Fatal(err)
			}
			test := exec.CommandContext(t.Context(), "go", "test", "-count=1", ".")
			test.Dir = dir
			test.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
			if out, err := test.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, bytes.TrimSpace(out))
			}
		})
	}
}

// squareMended is a schema that is referred to and not there, and one that is
// there.
var squareMended = []string{"CatalogModifierToggleOverrideType", "CatalogModifierListSelectionType"}

// realSpecs returns the directory of the documents, and skips where there is none.
func realSpecs(t *testing.T, root string) string {
	t.Helper()
	specs := os.Getenv("IDEM_SPECS")
	if specs == "" {
		specs = filepath.Join(root, "..", "shared", "specs")
	}
	if _, err := os.Stat(specs); err != nil {
		if os.Getenv("IDEM_REQUIRE") == "all" {
			t.Fatalf("no documents (IDEM_REQUIRE=all): %v", err)
		}
		t.Skipf("no documents, set IDEM_SPECS to their directory: %v", err)
	}
	return specs
}

// The contracts of documents that people publish, with every operation marked
// that changes something, are as valid as the documents, and their overlays
// say the same.
func TestRealContracts(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	specs := realSpecs(t, root)
	for _, name := range []string{"adyen-checkout-v72.json", "formance-ledger.yaml", "midaz-transaction.yaml", "svix-server.json"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			document := filepath.Join(specs, name)
			source, findings := tree.Read(document)
			if findings.HasErrors() {
				t.Fatal(findings)
			}
			text := "spec: " + strconv.Quote(document) + "\noperations:\n"
			for _, item := range source.Root().Get("paths").Fields() {
				for _, f := range item.Value.Fields() {
					if slices.Contains([]string{"delete", "patch", "post", "put"}, f.Name) {
						text += "  " + strconv.Quote(strings.ToUpper(f.Name)+" "+item.Name) + ": true\n"
					}
				}
			}
			dir := project(t, map[string]string{"idemgen.yaml": text})
			config, err := generator.LoadConfig(filepath.Join(dir, "idemgen.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			contract, err := generator.Contract(config, "")
			if err != nil {
				t.Fatal(err)
			}
			overlay, err := generator.ContractOverlay(config, "")
			if err != nil {
				t.Fatal(err)
			}
			over, findings := tree.Parse("overlay", withoutMark(overlay.Files[0].Content))
			if findings.HasErrors() {
				t.Fatal(findings)
			}
			content := withoutMark(contract.Files[0].Content)
			if findings := source.Apply(over, true); findings.HasErrors() || !source.Root().Equal(parsedFile(t, content)) {
				t.Errorf("the document with the overlay is not the contract: %v", findings)
			}
			original, err := os.ReadFile(document)
			if err != nil {
				t.Fatal(err)
			}
			if before, after := invalid(t, original), invalid(t, content); after != before {
				t.Errorf("the contract is invalid in another way than the document:\n%s\n%s", after, before)
			}
		})
	}
}

// Documents that people publish, with every operation marked that may change
// something, become code without a single compiler error, also where
// oapi-codegen's own has some. What oapi-codegen refuses by default is refused
// with its reason; the options are those by which users get on.
func TestRealDocumentsCompile(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	specs := realSpecs(t, root)
	mended := []string{"CatalogModifierToggleOverrideType", "CatalogModifierListSelectionType"}
	// UpdateVendor does not declare the parameter of its path.
	const squareOptions = "{response-type-suffix: Result, exclude-operation-ids: [UpdateVendor]}"
	for name, test := range map[string]struct {
		document string
		only     string // the mode, of a document that takes long; "" for both
		marker   string // of each operation, true by default
		refusal  string // by default; "" for none
		options  string // for oapi-codegen
		repair   bool   // by the overlay repair.yaml of the case in testdata/real
		// mended is text of the document that no option reaches, and what
		// stands there instead.
		mended  []string
		marked  int
		refused map[string]int // by code
		broken  bool           // oapi-codegen's own code has errors
	}{
		"adyen": {document: "adyen-checkout-v72.json", marked: 25},
		"formance": {
			document: "formance-ledger.yaml",
			refusal:  "formance-ledger.yaml: oapi-codegen cannot generate from this document: error collecting component types: error generating Go types for component schemas: error converting Schema V2QueryParams to Go type: error generating type for oneOf: discriminator: not all schemas were mapped",
			options:  "{response-type-suffix: Answer, exclude-schemas: [V2QueryParams]}", marked: 31, broken: true,
		},
		"github": {
			document: "github-ogen-trimmed.json",
			refusal:  "github-ogen-trimmed.json: oapi-codegen cannot generate from this document: error generating code for type definitions: duplicate typename 'Actor' detected",
			options:  "{resolve-type-name-collisions: true}", marked: 367, broken: true,
		},
		"midaz": {document: "midaz-transaction.yaml", marked: 20},
		"paypal": {
			document: "paypal-orders-v2.json",
			refusal:  "paypal-orders-v2.json: oapi-codegen cannot generate from this document: error generating code for type definitions: duplicate typename 'AuthorizationStatus' detected",
			repair:   true, marked: 7,
		},
		"square": {
			document: "square-connect.json", only: "plain",
			refusal: `square-connect.json:9946:21: the $ref "#/components/schemas/CatalogModifierToggleOverrideType" leads nowhere`,
			mended:  mended, options: squareOptions,
			marked: 197, refused: map[string]int{"operation-unmatched": 1},
		},
		"square, keys in bodies": {
			document: "square-connect.json", only: "strict",
			marker: "{key: {in: body, name: /idempotency_key}}",
			mended: mended, options: squareOptions,
			// Most have no such member; four would have it in a part of a multipart body.
			marked: 62, refused: map[string]int{"key-body": 135, "operation-unmatched": 1},
		},
		"svix": {
			document: "svix-server.json",
			refusal:  "svix-server.json: oapi-codegen cannot generate from this document: error creating operation definitions: path '/api/v1/app/{app_id}' has 1 positional parameters, but spec has 0 declared",
			repair:   true, marked: 23,
		},
	} {
		for _, mode := range []string{"strict", "plain"} {
			if test.only != "" && test.only != mode {
				continue
			}
			t.Run(name+"/"+mode, func(t *testing.T) {
				t.Parallel()
				content, err := os.ReadFile(filepath.Join(specs, test.document))
				if err != nil {
					t.Fatal(err)
				}
				files := map[string]string{
					test.document:       string(content),
					"idemgen.yaml":      "spec: " + test.document + "\noapi-codegen: oapi-codegen.yaml\n",
					"oapi-codegen.yaml": wholeOapiConfig("std-http-server", mode),
				}
				if test.refusal != "" && mode == cmp.Or(test.only, "strict") {
					refusedByDefault(t, project(t, files), test.refusal)
				}
				files[test.document] = strings.NewReplacer(test.mended...).Replace(string(content))
				options := cmp.Or(test.options, "{}")
				if test.repair {
					overlay, err := os.ReadFile(filepath.Join(root, "testdata", "real", name, "repair.yaml"))
					if err != nil {
						t.Fatal(err)
					}
					files["repair.yaml"] = string(overlay)
					files["idemgen.yaml"] += "overlay: repair.yaml\n"
					options = "{overlay: {path: repair.yaml}}"
				}
				files["oapi-codegen.yaml"] += "output-options: " + options + "\n"
				result, refused := allMarked(t, project(t, files), cmp.Or(test.marker, "true"))
				if result.Protected != test.marked || !maps.Equal(refused, test.refused) {
					t.Errorf("%d operations are marked and refused are %v; want %d and %v", result.Protected, refused, test.marked, test.refused)
				}
				if theirs := typeChecked(t, result); (theirs > 0) != test.broken {
					t.Errorf("oapi-codegen's own code has %d errors", theirs)
				}
			})
		}
	}
}

// wholeOapiConfig has models, a client and a server generated, the server
// strict or plain.
func wholeOapiConfig(server, mode string) string {
	return fmt.Sprintf("package: api\noutput: api.gen.go\ngenerate: {models: true, client: true, %s: true, strict-server: %t}\n", server, mode == "strict")
}

// refusedByDefault checks that a project cannot be generated, and why.
func refusedByDefault(t *testing.T, dir, want string) {
	t.Helper()
	config, err := generator.LoadConfig(filepath.Join(dir, "idemgen.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = generator.Generate(t.Context(), config)
	var findings generator.Findings
	found := func(d generator.Diagnostic) bool {
		return strings.HasPrefix(d.String(), filepath.ToSlash(dir)+"/"+want)
	}
	if !errors.As(err, &findings) || !slices.ContainsFunc(findings, found) {
		t.Errorf("%v\nwant %s", err, want)
	}
}

// invalid is what kin-openapi has against a document.
func invalid(t *testing.T, content []byte) string {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(content)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		return err.Error()
	}
	return ""
}

// placeModule makes dir a module that uses this repository's, with the
// dependencies that the testdata module has.
func placeModule(t *testing.T, root, dir string) {
	t.Helper()
	mod, err := os.ReadFile(filepath.Join(root, "testdata", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	const self = "github.com/idemgen/idemgen/testdata"
	text := strings.NewReplacer(
		"module "+self, "module example.com/real",
		"=> ../runtime", "=> "+filepath.Join(root, "runtime"),
	).Replace(string(mod))
	text += "\nrequire " + self + " v0.0.0\n\nreplace " + self + " => " + filepath.Join(root, "testdata") + "\n"
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	place(t, filepath.Join(root, "testdata", "go.sum"), filepath.Join(dir, "go.sum"))
}

// place copies a file, with other texts in place of some.
func place(t *testing.T, from, to string, mended ...string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, []byte(strings.NewReplacer(mended...).Replace(string(content))), 0o600); err != nil {
		t.Fatal(err)
	}
}
