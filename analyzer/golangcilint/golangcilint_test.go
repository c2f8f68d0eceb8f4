package golangcilint_test

import (
	"strings"
	"testing"

	"github.com/golangci/plugin-module-register/register"

	_ "github.com/idemgen/idemgen/analyzer/golangcilint"
)

func TestPlugin(t *testing.T) {
	t.Parallel()
	newPlugin, err := register.GetPlugin("idempotencykey")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name     string
		settings any
		flags    map[string]string
		err      string
	}{
		{"none", nil, map[string]string{"zero-key": "true", "raw-http": "false"}, ""},
		{"some", map[string]any{"raw-http": true, "zero-key": false}, map[string]string{"zero-key": "false", "raw-http": "true", "unstable-key": "true"}, ""},
		{"misspelt", map[string]any{"zerokey": true}, nil, `"zerokey"`},
		{"no boolean", map[string]any{"zero-key": "yes"}, nil, "decoding settings"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			plugin, err := newPlugin(test.settings)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("error %v, want one with %s", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			analyzers, err := plugin.BuildAnalyzers()
			if err != nil || len(analyzers) != 1 || plugin.GetLoadMode() != register.LoadModeTypesInfo {
				t.Fatalf("%d analyzers, load mode %s, error %v", len(analyzers), plugin.GetLoadMode(), err)
			}
			for name, want := range test.flags {
				if got := analyzers[0].Flags.Lookup(name).Value.String(); got != want {
					t.Errorf("%s is %s, want %s", name, got, want)
				}
			}
		})
	}
}
