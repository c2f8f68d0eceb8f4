package generator_test

import (
	"bytes"
	"errors"
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/idemgen/idemgen/generator"
)

var update = flag.Bool("update", false, "write the golden files of testdata/golden, once they compile")

// Every golden case generates the files that are there, byte for byte; the
// testdata module compiles them and drives them over HTTP.
//
// Covers GEN-31.
func TestGolden(t *testing.T) {
	t.Parallel()
	configs, err := filepath.Glob("../testdata/golden/*/idemgen.yaml")
	if err != nil || len(configs) == 0 {
		t.Fatalf("no golden cases: %v", err)
	}
	for _, path := range configs {
		t.Run(filepath.Base(filepath.Dir(path)), func(t *testing.T) {
			t.Parallel()
			config, err := generator.LoadConfig(path)
			if err != nil {
				t.Fatal(err)
			}
			result, err := generator.Generate(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				record(t, config, result)
			}
			sameWarnings(t, config, result)
			changes, err := result.Check()
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range changes {
				if c.State != generator.Fresh {
					t.Errorf("%s is %s; run go test ./generator -run TestGolden -update and read the difference:\n%s", c.File.Name(), c.State, c.Diff)
				}
			}
		})
	}
}

// sameWarnings compares the warnings with those of warnings.txt in the case's
// directory. Most cases have none.
func sameWarnings(t *testing.T, config generator.Config, result generator.Result) {
	t.Helper()
	dir := filepath.Dir(config.File)
	var got string
	for _, w := range result.Warnings {
		got += strings.ReplaceAll(w.String(), filepath.ToSlash(dir)+"/", "") + "\n"
	}
	want, err := os.ReadFile(filepath.Join(dir, "warnings.txt"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("warnings:\n%swant those of warnings.txt:\n%s", got, want)
	}
}

// record writes what was generated, if it compiles. What does not is put back.
func record(t *testing.T, config generator.Config, result generator.Result) {
	t.Helper()
	before := make(map[string][]byte)
	for _, f := range result.Files {
		if content, err := os.ReadFile(f.Path); err == nil {
			before[f.Path] = content
		}
	}
	if _, err := result.Write(); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", ".")
	build.Dir = config.Package
	if out, err := build.CombinedOutput(); err != nil {
		for _, f := range result.Files {
			var err error
			if content, was := before[f.Path]; was {
				err = os.WriteFile(f.Path, content, 0o644)
			} else {
				err = os.Remove(f.Path)
			}
			if err != nil {
				t.Error(err)
			}
		}
		t.Fatalf("what was generated does not compile:\n%s", out)
	}
}

// The packages of one document behave in one way, whatever server and version
// of oapi-codegen they are for: their tests are one file, beside the one that
// says how to serve them.
func TestGoldenFamily(t *testing.T) {
	t.Parallel()
	const dir = "../testdata/golden/"
	read := func(name string) []byte {
		content, err := os.ReadFile(dir + name)
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	older := []string{"std-http", "gorilla", "oapi-codegen-v2.3", "oapi-codegen-v2.4", "oapi-codegen-v2.5", "oapi-codegen-v2.6", "oapi-codegen-v2.7"}
	for _, family := range []struct {
		first, file string
		others      []string
	}{
		{"chi", "behaviour_test.go", append([]string{"echo", "echo5", "gin", "iris", "fiber", "fiber3"}, older...)},
		{"fiber", "fiber_test.go", []string{"fiber3"}},
		{"plain-fiber", "fiber_test.go", []string{"plain-fiber3"}},
		{"chi", "serve_test.go", older},
		{"plain-std-http", "behaviour_test.go", []string{"plain-chi", "plain-gorilla", "plain-echo", "plain-echo5", "plain-gin", "plain-iris", "plain-fiber", "plain-fiber3", "plain-v2.3"}},
		{"plain-std-http", "serve_test.go", []string{"plain-chi", "plain-gorilla", "plain-v2.3"}},
		{"lease", "behaviour_test.go", []string{"lease-echo", "lease-fiber", "lease-gin", "lease-iris"}},
		{"body-key", "behaviour_test.go", []string{"plain-body-key"}},
		{"webhooks-echo", "behaviour_test.go", []string{"webhooks-echo5", "webhooks-gin", "webhooks-iris", "webhooks-fiber", "webhooks-fiber3"}},
	} {
		want := read(family.first + "/" + family.file)
		for _, name := range family.others {
			if !bytes.Equal(read(name+"/"+family.file), want) {
				t.Errorf("%s of %s differs from that of %s; copy one of them", family.file, name, family.first)
			}
		}
	}
}
