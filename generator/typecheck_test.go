package generator_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/idemgen/idemgen/generator"
)

// exportData says where the go command keeps the compiled form of what
// generated code may import: all that the golden cases do.
var exportData = sync.OnceValues(func() (map[string]string, error) {
	list := exec.Command("go", "list", "-export", "-deps", "-f", "{{with .Export}}{{$.ImportPath}} {{.}}{{end}}", "./golden/...")
	list.Dir = filepath.Join("..", "testdata")
	var said strings.Builder
	list.Stderr = &said
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, &said)
	}
	files := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[path] = file
	}
	return files, nil
})

// compilerErrors type-checks files as one package and returns all errors, by
// the name of the file that holds each.
func compilerErrors(t *testing.T, files []generator.File) map[string][]string {
	t.Helper()
	exports, err := exportData()
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var parsed []*ast.File
	for _, f := range files {
		file, err := parser.ParseFile(fset, f.Name(), f.Content, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, file)
	}
	found := make(map[string][]string)
	config := types.Config{
		GoVersion: "go1.25",
		Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
			if exports[path] == "" {
				return nil, fmt.Errorf("no golden case imports %s", path)
			}
			return os.Open(exports[path])
		}),
		Error: func(err error) {
			var e types.Error
			if !errors.As(err, &e) {
				t.Fatal(err)
			}
			pos := fset.Position(e.Pos)
			found[pos.Filename] = append(found[pos.Filename], fmt.Sprintf("%d:%d: %s", pos.Line, pos.Column, e.Msg))
		},
	}
	_, _ = config.Check("api", fset, parsed, nil) // its error is the first of those reported
	return found
}

// goFiles are the Go files of a result: oapi-codegen's and, the last, ours.
func goFiles(result generator.Result) []generator.File {
	return slices.DeleteFunc(slices.Clone(result.Files), func(f generator.File) bool { return filepath.Ext(f.Path) != ".go" })
}

// typeChecked checks that our file has no errors, and that it adds none to the
// errors that oapi-codegen's file has without it. It returns how many those are.
func typeChecked(t *testing.T, result generator.Result) int {
	t.Helper()
	files := goFiles(result)
	api, ours := files[0], files[len(files)-1]
	found := compilerErrors(t, files)
	for _, e := range found[ours.Name()] {
		t.Errorf("%s:%s", ours.Name(), e)
	}
	if len(found[api.Name()]) == 0 {
		return 0
	}
	alone := compilerErrors(t, files[:1])[api.Name()]
	for _, e := range found[api.Name()] {
		if !slices.Contains(alone, e) {
			t.Errorf("%s:%s, which it has not without our file", api.Name(), e)
		}
	}
	return len(alone)
}

// allMarked generates from the project in dir, whose config has no operations
// yet, with every operation marked that may change something. Those that are
// refused are left out, and counted by the code of the refusal.
func allMarked(t *testing.T, dir, marker string) (generator.Result, map[string]int) {
	t.Helper()
	path := filepath.Join(dir, "idemgen.yaml")
	unmarked, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	config, err := generator.LoadConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	all, err := generator.Operations(config)
	if err != nil {
		t.Fatal(err)
	}
	marked := make(map[string]generator.Operation)
	var own int // marked by the document
	for _, op := range all {
		switch {
		case op.Policy != nil:
			own++
		case slices.Contains([]string{"DELETE", "PATCH", "POST", "PUT"}, op.Method):
			marked[op.Method+" "+op.Path] = op
		}
	}
	refused := make(map[string]int)
	for {
		text := string(unmarked) + "operations:\n"
		for _, name := range slices.Sorted(maps.Keys(marked)) {
			text += fmt.Sprintf("  %q: %s\n", name, marker)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		config, err := generator.LoadConfig(path)
		if err != nil {
			t.Fatal(err)
		}
		result, err := generator.Generate(t.Context(), config)
		var findings generator.Findings
		switch {
		case err == nil:
			if result.Protected != len(marked)+own {
				t.Fatalf("%d operations are protected, want %d", result.Protected, len(marked)+own)
			}
			return result, refused
		case !errors.As(err, &findings):
			t.Fatal(err)
		}
		before := len(marked)
		for _, f := range findings {
			if name := refusedOperation(text, marked, f); name != "" {
				t.Logf("left out: %s", f)
				delete(marked, name)
				refused[f.Code]++
			}
		}
		if len(marked) == before || len(marked) == 0 {
			t.Fatal(err)
		}
	}
}

// refusedOperation is the marked operation that a finding is of, or "": the one
// at its position in the config, the one that it names, or the last one before
// its position in a document.
func refusedOperation(config string, marked map[string]generator.Operation, f generator.Diagnostic) string {
	if f.Warning {
		return ""
	}
	if filepath.Base(f.File) == "idemgen.yaml" && f.Line > 0 {
		for name := range marked {
			if strings.Contains(strings.Split(config, "\n")[f.Line-1], strconv.Quote(name)+":") {
				return name
			}
		}
	}
	var last string
	for name, op := range marked {
		if strings.Contains(f.Message, name+" ") || strings.Contains(f.Message, name+")") {
			return name
		}
		if op.Pos.File == f.File && op.Pos.Line <= f.Line && (last == "" || op.Pos.Line > marked[last].Pos.Line) {
			last = name
		}
	}
	return last
}
