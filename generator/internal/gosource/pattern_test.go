package gosource_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The patterns are those of a std-http server of any version; other servers
// have none.
func TestPatterns(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ call, want string }{
		"v2.3":    {`m.HandleFunc("POST "+options.BaseURL+"/pay/{id}", wrapper.Pay)`, "Pay POST /pay/{id} 50:15"},
		"v2.8":    {`m.HandleFunc(http.MethodPost+" "+options.BaseURL+"/pay/{$}", wrapper.Pay)`, "Pay POST /pay/{$} 50:15"},
		"chi":     {`r.Post(options.BaseURL+"/pay", wrapper.Pay)`, ""},
		"gorilla": {`r.HandleFunc(options.BaseURL+"/pay", wrapper.Pay).Methods(http.MethodPost)`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pkg, findings := load(t, map[string]string{"api.gen.go": generated + "\nfunc HandlerWithOptions() {\n\t" + test.call + "\n}\n"})
			if pkg == nil {
				t.Fatal(findings)
			}
			var got []string
			for _, p := range pkg.Patterns {
				got = append(got, fmt.Sprintf("%s %s %d:%d", p.Operation, p.Text, p.Pos.Line, p.Pos.Col))
			}
			if s := strings.Join(got, ", "); s != test.want {
				t.Errorf("%s, want %s", s, test.want)
			}
		})
	}
}

func TestConstraint(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ line, want string }{
		"none":             {"// Package api is here.\n", ""},
		"release":          {"//go:build go1.22\n\n", ""},
		"tag":              {"// A licence.\n\n//go:build payments&&(linux||!cgo)\n\n", "payments && (linux || !cgo)"},
		"tag and release":  {"//go:build go1.22 && payments\n\n", "go1.22 && payments"},
		"not a constraint": {"//go:build (\n\n", ""},
		"not the file's":   {"/* //go:build payments */\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pkg, findings := load(t, map[string]string{"api.gen.go": test.line + generated})
			if pkg == nil {
				t.Fatal(findings)
			}
			if pkg.Constraint != test.want {
				t.Errorf("%q, want %q", pkg.Constraint, test.want)
			}
		})
	}
}

// Two outputs of oapi-codegen in one package are refused, whichever file holds
// which: the operations of one would hide the other's.
//
// Covers GEN-21.
func TestTwoOutputs(t *testing.T) {
	t.Parallel()
	pkg, findings := load(t, map[string]string{"billing.gen.go": generated, "orders.gen.go": generated})
	want := []string{
		"ServerInterface is already declared at DIR/billing.gen.go:",
		"StrictServerInterface is already declared at DIR/billing.gen.go:",
	}
	if pkg != nil || len(findings) != len(want) || !slices.IsSorted(findings) {
		t.Fatalf("package %v, findings %q", pkg != nil, findings)
	}
	for i, w := range want {
		if !strings.Contains(findings[i], w) || !strings.HasPrefix(findings[i], "DIR/orders.gen.go:") || !strings.Contains(findings[i], "give each document a package of its own") {
			t.Errorf("%s, want %s", findings[i], w)
		}
	}
}
