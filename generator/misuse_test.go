package generator_test

import (
	"bytes"
	"encoding/json"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// What the generated types forbid does not compile. Each file of
// testdata/misuse/std-http, client and lease is one mistake in the use of that golden
// case, made outside of the generated package (outside.go) and inside of it
// (inside.go), and what the compiler says (outside.txt and inside.txt). A new
// file is a new case; -update records messages. Those that are there hold for
// Go 1.25 and Go 1.26.
//
// Covers CLI-01: there is no request without its caller's key.
func TestMisuseDoesNotCompile(t *testing.T) {
	t.Parallel()
	for _, golden := range []string{"std-http", "client", "lease"} {
		t.Run(golden, func(t *testing.T) {
			t.Parallel()
			misuseDoesNotCompile(t, golden)
		})
	}
}

func misuseDoesNotCompile(t *testing.T, golden string) {
	t.Helper()
	cases := readMisuse(t, golden)
	outside, inside := make(map[string][]byte), make(map[string][]byte)
	for _, m := range cases {
		outside["misuse/"+m.name+"/main.go"] = m.program(t, "outside")
		inside["golden/"+golden+"/"+m.name+".go"] = m.program(t, "inside")
	}
	// All errors of a package, not the first ten.
	fromOutside, _ := goBuild(t, outside, "-gcflags=-e", "./misuse/...")
	fromInside, _ := goBuild(t, inside, "-gcflags=-e", "./golden/"+golden)
	saidOutside, saidInside := splitErrors(t, fromOutside), splitErrors(t, fromInside)
	for _, m := range cases {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			m.check(t, "outside.txt", saidOutside[m.name])
			m.check(t, "inside.txt", saidInside[m.name])
		})
	}
}

// What no Go type can forbid is refused when the program runs, before anything
// is sent or stored. Each file of testdata/misuse/runtime is one mistake: a
// program that compiles (outside.go), with what it needs inside of the generated
// package (inside.go), and what it prints (outside.txt).
func TestMisuseIsRefusedAtRunTime(t *testing.T) {
	t.Parallel()
	cases := readMisuse(t, "runtime")
	programs := make(map[string][]byte)
	for _, m := range cases {
		programs["misuse/"+m.name+"/main.go"] = m.program(t, "outside")
		if m.has("inside.go") {
			programs["golden/client/"+m.name+".go"] = m.program(t, "inside")
		}
	}
	bin := t.TempDir() + string(filepath.Separator)
	if out, err := goBuild(t, programs, "-ldflags=-s -w", "-o", bin, "./misuse/..."); err != nil {
		t.Fatalf("does not compile: move the mistake to testdata/misuse/client\n%s", out)
	}
	for _, m := range cases {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			program := bin + m.name
			if runtime.GOOS == "windows" {
				program += ".exe"
			}
			out, err := exec.CommandContext(t.Context(), program).CombinedOutput()
			if err != nil || bytes.Contains(out, []byte("<nil>")) {
				t.Fatalf("not refused: %v\n%s", err, out)
			}
			m.check(t, "outside.txt", string(out))
		})
	}
}

// misuse is a file of testdata/misuse.
type misuse struct {
	name    string
	path    string
	archive *txtar.Archive
}

func readMisuse(t *testing.T, dir string) []misuse {
	t.Helper()
	paths, err := filepath.Glob("../testdata/misuse/" + dir + "/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no mistakes in %s: %v", dir, err)
	}
	var cases []misuse
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		cases = append(cases, misuse{strings.TrimSuffix(filepath.Base(path), ".txtar"), path, archive})
	}
	return cases
}

// index returns where the archive's file of that name is, or -1.
func (m misuse) index(file string) int {
	return slices.IndexFunc(m.archive.Files, func(f txtar.File) bool { return f.Name == file })
}

func (m misuse) has(file string) bool { return m.index(file) >= 0 }

// program returns the source of one side.
func (m misuse) program(t *testing.T, side string) []byte {
	t.Helper()
	i := m.index(side + ".go")
	if i < 0 {
		t.Fatalf("%s has no %s.go", m.path, side)
	}
	source := m.archive.Files[i].Data
	if formatted, err := format.Source(source); err != nil || !bytes.Equal(formatted, source) {
		t.Errorf("%s: %s.go is not formatted: %v\n%s", m.path, side, err, formatted)
	}
	return source
}

// check compares what was said of a program with the archive's file, or records
// it there, behind the program. Nothing said is a mistake that went through.
func (m misuse) check(t *testing.T, file, said string) {
	t.Helper()
	if said == "" {
		t.Errorf("%s: the mistake goes through", strings.TrimSuffix(file, ".txt"))
		return
	}
	if *update {
		if !m.has(file) {
			program := m.index(strings.TrimSuffix(file, ".txt") + ".go")
			m.archive.Files = slices.Insert(m.archive.Files, program+1, txtar.File{Name: file})
		}
		m.archive.Files[m.index(file)].Data = []byte(said)
		if err := os.WriteFile(m.path, txtar.Format(m.archive), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if !m.has(file) {
		t.Fatalf("no %s; run go test ./generator -run TestMisuse -update and read the difference", file)
	}
	if want := string(m.archive.Files[m.index(file)].Data); said != want {
		t.Errorf("%s: got\n%swant\n%s", file, said, want)
	}
}

// goBuild builds packages of the testdata module with further files in it, by
// their paths there.
func goBuild(t *testing.T, files map[string][]byte, args ...string) (string, error) {
	t.Helper()
	module, err := filepath.Abs("../testdata")
	if err != nil {
		t.Fatal(err)
	}
	temp := t.TempDir()
	replace := make(map[string]string)
	for place, content := range files {
		path := filepath.Join(temp, filepath.FromSlash(place))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(module, filepath.FromSlash(place))] = path
	}
	overlay := filepath.Join(temp, "overlay.json")
	content, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(overlay, content, 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", append([]string{"build", "-overlay", overlay}, args...)...)
	build.Dir = module
	out, err := build.CombinedOutput()
	return string(out), err
}

// compilerError begins an error in a program: misuse/NAME/main.go:LINE:COLUMN:
// or golden/CASE/NAME.go:LINE:COLUMN:, below the directory that it is in.
var compilerError = regexp.MustCompile(`^\S*[/\\](?:misuse[/\\](\w+)[/\\]main|golden[/\\][\w-]+[/\\](\w+))\.go:(\d+:\d+: .*)`)

// splitErrors returns the compiler's errors by the name of their program,
// without paths.
func splitErrors(t *testing.T, out string) map[string]string {
	t.Helper()
	said := make(map[string]string)
	var name string
	for line := range strings.Lines(out) {
		m := compilerError.FindStringSubmatch(line)
		switch {
		case m != nil:
			name = m[1] + m[2]
			said[name] += m[3] + "\n"
		case strings.HasPrefix(line, "\t") && name != "":
			said[name] += line
		case !strings.HasPrefix(line, "# "):
			t.Fatalf("the error of no program: %s\n%s", line, out)
		}
	}
	return said
}
