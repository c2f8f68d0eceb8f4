package generator_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Whatever names and types oapi-codegen's options ask for, every marked
// operation is found and what is generated compiles beside them.
func TestOapiCodegenOptions(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	document, err := os.ReadFile("../testdata/golden/std-http/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	named := strings.NewReplacer(
		"      summary: Pay.\n", "      x-go-name: PayNow\n",
		"    Problem:\n", "    Problem:\n      x-go-name: Trouble\n",
	).Replace(string(document))
	dir := t.TempDir()
	placeModule(t, root, dir)
	const all = "models: true, client: true, std-http-server: true, strict-server: true"
	for name, test := range map[string]struct{ generate, options string }{
		"servers":     {"models: true, chi-server: true, strict-server: true", "{}"},
		"clients":     {"models: true, client: true", "{}"},
		"gorilla":     {"models: true, client: true, gorilla-server: true, strict-server: true, embedded-spec: true", "{}"},
		"plain":       {"models: true, client: true, std-http-server: true", "{}"},
		"suffix":      {all, "{response-type-suffix: Resp}"},
		"camelcase":   {all, "{name-normalizer: ToCamelCase}"},
		"digits":      {all, "{name-normalizer: ToCamelCaseWithDigits}"},
		"initialisms": {all, "{name-normalizer: ToCamelCaseWithInitialisms, additional-initialisms: [REF, PAY]}"},
		"client":      {all, "{client-type-name: Caller}"},
		"nullable":    {all, "{nullable-type: true}"},
		"pointers":    {all, "{prefer-skip-optional-pointer: true}"},
		"yaml":        {all, "{yaml-tags: true}"},
		"prune":       {all, "{skip-prune: true}"},
		"collisions":  {all, "{resolve-type-name-collisions: true}"},
		"excluded":    {all, "{exclude-operation-ids: [getPayment]}"},
		"bytes":       {all, "{client-response-bytes-function: true}"},
		"types": {all, "{type-mapping: {string: {formats: {uuid: {type: string}, date-time: {type: string}}}}, generate-types-for-anonymous-schemas: true, " +
			"disable-type-aliases-for-type: [array], skip-response-body-getters: true, skip-client-response-content-type: true}"},
		"compatibility": {all, "{}\ncompatibility: {old-merge-schemas: true, old-enum-conflicts: true, old-aliasing: true, disable-flatten-additional-properties: true, " +
			"disable-required-readonly-as-pointer: true, always-prefix-enum-values: true, allow-unexported-struct-field-names: true, " +
			"headers-implicitly-required: true, enable-auth-scopes-on-context: true, sort-handler-registrations: true}"},
	} {
		pkg := filepath.Join(dir, name)
		if err := os.Mkdir(pkg, 0o700); err != nil {
			t.Fatal(err)
		}
		for file, text := range map[string]string{
			"openapi.yaml":      named,
			"idemgen.yaml":      "spec: openapi.yaml\noapi-codegen: oapi-codegen.yaml\n",
			"oapi-codegen.yaml": "package: api\noutput: api.gen.go\ngenerate: {" + test.generate + "}\noutput-options: " + test.options + "\n",
		} {
			if err := os.WriteFile(filepath.Join(pkg, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		result := generated(t, pkg)
		if result.Protected != 10 || len(result.Warnings) > 0 {
			t.Errorf("%s: protected: %d, warnings: %v", name, result.Protected, result.Warnings)
		}
		if _, err := result.Write(); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "./...")
	build.Dir = dir
	build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	if out, err := build.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
