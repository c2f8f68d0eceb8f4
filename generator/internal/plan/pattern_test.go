package plan_test

import (
	"strings"
	"testing"

	"github.com/idemgen/idemgen/generator/internal/plan"
	"github.com/idemgen/idemgen/generator/internal/spec"
)

// What net/http's ServeMux refuses is found before a server panics with it, and
// a marked operation never stands for the paths below its own.
//
// Covers GEN-32 and GEN-33.
func TestPatterns(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		patterns [2]string // of CreateA, which is marked, and of Other
		want     string
	}{
		"fine":                  {[2]string{"POST /a", "POST /b/{id}"}, ""},
		"root":                  {[2]string{"POST /", "POST /b"}, `openapi.yaml:1: POST /a is registered as "POST /" (DIR/api.gen.go:23:45), which takes every path that begins so`},
		"directory":             {[2]string{"POST /a/", "POST /b"}, `which takes every path that begins so`},
		"directory, not marked": {[2]string{"POST /a", "POST /b/"}, ""},
		"exact root":            {[2]string{"POST /{$}", "POST /b"}, ""},
		"suffix":                {[2]string{"POST /a/{id}:cancel", "POST /b"}, `DIR/api.gen.go:23:45: warning: net/http's ServeMux refuses the pattern "POST /a/{id}:cancel", so`},
		"no identifier":         {[2]string{"POST /a", "POST /b/{order-id}"}, `warning: net/http's ServeMux refuses the pattern "POST /b/{order-id}", so`},
		"two names":             {[2]string{"POST /a/{id}", "POST /a/{other}"}, `warning: net/http's ServeMux refuses the pattern "POST /a/{other}" beside those of other operations`},
		"overlap":               {[2]string{"POST /a/{id}/x", "POST /a/y/{id}"}, `warning: net/http's ServeMux refuses the pattern "POST /a/y/{id}" beside`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			more := "func HandlerWithOptions() {" + strings.Repeat(" ", 4) +
				"m.HandleFunc(\"" + test.patterns[0] + "\", wrapper.CreateA)\n" +
				"m.HandleFunc(\"" + test.patterns[1] + "\", wrapper.Other)\n}\n"
			pkg := packageWith(t, more, "CreateA (POST /a)", "Other (POST /b)")
			_, findings := plan.New(&spec.Document{Operations: []spec.Operation{marked(1, "", "POST /a")}}, pkg)
			dir := strings.TrimSuffix(pkg.Pos.File, "/api.gen.go")
			var got []string
			for _, d := range findings {
				got = append(got, strings.ReplaceAll(d.String(), dir, "DIR"))
			}
			if s := strings.Join(got, "\n"); test.want == "" && s != "" || !strings.Contains(s, test.want) {
				t.Errorf("%s\nwant %s", s, test.want)
			}
		})
	}
}
