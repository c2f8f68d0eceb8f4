package gosource

import (
	"go/ast"
	"go/build/constraint"
	"slices"
	"strings"
)

// constraint returns the build constraint under which the files are compiled
// that declare the server and the client, or "". One that names nothing but
// releases of Go is none: generated code needs a later one.
func (l *loader) constraint() string {
	var all constraint.Expr
	var seen []string
	for _, name := range outputs {
		d, ok := l.types[name]
		if !ok {
			continue
		}
		expr := constraintOf(d.file.ast)
		if expr == nil || slices.Contains(seen, expr.String()) {
			continue
		}
		seen = append(seen, expr.String())
		if all == nil {
			all = expr
		} else {
			all = &constraint.AndExpr{X: all, Y: expr}
		}
	}
	if all == nil {
		return ""
	}
	return all.String()
}

// constraintOf returns the //go:build line of the file, or nil.
func constraintOf(f *ast.File) constraint.Expr {
	for _, group := range f.Comments {
		if group.Pos() > f.Package {
			return nil
		}
		for _, c := range group.List {
			if !constraint.IsGoBuild(c.Text) {
				continue
			}
			expr, err := constraint.Parse(c.Text)
			if err != nil {
				return nil // the go command says so
			}
			onlyReleases := true
			expr.Eval(func(tag string) bool {
				onlyReleases = onlyReleases && strings.HasPrefix(tag, "go1.")
				return true
			})
			if onlyReleases {
				return nil
			}
			return expr
		}
	}
	return nil
}
