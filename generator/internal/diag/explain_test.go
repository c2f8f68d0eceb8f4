package diag

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/diagnostics.md")

// reporting are the functions that report a finding: the code is their second
// argument.
var reporting = []string{"Errorf", "Warningf", "errorf", "warnf", "failf"}

// Every code that the generator reports has an explanation, and every
// explanation a code.
func TestEveryCodeIsExplained(t *testing.T) {
	t.Parallel()
	used := usedCodes(t, "../..")
	for _, code := range slices.Sorted(maps.Keys(used)) {
		if _, err := Explain(code); err != nil {
			t.Errorf("%s: %v; write its entry in explanations.go and run go test -update", used[code], err)
		}
	}
	for _, e := range Explanations() {
		if used[e.Code].Filename == "" {
			t.Errorf("explanations.go: nothing reports %s; remove the entry", e.Code)
		}
	}
}

// usedCodes returns the codes that Go files under dir report, and where.
func usedCodes(t *testing.T, dir string) map[string]token.Position {
	t.Helper()
	used := map[string]token.Position{}
	fset := token.NewFileSet()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "bench"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			reports := false // is itself one of the functions, and hands a code on
			if f, ok := decl.(*ast.FuncDecl); ok {
				reports = slices.Contains(reporting, f.Name.Name)
			}
			ast.Inspect(decl, func(n ast.Node) bool {
				code, ok := codeArgument(n)
				if !ok {
					return true
				}
				switch text, isText := constant(code); {
				case isText:
					used[text] = fset.Position(code.Pos())
				case !reports:
					t.Errorf("%s: write the code as a string, so that this test can read it", fset.Position(code.Pos()))
				}
				return true
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(used) < 20 {
		t.Fatalf("only %d codes found under %s", len(used), dir)
	}
	return used
}

// codeArgument returns the code that n reports, if it is a call that reports.
func codeArgument(n ast.Node) (ast.Expr, bool) {
	switch n := n.(type) {
	case *ast.CallExpr:
		name := ""
		switch f := n.Fun.(type) {
		case *ast.Ident:
			name = f.Name
		case *ast.SelectorExpr:
			if !isIdent(f.X, "fmt") {
				name = f.Sel.Name
			}
		}
		if slices.Contains(reporting, name) && len(n.Args) > 2 {
			return n.Args[1], true
		}
	case *ast.CompositeLit:
		t := n.Type
		if qualified, ok := t.(*ast.SelectorExpr); ok {
			t = qualified.Sel
		}
		if !isIdent(t, "Diagnostic") {
			break
		}
		for _, e := range n.Elts {
			if kv, ok := e.(*ast.KeyValueExpr); ok && isIdent(kv.Key, "Code") {
				return kv.Value, true
			}
		}
	}
	return nil, false
}

func isIdent(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

func constant(code ast.Expr) (string, bool) {
	switch code := code.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(code.Value)
		return text, err == nil
	case *ast.SelectorExpr:
		return Unreadable, code.Sel.Name == "Unreadable"
	default:
		return "", false
	}
}

func TestExplanations(t *testing.T) {
	t.Parallel()
	all := Explanations()
	if !slices.IsSortedFunc(all, func(a, b Explanation) int { return strings.Compare(a.Code, b.Code) }) {
		t.Error("explanations.go is not sorted by code")
	}
	for _, e := range all {
		if !strings.HasSuffix(e.Title, ".") || len(e.Title) > 100 {
			t.Errorf("%s: the title is one short sentence, not %q", e.Code, e.Title)
		}
		if e.Meaning == "" || e.Remedy == "" {
			t.Errorf("%s: says not what it means, or not what to do", e.Code)
		}
		if (e.Wrong == "") != (e.Right == "") || e.Wrong != "" && e.Wrong == e.Right {
			t.Errorf("%s: a wrong and a right fragment stand together, and differ", e.Code)
		}
		for line := range strings.Lines(e.Text()) {
			if len(line) > 110 || strings.Contains(line, "\t") {
				t.Errorf("%s: a line is longer than a terminal or holds a tab: %s", e.Code, line)
			}
		}
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	e, err := Explain("wrong-type")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"wrong-type\n\nA value", "\nWrong:\n\n    x-idempotent: ", "\nRight:\n\n    x-idempotent: ", "\n" + e.Remedy + "\n"} {
		if !strings.Contains(e.Text(), want) {
			t.Errorf("no %q in:\n%s", want, e.Text())
		}
	}
	for code, want := range map[string]string{
		"wrong-typ":       "did you mean wrong-type?",
		"Marker-Mispelt":  "did you mean marker-misspelt?",
		"something-other": "known are body-lost, config-operation, ",
		"":                "known are body-lost, ",
	} {
		if _, err := Explain(code); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Explain(%q): %v, want %q", code, err, want)
		}
	}
}

// docs/diagnostics.md is written from the explanations.
func TestDocument(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString(`# Diagnostics

Every finding of ` + "`idemgen`" + ` has a position, a message that says what to do, and a code
that stays the same when the message is reworded. ` + "`idemgen explain CODE`" + ` prints what is
written here. Findings are errors, and then no file is touched, unless their text says
that they are warnings.

`)
	for _, e := range Explanations() {
		b.WriteString("- [" + e.Code + "](#" + e.Code + "): " + e.Title + "\n")
	}
	for _, e := range Explanations() {
		b.WriteString("\n## " + e.Code + "\n\n" + e.Markdown())
	}
	const path = "../../../docs/diagnostics.md"
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.ReplaceAll(string(got), "\r\n", "\n") != b.String() {
		t.Errorf("%s is not what the explanations say; run go test ./generator/internal/diag -update", path)
	}
}
