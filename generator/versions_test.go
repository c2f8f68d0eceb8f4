package generator_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/idemgen/idemgen/generator"
)

// The command of every minor version of oapi-codegen can be the user's own.
// What it writes and what idemgen adds are, byte for byte, the golden case of
// that version, which compiles and is driven over HTTP.
func TestOapiCodegenVersions(t *testing.T) {
	t.Parallel()
	for version, golden := range map[string]string{
		"v2.3.0": "oapi-codegen-v2.3",
		"v2.4.1": "oapi-codegen-v2.4",
		"v2.5.0": "oapi-codegen-v2.5",
		"v2.6.0": "oapi-codegen-v2.6",
		"v2.7.0": "oapi-codegen-v2.7",
		"v2.8.2": "std-http",
	} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			command := "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@" + version
			requireCommand(t, command)
			dir := project(t, map[string]string{
				"idemgen.yaml": "spec: openapi.yaml\noapi-codegen: {command: [go, run, " + command + ", -config, oapi-codegen.yaml, openapi.yaml]}\n",
			})
			from := filepath.Join("..", "testdata", "golden", golden)
			place(t, "../testdata/golden/std-http/openapi.yaml", filepath.Join(dir, "openapi.yaml"))
			place(t, filepath.Join(from, "oapi-codegen.yaml"), filepath.Join(dir, "oapi-codegen.yaml"))

			config, err := generator.LoadConfig(filepath.Join(dir, "idemgen.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			var said bytes.Buffer
			if err := config.RunCommand(t.Context(), io.Discard, &said); err != nil {
				t.Fatalf("%v\n%s", err, &said)
			}
			if _, err := generated(t, dir).Write(); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"api.gen.go", "idempotent.gen.go"} {
				got, err := os.ReadFile(filepath.Join(dir, name))
				if err != nil {
					t.Fatal(err)
				}
				want, err := os.ReadFile(filepath.Join(from, name))
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, want) {
					t.Errorf("%s is not the one of testdata/golden/%s", name, golden)
				}
			}
		})
	}
}

// requireCommand skips the test if go run cannot build the command: its module
// may be neither in the module cache nor within reach.
func requireCommand(t *testing.T, command string) {
	t.Helper()
	run := exec.CommandContext(t.Context(), "go", "run", command, "-version")
	run.Dir = t.TempDir() // outside of the workspace
	out, err := run.CombinedOutput()
	switch {
	case err == nil:
	case os.Getenv("IDEM_REQUIRE") == "all":
		t.Fatalf("go run %s (IDEM_REQUIRE=all): %v\n%s", command, err, out)
	default:
		t.Skipf("go run %s: %v\n%s", command, err, out)
	}
}
