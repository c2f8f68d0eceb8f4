package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"

	"github.com/idemgen/idemgen/generator"
)

func read(t *testing.T, dir, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// An empty module with nothing but a document becomes one that generates.
func TestInitEmptyModule(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "go.mod", goMod)
	write(t, dir, "api/openapi.yaml", document)
	api := filepath.Join(dir, "api")

	stdout, stderr, code := idemgen("init", api)
	if code != exitDone {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	for _, name := range []string{"idemgen.yaml", "oapi-codegen.yaml", "generate.go"} {
		if !strings.Contains(stdout, name+": ") {
			t.Errorf("init does not say that it wrote %s:\n%s", name, stdout)
		}
	}
	if got := read(t, api, "generate.go"); got != "package api\n\n//go:generate go run github.com/idemgen/idemgen/cmd/idemgen@latest\n" {
		t.Errorf("generate.go: %s", got)
	}
	if oapi := read(t, api, "oapi-codegen.yaml"); strings.Contains(oapi, "\n  client:") {
		t.Errorf("oapi-codegen.yaml asks for a client, which nothing uses:\n%s", oapi)
	}
	for _, step := range []string{"released version in place of latest", "var _ IdempotentServer[pgx.Tx] = service{}", "serve what NewIdempotentHandler makes of it"} {
		if !strings.Contains(stdout, step) {
			t.Errorf("the next steps do not name %q:\n%s", step, stdout)
		}
	}
	if stdout, stderr, code := idemgen("-config", configOf(api)); code != exitDone || !strings.Contains(stdout, "1 of 2 operations protected") {
		t.Errorf("generate after init: exit %d\n%s%s", code, stdout, stderr)
	}

	before := snapshot(t, dir)
	if _, stderr, code := idemgen("init", api); code != exitFindings || !strings.Contains(stderr, "idemgen.yaml: exists already") {
		t.Errorf("second init: exit %d: %s", code, stderr)
	}
	if snapshot(t, dir) != before {
		t.Error("a second init has touched a file")
	}
}

// The config that init writes names the schema of this repository for editors,
// and is valid by it, with and without the operations that it proposes.
func TestInitForEditors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "go.mod", goMod)
	write(t, dir, "openapi.yaml", strings.Replace(document, "x-idempotent: {retention: 48h}", "summary: Pay.", 1))
	if _, stderr, code := idemgen("init", dir); code != exitDone {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	written := read(t, dir, "idemgen.yaml")
	first, _, _ := strings.Cut(written, "\n")
	name, found := strings.CutPrefix(first, "# yaml-language-server: $schema=https://raw.githubusercontent.com/idemgen/idemgen/main/")
	if !found {
		t.Fatalf("no schema in:\n%s", written)
	}
	schema, err := jsonschema.NewCompiler().Compile("../../" + name)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{written, strings.ReplaceAll(strings.ReplaceAll(written, "\n#operations:", "\noperations:"), "\n#  ", "\n  ")} {
		var config map[string]any
		if err := yaml.Unmarshal([]byte(text), &config); err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(config); err != nil {
			t.Errorf("%v\n%s", err, text)
		}
		if _, proposed := config["operations"]; proposed != (text != written) {
			t.Errorf("operations: %v", config["operations"])
		}
	}
}

// The path of the document is written so that YAML reads it as it is.
func TestInitQuotesPaths(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := "payments # 'v1' " + strings.Repeat("long ", 20) + ".yaml"
	write(t, dir, "go.mod", goMod)
	write(t, dir, "spec/"+name, document)
	if _, stderr, code := idemgen("init", "-spec", filepath.Join(dir, "spec", name), dir); code != exitDone {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	if stdout, stderr, code := idemgen("-config", configOf(dir)); code != exitDone {
		t.Errorf("generate after init: exit %d\n%s%s", code, stdout, stderr)
	}
}

// A package that runs oapi-codegen with go generate keeps doing so, and
// idemgen runs after it.
func TestInitBesideDirective(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]string{"LF": "\n", "CRLF": "\r\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, dir, "go.mod", goMod)
			write(t, dir, "spec/payments.yaml", document)
			write(t, dir, "spec/other.yaml", document)
			source := strings.ReplaceAll("package payments\n\n//line payments.y:900\n//go:generate go tool oapi-codegen -config cfg.yaml ../spec/payments.yaml\n\nvar x int\n", "\n", end)
			write(t, dir, "payments/tools.go", source)
			pkg := filepath.Join(dir, "payments")
			if _, stderr, code := idemgen("init", pkg); code != exitDone {
				t.Fatalf("exit %d: %s", code, stderr)
			}
			want := strings.Replace(source, "payments.yaml"+end, "payments.yaml"+end+"//go:generate go run github.com/idemgen/idemgen/cmd/idemgen@latest"+end, 1)
			if got := read(t, pkg, "tools.go"); got != want {
				t.Errorf("tools.go:\n%q\nwant:\n%q", got, want)
			}
			got := read(t, pkg, "idemgen.yaml")
			if !strings.Contains(got, "spec: ../spec/payments.yaml\n") || strings.Contains(got, "oapi-codegen:") {
				t.Errorf("idemgen.yaml:\n%s", got)
			}
		})
	}
}

// Models, client and server can have a line each: idemgen needs all of them.
func TestInitAfterSeveralDirectives(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "go.mod", goMod)
	write(t, dir, "api/openapi.yaml", document)
	const source = "package api\n\n//go:generate oapi-codegen -config models.yaml openapi.yaml\n//go:generate oapi-codegen -config server.yaml openapi.yaml\n"
	write(t, dir, "api/gen.go", source)
	pkg := filepath.Join(dir, "api")
	if _, stderr, code := idemgen("init", pkg); code != exitDone {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	if got, want := read(t, pkg, "gen.go"), source+"//go:generate go run github.com/idemgen/idemgen/cmd/idemgen@latest\n"; got != want {
		t.Errorf("gen.go:\n%s\nwant:\n%s", got, want)
	}
}

// A package with a config of oapi-codegen and no go:generate line gets the
// built-in run.
func TestInitBesideConfig(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "go.mod", goMod)
	write(t, dir, "openapi.yaml", strings.Replace(document, "x-idempotent: {retention: 48h}", "summary: Pay.", 1))
	write(t, dir, "gen.yaml", oapi)
	stdout, stderr, code := idemgen("init", dir)
	if code != exitDone {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	got := read(t, dir, "idemgen.yaml")
	if !strings.Contains(got, "oapi-codegen: gen.yaml\n") || !strings.Contains(got, `#  "createPayment": true`) {
		t.Errorf("idemgen.yaml:\n%s", got)
	}
	if !strings.Contains(stdout, "mark an operation") {
		t.Errorf("nothing says that no operation is marked:\n%s", stdout)
	}
}

// A go:generate line and a config write where they say, which is often another
// package than their own.
func TestInitForAnotherPackage(t *testing.T) {
	t.Parallel()
	const elsewhere = "package: api\noutput: ../api/api.gen.go\ngenerate: {models: true, strict-server: true, std-http-server: true}\n"
	for name, files := range map[string]map[string]string{
		"the line's config": {"cfg.yaml": elsewhere, "gen.go": "package gen\n\n//go:generate oapi-codegen -config cfg.yaml openapi.yaml\n"},
		"with =":            {"cfg.yaml": elsewhere, "gen.go": "package gen\n\n//go:generate oapi-codegen --config=cfg.yaml openapi.yaml\n"},
		"the line's flag":   {"cfg.yaml": oapi, "gen.go": "package gen\n\n//go:generate oapi-codegen -o ../api/api.gen.go -config cfg.yaml openapi.yaml\n"},
		"config alone":      {"cfg.yaml": elsewhere},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, dir, "go.mod", goMod)
			write(t, dir, "gen/openapi.yaml", document)
			write(t, dir, "api/doc.go", "package api\n")
			for file, content := range files {
				write(t, dir, "gen/"+file, content)
			}
			if _, stderr, code := idemgen("init", filepath.Join(dir, "gen")); code != exitDone {
				t.Fatalf("exit %d: %s", code, stderr)
			}
			if got := read(t, dir, "gen/idemgen.yaml"); !strings.Contains(got, "\npackage: ../api\n") {
				t.Errorf("idemgen.yaml:\n%s", got)
			}
		})
	}
}

// A path that only a shell knows is not guessed.
func TestInitUnreadableFlag(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "go.mod", goMod)
	write(t, dir, "openapi.yaml", document)
	write(t, dir, "gen.go", "package gen\n\n//go:generate oapi-codegen -o $OUT/api.gen.go -config openapi.yaml\n")
	if _, stderr, code := idemgen("init", dir); code != exitDone {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	if got := read(t, dir, "idemgen.yaml"); !strings.Contains(got, "\npackage: .\n") {
		t.Errorf("idemgen.yaml:\n%s", got)
	}
}

// Where something out of sight runs oapi-codegen, init says that idemgen has to
// run after it; several configs are then nobody's mistake.
func TestInitBesideOutput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "go.mod", goMod)
	write(t, dir, "openapi.yaml", document)
	write(t, dir, "models.yaml", oapi)
	write(t, dir, "server.yaml", oapi)
	write(t, dir, "api.gen.go", "package api\n\ntype ServerInterface interface{}\n")
	stdout, stderr, code := idemgen("init", dir)
	if code != exitDone || !strings.Contains(stdout, "let idemgen run after oapi-codegen") {
		t.Errorf("exit %d: %s%s", code, stdout, stderr)
	}
	if got := read(t, dir, "idemgen.yaml"); strings.Contains(got, "oapi-codegen:") {
		t.Errorf("idemgen.yaml:\n%s", got)
	}
}

// Where a config lies beside generated code, init says which oapi-codegen runs
// from now on, and how to keep another. Without such code there is no other.
func TestInitBuiltInVersion(t *testing.T) {
	t.Parallel()
	for _, generated := range []bool{true, false} {
		dir := t.TempDir()
		write(t, dir, "go.mod", goMod)
		write(t, dir, "openapi.yaml", document)
		write(t, dir, "server.yaml", oapi)
		if generated {
			write(t, dir, "api.gen.go", "package api\n\ntype ServerInterface interface{}\n")
		}
		stdout, stderr, code := idemgen("init", dir)
		says := strings.Contains(stdout, "built in") && strings.Contains(stdout, "oapi-codegen: {command: [")
		if code != exitDone || says != generated {
			t.Errorf("with generated code %v: exit %d: %s%s", generated, code, stdout, stderr)
		}
	}
}

// A package that is a client alone has no server to implement.
func TestInitClientAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "go.mod", goMod)
	write(t, dir, "openapi.yaml", document)
	write(t, dir, "cfg.yaml", "package: api\noutput: api.gen.go\ngenerate: {models: true, client: true, std-http-server: false}\n")
	stdout, stderr, code := idemgen("init", dir)
	if code != exitDone || !strings.Contains(stdout, "NewIdempotentClient") || strings.Contains(stdout, "IdempotentServer") {
		t.Errorf("exit %d: %s%s", code, stdout, stderr)
	}
}

// A document of webhooks alone has no paths, and schemas that oapi-codegen
// leaves out unless it is told not to.
func TestInitWebhooks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "go.mod", goMod)
	write(t, dir, "openapi.yaml", `openapi: 3.1.0
info: {title: Events, version: "1"}
webhooks:
  paid:
    post:
      operationId: paid
      x-idempotent: {key: {name: Webhook-Id}}
      requestBody:
        required: true
        content: {application/json: {schema: {$ref: '#/components/schemas/Event'}}}
      responses: {"204": {description: received}}
components:
  schemas:
    Event: {type: object, properties: {order: {type: string}}}
`)
	stdout, stderr, code := idemgen("init", dir)
	if code != exitDone || !strings.Contains(stdout, "implement IdempotentWebhookReceiver;") || strings.Contains(stdout, "NewIdempotentHandler") {
		t.Fatalf("exit %d: %s%s", code, stdout, stderr)
	}
	if stdout, stderr, code := idemgen("-config", configOf(dir)); code != exitDone {
		t.Fatalf("generate after init: exit %d\n%s%s", code, stdout, stderr)
	}
	if got := read(t, dir, "api.gen.go"); !strings.Contains(got, "type Event struct") {
		t.Errorf("the webhook's schema is not among oapi-codegen's types:\n%s", got)
	}
}

func TestInitRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		files map[string]string
		want  string
	}{
		"no module":         {map[string]string{"openapi.yaml": document}, "run go mod init"},
		"no document":       {map[string]string{"go.mod": goMod}, "name it with -spec"},
		"several documents": {map[string]string{"go.mod": goMod, "a.yaml": document, "b.json": `{"openapi": "3.0.3", "paths": {}}`}, "several OpenAPI documents"},
		"several configs":   {map[string]string{"go.mod": goMod, "openapi.yaml": document, "a.yaml": oapi, "b.yaml": oapi}, "several configs of oapi-codegen"},
		"swagger":           {map[string]string{"go.mod": goMod, "a.yaml": "swagger: \"2.0\"\npaths: {}\n"}, "Swagger 2.0 is not supported"},
		"broken marker":     {map[string]string{"go.mod": goMod, "a.yaml": strings.Replace(document, "48h", "48", 1)}, "a.yaml:7:33"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for file, content := range test.files {
				write(t, dir, file, content)
			}
			before := snapshot(t, dir)
			if _, stderr, code := idemgen("init", dir); code != exitFindings || !strings.Contains(stderr, test.want) {
				t.Errorf("exit %d, want %q: %s", code, test.want, stderr)
			}
			if snapshot(t, dir) != before {
				t.Error("a file was touched")
			}
		})
	}
}

// A module that has idemgen as a tool runs it as one, from go.mod or from a file
// of its own, so that its version stands in one place.
func TestInitTool(t *testing.T) {
	t.Parallel()
	const tool = "\ntool (\n\tgithub.com/idemgen/idemgen/cmd/idemgen\n\tgolang.org/x/tools/cmd/stringer\n)\n"
	for name, test := range map[string]struct{ file, want string }{
		"go.mod":               {"go.mod", "go tool idemgen"},
		"a file of its own":    {"tools.mod", "go tool -modfile=../tools.mod idemgen"},
		"a file for something": {"other.txt", "go run github.com/idemgen/idemgen/cmd/idemgen@v0.1.0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, dir, "go.mod", goMod)
			write(t, dir, test.file, goMod+tool)
			write(t, dir, "openapi.yaml", document)
			write(t, dir, "api/doc.go", "package api\n")
			start, err := generator.Init(filepath.Join(dir, "api"), "", "v0.1.0")
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(start.Files, func(f generator.File) bool {
				return bytes.Contains(f.Content, []byte("//go:generate "+test.want+"\n"))
			}) {
				t.Errorf("no file runs %s: %v", test.want, start.Done)
			}
		})
	}
}

// A package in the root of a module is named as the module is, not as the
// directory in which somebody has put it.
func TestInitNamesThePackage(t *testing.T) {
	t.Parallel()
	for module, want := range map[string]string{
		"example.com/pay":     "pay",
		"example.com/pay/v2":  "pay",
		"example.com/Card-32": "card32",
		"example.com/32":      "api",
	} {
		dir := t.TempDir()
		write(t, dir, "go.mod", "module "+module+"\n\ngo 1.25.0\n")
		write(t, dir, "openapi.yaml", document)
		if _, stderr, code := idemgen("init", dir); code != exitDone {
			t.Fatalf("exit %d: %s", code, stderr)
		}
		if got, _, _ := strings.Cut(read(t, dir, "generate.go"), "\n"); got != "package "+want {
			t.Errorf("in module %s init writes %q", module, got)
		}
	}
}

// A released idemgen pins itself.
func TestInitPins(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "go.mod", goMod)
	write(t, dir, "openapi.yaml", document)
	start, err := generator.Init(dir, "", "v0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(start.Files, func(f generator.File) bool {
		return bytes.Contains(f.Content, []byte("cmd/idemgen@v0.1.0\n"))
	}) {
		t.Errorf("no file runs v0.1.0: %v", start.Done)
	}
	if next := strings.Join(start.Next, "\n"); strings.Contains(next, "latest in") {
		t.Errorf("the next steps ask for a version:\n%s", next)
	}
}
