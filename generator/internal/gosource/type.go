package gosource

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
	"unicode"
)

// Import is a package that a type expression refers to.
type Import struct {
	Name string // as the file that imports it calls it
	Path string
	// Named says that the import has an explicit name, which a copy keeps.
	Named bool
}

// Type is a type expression of the package. It can be written in another file
// of the package that imports the same packages, under whatever names.
type Type struct {
	// text is the expression without its package names: "[]" and ".UUID".
	text []string
	pkgs []Import // pkgs[i] stands between text[i] and text[i+1]
}

// Imports returns the packages that the expression refers to.
func (t Type) Imports() []Import { return t.pkgs }

// Format writes the expression with the package names that name gives.
func (t Type) Format(name func(Import) string) string {
	var b strings.Builder
	for i, s := range t.text {
		b.WriteString(s)
		if i < len(t.pkgs) {
			b.WriteString(name(t.pkgs[i]))
		}
	}
	return b.String()
}

// String writes the expression as its own file does.
func (t Type) String() string {
	return t.Format(func(i Import) string { return i.Name })
}

// Elem returns what a pointer type points to, and false for other types.
func (t Type) Elem() (Type, bool) {
	if len(t.text) == 0 || !strings.HasPrefix(t.text[0], "*") {
		return Type{}, false
	}
	elem := Type{text: append([]string{t.text[0][1:]}, t.text[1:]...), pkgs: t.pkgs}
	return elem, true
}

// Pointer returns the type of pointers to t.
func (t Type) Pointer() Type {
	return Type{text: append([]string{"*" + t.text[0]}, t.text[1:]...), pkgs: t.pkgs}
}

// Reader is the type io.Reader.
func Reader() Type {
	return Type{text: []string{"", ".Reader"}, pkgs: []Import{{Name: "io", Path: "io"}}}
}

// MultipartReader is the type *multipart.Reader.
func MultipartReader() Type {
	return Type{text: []string{"*", ".Reader"}, pkgs: []Import{{Name: "multipart", Path: "mime/multipart"}}}
}

// IsZero reports whether t is no type.
func (t Type) IsZero() bool { return len(t.text) == 0 }

// Is reports whether t is the type that importPath declares under name, or,
// with a leading "*" in name, a pointer to it.
func (t Type) Is(importPath, name string) bool {
	name, pointer := strings.CutPrefix(name, "*")
	before := ""
	if pointer {
		before = "*"
	}
	return len(t.pkgs) == 1 && t.pkgs[0].Path == importPath && t.text[0] == before && t.text[1] == "."+name
}

// typeOf cuts expr out of its file.
func (f *file) typeOf(expr ast.Expr) Type {
	var t Type
	start, dot := f.offset(expr.Pos()), ""
	cut := func(end token.Pos) string {
		text := dot + string(f.src[start:f.offset(end)])
		start, dot = f.offset(end), ""
		return text
	}
	labels := make(map[*ast.Ident]bool)
	ast.Inspect(expr, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			for _, name := range n.Names {
				labels[name] = true
			}
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok {
				if imp, ok := f.imports[x.Name]; ok {
					t.text, t.pkgs = append(t.text, cut(x.Pos())), append(t.pkgs, imp)
					start = f.offset(x.End())
				}
			}
			return false
		case *ast.Ident:
			if f.dot != nil && !labels[n] && n.IsExported() && !f.declared(n.Name) {
				t.text, t.pkgs = append(t.text, cut(n.Pos())), append(t.pkgs, *f.dot)
				dot = "."
			}
		}
		return true
	})
	t.text = append(t.text, cut(expr.End()))
	return t
}

func (f *file) declared(name string) bool {
	_, ok := f.scope[name]
	return ok
}

// dotImports returns the packages that a file imports as ".", under the names
// that their paths suggest.
func dotImports(f *ast.File) []Import {
	var dots []Import
	for _, spec := range f.Imports {
		if spec.Name != nil && spec.Name.Name == "." {
			path := strings.Trim(spec.Path.Value, "\"`")
			dots = append(dots, Import{Name: assumedName(path), Path: path, Named: true})
		}
	}
	return dots
}

// importsOf returns the imports of a file by the name it uses for them.
func importsOf(f *ast.File) map[string]Import {
	imports := make(map[string]Import, len(f.Imports))
	for _, spec := range f.Imports {
		imp := Import{Path: strings.Trim(spec.Path.Value, "\"`")}
		if spec.Name != nil {
			imp.Name, imp.Named = spec.Name.Name, true
		} else {
			imp.Name = assumedName(imp.Path)
		}
		imports[imp.Name] = imp
	}
	return imports
}

// MissingImports returns the packages that a file refers to and does not
// import, by the names that it has for them; none if the file does not parse.
func MissingImports(src []byte) []string {
	f, err := parser.ParseFile(token.NewFileSet(), "", src, 0)
	if err != nil {
		return nil
	}
	imports := importsOf(f)
	missing := make(map[*ast.Ident]bool)
	for _, ident := range f.Unresolved {
		if _, ok := imports[ident.Name]; !ok {
			missing[ident] = true
		}
	}
	var names []string
	ast.Inspect(f, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && missing[x] {
				names = append(names, x.Name)
			}
		}
		return true
	})
	slices.Sort(names)
	return slices.Compact(names)
}

// assumedName is the package name that an import path suggests. Generated
// files are formatted by goimports, which names every import whose package is
// called otherwise.
func assumedName(importPath string) string {
	base := path.Base(importPath)
	if isMajor(base) {
		if dir := path.Dir(importPath); dir != "." {
			base = path.Base(dir)
		}
	}
	base = strings.TrimPrefix(base, "go-")
	if i := strings.IndexFunc(base, func(r rune) bool {
		return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}); i >= 0 {
		base = base[:i]
	}
	return base
}

// isMajor reports whether s is a major version such as v5.
func isMajor(s string) bool {
	digits, ok := strings.CutPrefix(s, "v")
	if !ok || digits == "" {
		return false
	}
	return strings.Trim(digits, "0123456789") == ""
}

func (f *file) offset(p token.Pos) int { return f.tok.Offset(p) }
