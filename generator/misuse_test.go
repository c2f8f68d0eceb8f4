package generator_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// What the generated types forbid does not compile: each line of
// testdata/misuse that says want gives an error of this text, and no other
// line gives any. The files stand in for ones that would break the build.
func TestMisuseDoesNotCompile(t *testing.T) {
	t.Parallel()
	module, err := filepath.Abs("../testdata")
	if err != nil {
		t.Fatal(err)
	}
	for source, place := range map[string]string{
		"outside.go.txt": "misuse/outside.go",
		"inside.go.txt":  "golden/std-http/inside.go",
	} {
		t.Run(source, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(module, "misuse", source)
			want := wanted(t, path)
			overlay := filepath.Join(t.TempDir(), "overlay.json")
			content, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(module, place): path}})
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(overlay, content, 0o600); err != nil {
				t.Fatal(err)
			}
			build := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "-gcflags=-e", "./"+filepath.ToSlash(filepath.Dir(place)))
			build.Dir = module
			out, err := build.CombinedOutput()
			if err == nil {
				t.Fatal("compiles")
			}
			for _, m := range regexp.MustCompile(`(?m)^\S*?\.go(?:\.txt)?:(\d+):\d+: (.*)`).FindAllStringSubmatch(string(out), -1) {
				line, _ := strconv.Atoi(m[1])
				if text, ok := want[line]; !ok || !strings.Contains(m[2], text) {
					t.Errorf("line %d: %s, want %q", line, m[2], text)
				}
				delete(want, line)
			}
			for line, text := range want {
				t.Errorf("line %d compiles, want %q\n%s", line, text, out)
			}
		})
	}
}

// wanted returns the errors that a file asks for, by line.
func wanted(t *testing.T, path string) map[int]string {
	t.Helper()
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[int]string)
	for i, line := range strings.Split(string(src), "\n") {
		if _, quoted, ok := strings.Cut(line, "// want "); ok {
			text, err := strconv.Unquote(quoted)
			if err != nil {
				t.Fatalf("%s:%d: %v", path, i+1, err)
			}
			want[i+1] = text
		}
	}
	if len(want) == 0 {
		t.Fatalf("%s wants no errors", path)
	}
	return want
}
