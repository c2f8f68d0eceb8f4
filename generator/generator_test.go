package generator_test

import (
	"bytes"
	"errors"
	"go/build"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/idemgen/idemgen/generator"
)

const (
	document = `openapi: 3.0.3
info: {title: Payments, version: "1"}
paths:
  /payments:
    post:
      operationId: createPayment
      x-idempotent: true
      requestBody:
        content: {application/json: {schema: {type: object, properties: {amount: {type: integer}}}}}
      responses: {"201": {description: done}}
    get:
      operationId: listPayments
      responses: {"200": {description: all}}
`
	oapiConfig = "package: payments\noutput: api.gen.go\ngenerate: {models: true, std-http-server: true, strict-server: true}\n"
)

// project makes a module of the files, by name, and a default set around them.
func project(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	all := map[string]string{
		"go.mod":            "module example.com/payments\n\ngo 1.25.0\n",
		"openapi.yaml":      document,
		"idemgen.yaml":      "spec: openapi.yaml\noapi-codegen: oapi-codegen.yaml\n",
		"oapi-codegen.yaml": oapiConfig,
	}
	maps.Copy(all, files)
	for name, content := range all {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// generated runs a project that must be free of errors.
func generated(t *testing.T, dir string) generator.Result {
	t.Helper()
	config, err := generator.LoadConfig(filepath.Join(dir, "idemgen.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	result, err := generator.Generate(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func TestConfigPaths(t *testing.T) {
	t.Parallel()
	dir := project(t, map[string]string{
		"conf/idemgen.yaml": "spec: ../openapi.yaml\noverlay: o.yaml\npackage: ../api\noutput: gen.go\nmarker: x-pay-once\noapi-codegen: {command: [make, api]}\n",
		"api/doc.go":        "package api\n",
	})
	c, err := generator.LoadConfig(filepath.Join(dir, "conf", "idemgen.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for what, pair := range map[string][2]string{
		"spec":    {c.Spec, filepath.Join(dir, "openapi.yaml")},
		"overlay": {c.Overlay, filepath.Join(dir, "conf", "o.yaml")},
		"package": {c.Package, filepath.Join(dir, "api")},
		"output":  {c.Output, filepath.Join(dir, "api", "gen.go")},
		"marker":  {c.Marker, "x-pay-once"},
		"command": {strings.Join(c.Command, " "), "make api"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s is %q, want %q", what, pair[0], pair[1])
		}
	}
}

// Neither another module nor a link to one counts as inside of the module.
func TestPackageOutsideTheModule(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	dir := project(t, map[string]string{"nested/go.mod": "module example.com/nested\n"})
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Skipf("no symbolic links: %v", err)
	}
	for _, pkg := range []string{"nested", "link", outside, ".."} {
		if err := os.WriteFile(filepath.Join(dir, "idemgen.yaml"), []byte("spec: openapi.yaml\npackage: "+pkg+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := generator.LoadConfig(filepath.Join(dir, "idemgen.yaml"))
		var findings generator.Findings
		if !errors.As(err, &findings) || findings[0].Code != "module" || findings[0].Line != 2 {
			t.Errorf("package %s: %v", pkg, err)
		}
	}
}

// The same input gives the same bytes, also when runs overlap.
func TestDeterministic(t *testing.T) {
	t.Parallel()
	dir := project(t, nil)
	first := generated(t, dir)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i, f := range generated(t, dir).Files {
				if !bytes.Equal(f.Content, first.Files[i].Content) {
					t.Errorf("%s differs from one run to the next", f.Name())
				}
			}
		})
	}
	wg.Wait()
}

// The generated file is compiled when the code is that it belongs to.
func TestBuildTag(t *testing.T) {
	t.Parallel()
	dir := project(t, nil)
	api := generated(t, dir).Files[0]
	tagged := bytes.Replace(api.Content, []byte("//go:build go1.22\n"), []byte("//go:build go1.22 && payments\n"), 1)
	if err := os.WriteFile(api.Path, tagged, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "idemgen.yaml"), []byte("spec: openapi.yaml\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := generated(t, dir).Write(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"api.gen.go", "idempotent.gen.go"} {
		for _, tags := range [][]string{nil, {"payments"}} {
			system := build.Default
			system.BuildTags = tags
			if matches, err := system.MatchFile(dir, name); err != nil || matches != (tags != nil) {
				t.Errorf("%s with tags %v: compiled %t, %v", name, tags, matches, err)
			}
		}
	}
	// What it says of itself still counts.
	if changes, err := generated(t, dir).Check(); err != nil || changes[0].State != generator.Fresh {
		t.Errorf("%+v, %v", changes, err)
	}
}

// The output of the built-in oapi-codegen names the version that go.mod
// requires, as the command of that version does.
func TestOapiCodegenHeader(t *testing.T) {
	t.Parallel()
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(mod), "github.com/oapi-codegen/oapi-codegen/v2 ")
	if !ok {
		t.Fatal("go.mod does not require oapi-codegen")
	}
	version := strings.Fields(rest)[0]
	want := "// Code generated by github.com/oapi-codegen/oapi-codegen/v2 version " + version + " DO NOT EDIT.\n"
	if got := generated(t, project(t, nil)).Files[0].Content; !bytes.Contains(got, []byte(want)) {
		t.Errorf("no line %q in\n%.300s", want, got)
	}
}

// A document in JSON can have an overlay like one in YAML.
func TestOverlayOfJSON(t *testing.T) {
	t.Parallel()
	dir := project(t, map[string]string{
		"openapi.json":      `{"openapi": "3.0.3", "info": {"title": "P", "version": "1"}, "paths": {"/payments": {"post": {"operationId": "pay", "responses": {"204": {"description": "done"}}}}}}`,
		"idemgen.yaml":      "spec: openapi.json\noverlay: overlay.yaml\noapi-codegen: oapi-codegen.yaml\n",
		"oapi-codegen.yaml": oapiConfig + "output-options: {overlay: {path: overlay.yaml}}\n",
		"overlay.yaml": `overlay: 1.0.0
info: {title: O, version: "1"}
actions:
  - target: $.paths['/payments'].post
    update: {x-idempotent: true}
`,
	})
	if result := generated(t, dir); result.Protected != 1 {
		t.Errorf("protected: %d", result.Protected)
	}
}

// oapi-codegen's own overlay is applied for it, and idemgen's for idemgen.
func TestOverlays(t *testing.T) {
	t.Parallel()
	dir := project(t, map[string]string{
		"openapi.yaml":      strings.Replace(document, "x-idempotent: true", "summary: Pay.", 1),
		"idemgen.yaml":      "spec: openapi.yaml\noverlay: overlay.yaml\noapi-codegen: oapi-codegen.yaml\n",
		"oapi-codegen.yaml": oapiConfig + "output-options: {overlay: {path: overlay.yaml}}\n",
		"overlay.yaml": `overlay: 1.0.0
info: {title: O, version: "1"}
actions:
  - target: $.paths['/payments'].post
    update:
      operationId: payOnce
      x-idempotent: {retention: 48h}
`,
	})
	result := generated(t, dir)
	if result.Protected != 1 || !bytes.Contains(result.Files[0].Content, []byte("PayOnce(")) || !bytes.Contains(result.Files[1].Content, []byte("PayOnceIdempotentRequest")) {
		t.Errorf("protected: %d\n%s", result.Protected, result.Files[1].Content)
	}
}

func TestWriteTouchesOnlyWhatDiffers(t *testing.T) {
	t.Parallel()
	dir := project(t, nil)
	result := generated(t, dir)
	written, err := result.Write()
	if err != nil || len(written) != 2 {
		t.Fatalf("wrote %d files: %v", len(written), err)
	}
	// A checkout on Windows has other line ends and is as good.
	//
	// Covers GEN-30.
	path := result.Files[0].Path
	windows := bytes.ReplaceAll(result.Files[0].Content, []byte("\n"), []byte("\r\n"))
	if err := os.WriteFile(path, windows, 0o600); err != nil {
		t.Fatal(err)
	}
	if written, err := result.Write(); err != nil || len(written) != 0 {
		t.Errorf("wrote %d files again: %v", len(written), err)
	}
	if err := os.WriteFile(path, append(windows, "// edited\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	changes, err := result.Check()
	if err != nil || changes[0].State != generator.Stale || !strings.Contains(changes[0].Diff, "-// edited") || changes[1].State != generator.Fresh {
		t.Errorf("changes: %+v, %v", changes, err)
	}
	if written, err := result.Write(); err != nil || len(written) != 1 || written[0].Path != path {
		t.Errorf("wrote %v: %v", written, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file's mode is %v: %v", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".idemgen-*")); len(left) > 0 {
		t.Errorf("temporary files are left: %v", left)
	}
}

func TestNothingToCompare(t *testing.T) {
	t.Parallel()
	if _, err := (generator.Result{}).Check(); !errors.Is(err, generator.ErrNothingGenerated) {
		t.Errorf("Check: %v", err)
	}
	if _, err := (generator.Result{}).Write(); !errors.Is(err, generator.ErrNothingGenerated) {
		t.Errorf("Write: %v", err)
	}
}

// A config is understood in full or refused at a position.
func FuzzConfig(f *testing.F) {
	for _, seed := range []string{
		"spec: openapi.yaml\n", "spec: openapi.yaml\npackage: ..\n", "spec: x\noutput: a/b.go\n", "spec: x\noapi-codegen: {command: [a, b]}\n",
		"spec: x\noperations: {a: true}\nmarker: x-y\n", "spec: [x]\n", "a: b\n", "- x\n", "", "spec: \"\\0\"\npackage: \"\\0\"\n",
	} {
		f.Add(seed)
	}
	dir := project(f, nil)
	path := filepath.Join(dir, "idemgen.yaml")
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		c, err := generator.LoadConfig(path)
		if err != nil {
			var findings generator.Findings
			if !errors.As(err, &findings) || len(findings) == 0 {
				t.Fatalf("not findings: %v", err)
			}
			for _, d := range findings {
				if d.File == "" || d.Code == "" || strings.Contains(d.Message, "\n") {
					t.Errorf("finding %+v", d)
				}
			}
			return
		}
		if rel, err := filepath.Rel(dir, c.Output); err != nil || strings.HasPrefix(rel, "..") || filepath.Ext(c.Output) != ".go" {
			t.Errorf("output %q", c.Output)
		}
	})
}
