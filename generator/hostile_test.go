package generator_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/idemgen/idemgen/generator"
)

// A document that would take much time or memory is refused before it does,
// and no file is touched. Memory is measured, so no other test runs beside it.
func TestHugeDocuments(t *testing.T) { //nolint:paralleltest // measures what the whole process allocates
	const megabyte = 1 << 20
	for name, test := range map[string]struct {
		text string
		want string
		most uint64 // bytes to allocate
	}{
		"50 MB": {
			`{"openapi": "3.0.3", "info": {"title": "` + strings.Repeat("x", 50*megabyte) + `", "version": "1"}, "paths": {}}`,
			"openapi.json: is larger than 32 MB; split it into files", megabyte,
		},
		"many small values": {
			`{"openapi": "3.0.3", "x-list": [` + strings.Repeat("1,", 5_000_000) + `1]}`,
			"openapi.json: holds too many values", 16 * megabyte,
		},
		"many small values in YAML": {
			strings.Repeat("- - -\n", 1_500_000),
			"openapi.json: holds too many values", 16 * megabyte,
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := project(t, map[string]string{
				"openapi.json": test.text,
				"idemgen.yaml": "spec: openapi.json\noapi-codegen: oapi-codegen.yaml\n",
			})
			config, err := generator.LoadConfig(filepath.Join(dir, "idemgen.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err = generator.Generate(t.Context(), config)
			runtime.ReadMemStats(&after)
			var findings generator.Findings
			if !errors.As(err, &findings) || len(findings) != 1 || !strings.Contains(findings[0].String(), test.want) {
				t.Errorf("%v, want %s", err, test.want)
			}
			if got := after.TotalAlloc - before.TotalAlloc; got > test.most {
				t.Errorf("%d bytes were allocated, want at most %d", got, test.most)
			}
			if files, err := filepath.Glob(filepath.Join(dir, "*.go")); err != nil || len(files) > 0 {
				t.Errorf("files were written: %v, %v", files, err)
			}
		})
	}
}

// A file that only an unmarked operation refers to may be as bad as any document:
// the reference is refused at its position, before it takes much time or memory,
// and no file is touched.
//
// Covers GEN-18 and GEN-20.
func TestHostileFiles(t *testing.T) { //nolint:paralleltest // measures what the whole process allocates
	const levels = 5000
	bomb := "a0: &a0 [" + strings.Repeat("x, ", 9) + "x]\n"
	for i := range 9 {
		bomb += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), i)
	}
	for name, test := range map[string]struct{ file, text, want string }{
		"deep YAML":   {"b.yaml", "A: " + strings.Repeat("{a: ", levels) + "1" + strings.Repeat("}", levels), `openapi.yaml:6:31: the $ref "b.yaml#/A" cannot be followed: b.yaml:1:3997: is nested deeper than 1000 levels`},
		"deep JSON":   {"b.json", `{"A": ` + strings.Repeat("[", levels) + strings.Repeat("]", levels) + "}", `openapi.yaml:6:31: the $ref "b.json#/A" cannot be followed: b.json:1:1007: is nested deeper than 1000 levels`},
		"aliases":     {"b.yaml", bomb + "A: {example: *a9}\n", `openapi.yaml:6:31: the $ref "b.yaml#/A" cannot be followed: b.yaml:1:13: aliases expand to more than 250000 values or 1000 levels`},
		"no UTF-8":    {"b.yaml", "A: {type: object, description: \"\xff\"}\n", `openapi.yaml:6:31: the $ref "b.yaml#/A" cannot be followed: b.yaml:1:33: is not valid YAML or JSON: it is not UTF-8 here`},
		"control":     {"b.yaml", "A: {type: object, description: \"\x01\"}\n", `openapi.yaml:6:31: the $ref "b.yaml#/A" cannot be followed: b.yaml:1:33: is not valid YAML or JSON: it holds the control character U+0001`},
		"large":       {"b.yaml", "A: {type: object, description: \"" + strings.Repeat("x", 50<<20) + "\"}\n", `openapi.yaml:6:31: the $ref "b.yaml#/A" cannot be followed: b.yaml: is larger than 32 MB`},
		"remote":      {"b.yaml", "A: {$ref: \"https://example.com/c.yaml#/A\"}\n", `b.yaml:1:11: the $ref "https://example.com/c.yaml#/A" leaves this machine`},
		"circle":      {"b.yaml", "A: {$ref: \"#/B\"}\nB: {$ref: \"b.yaml#/A\"}\n", `openapi.yaml:6:31: this $ref leads in a circle`},
		"no file":     {"b.yaml/c", "", `openapi.yaml:6:31: the $ref "b.yaml#/A" cannot be followed: b.yaml: cannot be read: it is not a regular file`},
		"inner alias": {"b.yaml", "A: &a {allOf: [*a]}\n", `openapi.yaml:6:31: the $ref "b.yaml#/A" cannot be followed: b.yaml:1:16: the alias *a stands inside of what it names`},
	} {
		t.Run(name, func(t *testing.T) {
			name, _, _ := strings.Cut(test.file, "/")
			dir := project(t, map[string]string{
				"openapi.yaml": "openapi: 3.0.3\ninfo: {title: T, version: \"1\"}\npaths:\n  /a:\n    post: {operationId: a, x-idempotent: true, responses: {\"204\": {description: Done.}}}\n" +
					"    get: {parameters: [{$ref: \"" + name + "#/A\"}], responses: {\"204\": {description: Done.}}}\n",
				test.file: test.text,
			})
			config, err := generator.LoadConfig(filepath.Join(dir, "idemgen.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			result, err := generator.Generate(t.Context(), config)
			runtime.ReadMemStats(&after)
			var findings generator.Findings
			if !errors.As(err, &findings) || !strings.HasPrefix(strings.ReplaceAll(findings[0].String(), filepath.ToSlash(dir)+"/", ""), test.want) {
				t.Errorf("%v, want %s", err, test.want)
			}
			if got := after.TotalAlloc - before.TotalAlloc; got > 64<<20 {
				t.Errorf("%d bytes were allocated", got)
			}
			if len(result.Files) > 0 {
				t.Error("files were generated")
			}
		})
	}
}

// Schemas may refer to themselves in every way, across files too, as long as
// there is something between.
//
// Covers GEN-18 and GEN-19.
func TestRecursiveSchemas(t *testing.T) {
	t.Parallel()
	for name, schemas := range map[string]string{
		"property":              `A: {type: object, required: [a], properties: {a: {$ref: "#/components/schemas/A"}}}`,
		"list":                  `A: {type: array, items: {$ref: "#/components/schemas/A"}}`,
		"map":                   `A: {type: object, additionalProperties: {$ref: "#/components/schemas/A"}}`,
		"allOf":                 `A: {allOf: [{$ref: "#/components/schemas/A"}]}`,
		"allOf in turn":         `{A: {allOf: [{$ref: "#/components/schemas/B"}, {type: object}]}, B: {allOf: [{$ref: "#/components/schemas/A"}, {type: object}]}}`,
		"oneOf":                 `A: {oneOf: [{$ref: "#/components/schemas/A"}, {type: string}]}`,
		"anyOf in turn":         `{A: {anyOf: [{$ref: "#/components/schemas/B"}, {type: string}]}, B: {anyOf: [{$ref: "#/components/schemas/A"}, {type: string}]}}`,
		"not":                   `A: {not: {$ref: "#/components/schemas/A"}}`,
		"a long way round":      longWay(300),
		"another file and back": `A: {type: object, properties: {b: {$ref: "other.yaml#/components/schemas/B"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := `requestBody: {content: {application/json: {schema: {$ref: "#/components/schemas/A"}}}}`
			text := strings.Replace(document, "x-idempotent: true", "x-idempotent: true\n      "+body, 1)
			text = strings.Replace(text, "      requestBody:\n        content: {application/json: {schema: {type: object, properties: {amount: {type: integer}}}}}\n", "", 1)
			dir := project(t, map[string]string{
				"openapi.yaml":      text + "components:\n  schemas:\n    " + schemas + "\n",
				"other.yaml":        "components:\n  schemas:\n    B: {type: object, properties: {a: {$ref: \"openapi.yaml#/components/schemas/A\"}}}\n",
				"oapi-codegen.yaml": oapiConfig + "import-mapping: {other.yaml: example.com/other, openapi.yaml: example.com/payments}\n",
			})
			if result := generated(t, dir); result.Protected != 1 {
				t.Errorf("protected: %d", result.Protected)
			}
		})
	}
}

// longWay returns n schemas of which each refers to the next and the last one
// to the first.
func longWay(n int) string {
	name := func(i int) string { return "A" + strings.Repeat("x", i%n) }
	var all []string
	for i := range n {
		all = append(all, name(i)+`: {type: object, properties: {next: {$ref: "#/components/schemas/`+name(i+1)+`"}}}`)
	}
	return strings.Join(all, "\n    ")
}

// Line ends, backslashes in the config's paths and the place of the project
// change no byte of what is generated.
//
// Covers GEN-30.
func TestSameBytesEverywhere(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"spec/openapi.yaml":     strings.Replace(document, "operationId: createPayment", "operationId: createPayment\n      description: |\n        Two lines\n        of text.", 1),
		"spec/overlay.yaml":     "overlay: 1.0.0\ninfo: {title: O, version: \"1\"}\nactions:\n  - target: $.paths['/payments'].post\n    update:\n      summary: |\n        Two lines\n        of another text.\n",
		"api/conf/idemgen.yaml": "spec: ../../spec/openapi.yaml\noverlay: ../../spec/overlay.yaml\npackage: ..\noapi-codegen: ../oapi-codegen.yaml\ncontract: ../../spec/contract.yaml\n",
		"api/oapi-codegen.yaml": oapiConfig + "output-options: {overlay: {path: ../spec/overlay.yaml}}\n",
	}
	run := func(change func(name, text string) string) generator.Result {
		all := map[string]string{}
		for name, text := range files {
			all[name] = change(name, text)
		}
		dir := project(t, all)
		config, err := generator.LoadConfig(filepath.Join(dir, "api", "conf", "idemgen.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		result, err := generator.Generate(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	want := run(func(_, text string) string { return text })
	for name, change := range map[string]func(name, text string) string{
		"another directory": func(_, text string) string { return text },
		"CRLF":              func(_, text string) string { return strings.ReplaceAll(text, "\n", "\r\n") },
		"backslashes": func(name, text string) string {
			if strings.HasPrefix(name, "api/") {
				return strings.ReplaceAll(text, "/", `\`)
			}
			return text
		},
	} {
		got := run(change)
		if len(got.Files) != 3 || len(want.Files) != 3 {
			t.Fatalf("%s: %d files, want 3", name, len(got.Files))
		}
		for i, f := range got.Files {
			if string(f.Content) != string(want.Files[i].Content) {
				t.Errorf("%s: %s differs", name, f.Name())
			}
		}
	}
}

// What oapi-codegen has written may have Windows line ends, too.
//
// Covers GEN-30.
func TestCodeWithWindowsLineEnds(t *testing.T) {
	t.Parallel()
	dir := project(t, nil)
	result := generated(t, dir)
	api := result.Files[0]
	if err := os.WriteFile(api.Path, []byte(strings.ReplaceAll(string(api.Content), "\n", "\r\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "idemgen.yaml"), []byte("spec: openapi.yaml\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := generated(t, dir).Files; len(got) != 1 || string(got[0].Content) != string(result.Files[1].Content) {
		t.Errorf("%d files, or other bytes", len(got))
	}
}
