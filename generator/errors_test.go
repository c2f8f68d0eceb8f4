package generator_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/idemgen/idemgen/generator"
)

// errorCases are the directories of wrong input.
func errorCases(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob("testdata/errors/*")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no error cases: %v", err)
	}
	return dirs
}

// findingsOf runs the case in dir and returns its findings, without the
// directory in their positions.
func findingsOf(t *testing.T, dir string) string {
	t.Helper()
	config, err := generator.LoadConfig(filepath.Join(dir, "idemgen.yaml"))
	if err == nil {
		var result generator.Result
		if result, err = generator.Generate(t.Context(), config); len(result.Files) > 0 {
			t.Error("files were generated in spite of an error")
		}
	}
	if err == nil {
		t.Fatal("no error")
	}
	return strings.ReplaceAll(err.Error(), filepath.ToSlash(dir)+"/", "") + "\n"
}

// Every kind of wrong input is answered by one line for each mistake, with the
// position of the deepest wrong value and what to do.
//
// Covers GEN-01, GEN-13, GEN-14, GEN-15, GEN-16, GEN-17, GEN-18, GEN-20, GEN-34, CTX-11, FPR-13 and FPR-16.
func TestErrors(t *testing.T) {
	t.Parallel()
	for _, dir := range errorCases(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			got := findingsOf(t, dir)
			golden := filepath.Join(dir, "want.txt")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("findings differ from %s (record them with go test -update):\ngot:\n%swant:\n%s", golden, got, want)
			}
		})
	}
}
