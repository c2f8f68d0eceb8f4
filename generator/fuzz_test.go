package generator_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/idemgen/idemgen/generator"
	"github.com/idemgen/idemgen/templates"
)

// FuzzGenerate gives the whole generator documents that nobody has checked.
// The answer is findings, or Go that parses and holds text of the document in
// comments and strings alone.
//
// Covers GEN-31.
func FuzzGenerate(f *testing.F) {
	seeds, err := filepath.Glob("../testdata/golden/*/openapi.yaml")
	if err != nil || len(seeds) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, path := range seeds {
		src, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src)
	}
	config := fuzzConfig(f)
	f.Fuzz(func(t *testing.T, document []byte) { generate(t, config, document, nil) })
}

// FuzzText puts texts that nobody has checked into every place of a document
// that is otherwise sound, so that most of them reach the templates.
//
// Covers GEN-31.
func FuzzText(f *testing.F) {
	f.Add("createPayment", "/payments", "Pay.", "X-Trace", "application/json", "amount", "", "id")
	f.Add("evil\"); func init() { panic(1) } //", "/a'b", "*/\nfunc init() {}", "X'", "application/json; a=b", "a'b", "BuyRequest", "type")
	f.Add("\u202e\ufeff", "/%d;.Package", "(POST /other)", "X-A", "*/*", "%d", "X", "w_")
	config := fuzzConfig(f)
	f.Fuzz(func(t *testing.T, id, path, text, header, mediaType, property, name, parameter string) {
		type object = map[string]any
		schema := object{"type": "object", "description": text, "properties": object{property: object{"type": "string", "description": text}}}
		marker := object{}
		if ast.IsExported(name) && token.IsIdentifier(name) {
			marker["name"] = name
		}
		document, err := json.Marshal(object{
			"openapi": "3.0.3",
			"info":    object{"title": text, "version": text, "description": text},
			"paths": object{
				path: object{"post": object{
					"operationId": id, "summary": text, "description": text, "tags": []string{text},
					"x-idempotent": marker,
					"parameters": []object{
						{"name": header, "in": "header", "description": text, "schema": object{"type": "string"}},
						{"name": property, "in": "cookie", "schema": object{"type": "string"}},
					},
					"requestBody": object{"content": object{mediaType: object{"schema": schema}}},
					"responses":   object{"200": object{"description": text, "content": object{mediaType: object{"schema": schema}}}},
				}},
				"/other/{" + parameter + "}": object{"put": object{
					"x-idempotent": true,
					"parameters":   []object{{"name": parameter, "in": "path", "required": true, "schema": object{"type": "string"}}},
					"responses":    object{"204": object{"description": text}},
				}},
			},
			"webhooks": object{"on " + property: object{"post": object{"x-idempotent": true, "summary": text, "responses": object{"204": object{"description": text}}}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		generate(t, config, document, []string{name, "New" + name})
	})
}

// fuzzConfig returns the config of a package in a directory of its own.
func fuzzConfig(f *testing.F) generator.Config {
	f.Helper()
	dir := f.TempDir()
	for name, content := range map[string]string{
		"go.mod":            "module example.com/fuzz\n",
		"idemgen.yaml":      "spec: openapi.yaml\noapi-codegen: oapi-codegen.yaml\n",
		"oapi-codegen.yaml": "package: api\noutput: api.gen.go\ngenerate: {models: true, client: true, std-http-server: true, strict-server: true}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			f.Fatal(err)
		}
	}
	config, err := generator.LoadConfig(filepath.Join(dir, "idemgen.yaml"))
	if err != nil {
		f.Fatal(err)
	}
	return config
}

// generate runs the generator on a document and checks what comes out. Names are
// those that its markers ask for.
func generate(t *testing.T, config generator.Config, document []byte, names []string) {
	t.Helper()
	if err := os.WriteFile(config.Spec, document, 0o600); err != nil {
		t.Fatal(err)
	}
	result, err := generator.Generate(t.Context(), config)
	if err != nil {
		var findings generator.Findings
		if !errors.As(err, &findings) {
			t.Fatalf("not findings: %v", err)
		}
		for _, d := range findings {
			if strings.ContainsAny(d.Message, "\n\r") || d.Message == "" {
				t.Errorf("not one line: %q", d.Message)
			}
		}
		return
	}
	oapi, own := result.Files[0].Content, result.Files[1].Content
	checkDeclarations(t, own)
	checkIdentifiers(t, own, oapi, names)
	again, err := generator.Generate(t.Context(), config)
	if err != nil || !bytes.Equal(again.Files[1].Content, own) {
		t.Errorf("a second run gives other bytes: %v", err)
	}
}

var (
	fixedFuncs   = []string{"NewIdempotentHandler", "WithStrictServer", "WithClientOptions", "IdempotencyRequestHeaders", "IdempotencyResponseHeaders"}
	derivedFuncs = regexp.MustCompile(`^(New|Parse).`)
)

// checkDeclarations lets only the declarations of the template through: no
// function runs by itself, and no variable calls one.
func checkDeclarations(t *testing.T, src []byte) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "idempotent.gen.go", src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatalf("does not parse: %v\n%s", err, src)
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if name := d.Name.Name; d.Recv == nil && !slices.Contains(fixedFuncs, name) && !derivedFuncs.MatchString(name) {
				t.Errorf("declares func %s", name)
			}
		case *ast.GenDecl:
			if d.Tok != token.VAR {
				continue
			}
			for _, s := range d.Specs {
				for _, v := range s.(*ast.ValueSpec).Values {
					ast.Inspect(v, func(n ast.Node) bool {
						if call, ok := n.(*ast.CallExpr); ok && !isConversionOfNil(call) {
							if sel, ok := call.Fun.(*ast.SelectorExpr); !ok || sel.Sel.Name != "StatusClass" {
								t.Errorf("a variable calls a function")
							}
						}
						return true
					})
				}
			}
		}
	}
}

// isConversionOfNil reports whether an expression is (*T)(nil).
func isConversionOfNil(call *ast.CallExpr) bool {
	_, isParen := call.Fun.(*ast.ParenExpr)
	if !isParen || len(call.Args) != 1 {
		return false
	}
	arg, isName := call.Args[0].(*ast.Ident)
	return isName && arg.Name == "nil"
}

// checkIdentifiers lets only the identifiers of the template, of oapi-codegen's
// output, those that the plan makes of them, and the names through.
func checkIdentifiers(t *testing.T, own, oapi []byte, names []string) {
	t.Helper()
	known := make(map[string]bool)
	files, err := fs.Glob(templates.FS, "*.tmpl")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(files, "targets/nethttp.tmpl") {
		src, err := fs.ReadFile(templates.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(known, identifiers(src))
	}
	for name := range identifiers(oapi) {
		known[name] = true
	}
	for name := range identifiers(own) {
		if !known[name] && !slices.Contains(planned, name) && !slices.Contains(names, name) && !derived.MatchString(name) {
			t.Errorf("identifier %s comes from nowhere", name)
		}
	}
}

// planned are names that the plan writes for values of a marker, and derived
// matches the ones it makes for an operation, or because a name was taken.
var (
	planned = strings.Fields(`
		Header Pointer KeyOpaque KeyUUID KeyUUIDv7 StatusClass true
		Raw Exclude Include Headers Cookies BodyJSON BodyRaw BodyMultipart
		lease Lease LeaseStore
		time Hour Minute Second Millisecond Microsecond Nanosecond
		cmp Or retry Stream OneBody nil
		IdempotentWebhookReceiver NewIdempotentWebhookReceiver idempotentWebhookReceiver
		IdempotentCallbackReceiver NewIdempotentCallbackReceiver idempotentCallbackReceiver
		DecodeJSON DecodeText DecodePointer FormDecoder runtime BindForm Is JSONBody FormdataBody TextBody Params
		Tx S idempotentClient idempotentServer idempotentStrict idempotentStrictOptions idempotentAnswer idempotentContext idempotentAttempt
		io Body RawBody ContentType BodyContentType MultipartReader BodyMultipartReader`)
	derived = regexp.MustCompile(`(Op|IdempotencyKey|Input|IdempotentRequest|UnprotectedRequest|Operation|\d|_)$`)
)

// identifiers returns the identifiers of src outside of comments and strings,
// of Go as of a template of it.
func identifiers(src []byte) map[string]bool {
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(src))
	s.Init(file, src, func(token.Position, string) {}, 0)
	found := make(map[string]bool)
	for {
		switch _, tok, lit := s.Scan(); tok {
		case token.EOF:
			return found
		case token.IDENT:
			found[lit] = true
		}
	}
}
