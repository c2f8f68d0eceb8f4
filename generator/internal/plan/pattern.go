package plan

import (
	"net/http"
	"strings"

	"github.com/idemgen/idemgen/generator/internal/diag"
	"github.com/idemgen/idemgen/generator/internal/gosource"
	"github.com/idemgen/idemgen/generator/internal/spec"
)

// checkPatterns finds out what net/http's ServeMux makes of the patterns of a
// std-http server: some it refuses when the server starts, and some take more
// requests than the document says.
func (p *planner) checkPatterns(marked map[string]*spec.Operation) {
	together := http.NewServeMux()
	for _, pattern := range p.pkg.Patterns {
		if op, ok := marked[pattern.Operation]; ok && strings.HasSuffix(pattern.Text, "/") {
			p.errorf(op.Pos, "pattern-prefix", "%s is registered as %q (%s), which takes every path that begins so: requests to all of them would run as this operation; generate the server with oapi-codegen v2.8, or as chi-server or gorilla-server",
				op.ID(), pattern.Text, pattern.Pos)
		}
		switch {
		case !registers(http.NewServeMux(), pattern):
			p.warnf(pattern.Pos, "pattern-refused", "net/http's ServeMux refuses the pattern %q, so that the server panics when it starts; choose chi-server or gorilla-server, or change the path", pattern.Text)
		case !registers(together, pattern):
			p.warnf(pattern.Pos, "pattern-refused", "net/http's ServeMux refuses the pattern %q beside those of other operations, so that the server panics when it starts; choose chi-server or gorilla-server, or change the path", pattern.Text)
		}
	}
}

// registers reports whether the mux takes the pattern. It panics if not.
func registers(mux *http.ServeMux, pattern gosource.Pattern) (ok bool) {
	defer func() { ok = recover() == nil }()
	mux.Handle(pattern.Text, http.NotFoundHandler())
	return true
}

func (p *planner) warnf(pos diag.Pos, code, format string, args ...any) {
	p.findings = append(p.findings, diag.Warningf(pos, code, format, args...))
}
