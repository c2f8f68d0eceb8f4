package idempotency_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// families are the names that the package comment speaks of by how they begin.
var families = regexp.MustCompile(`^(Code|Err|Outcome|With|Atomic|FencedBy|Survives)[A-Z]`)

// The package comment says of each name whom it is for, and of no other.
func TestPackageCommentHasAllNames(t *testing.T) {
	t.Parallel()
	pkg := packageDoc(t)
	var names []string
	for _, f := range pkg.Funcs {
		names = append(names, f.Name)
	}
	for _, c := range pkg.Consts {
		names = append(names, c.Names...)
	}
	for _, v := range pkg.Vars {
		names = append(names, v.Names...)
	}
	for _, typ := range pkg.Types { // their constants are found beside them
		names = append(names, typ.Name)
		for _, f := range typ.Funcs {
			names = append(names, f.Name)
		}
		for _, v := range typ.Vars {
			names = append(names, v.Names...)
		}
	}
	exported := make(map[string]bool, len(names))
	for _, name := range names {
		exported[name] = true
		if !families.MatchString(name) && !regexp.MustCompile(`\[\*?`+name+`\]`).MatchString(pkg.Doc) {
			t.Errorf("%s is in no group of the package comment", name)
		}
	}
	for _, link := range regexp.MustCompile(`\[\*?(\w+)\]`).FindAllStringSubmatch(pkg.Doc, -1) {
		if !exported[link[1]] {
			t.Errorf("the package comment names %s, which there is not", link[0])
		}
	}
}

// packageDoc reads the documentation of this package.
func packageDoc(t *testing.T) *doc.Package {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	pkg, err := doc.NewFromFiles(fset, files, "github.com/idemgen/idemgen/runtime/idempotency")
	if err != nil {
		t.Fatal(err)
	}
	return pkg
}
