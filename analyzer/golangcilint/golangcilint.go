// Package golangcilint makes the analyzer a module plugin of golangci-lint,
// under the name idempotencykey. A blank import of it, in the program that
// golangci-lint custom builds, is all that is needed; docs/analyzer.md has the
// configuration.
package golangcilint

import (
	"fmt"
	"strconv"

	"github.com/golangci/plugin-module-register/register"
	"golang.org/x/tools/go/analysis"

	"github.com/idemgen/idemgen/analyzer/idempotencykey"
)

// golangci-lint finds its plugins in a registry that imports fill.
func init() { //nolint:gochecknoinits // as above
	register.Plugin(idempotencykey.Analyzer.Name, newPlugin)
}

// newPlugin reads the settings: whether a check is on, by its name.
func newPlugin(conf any) (register.LinterPlugin, error) {
	settings, err := register.DecodeSettings[map[string]bool](conf)
	if err != nil {
		return nil, err
	}
	p := plugin{idempotencykey.New()}
	for check, on := range settings {
		if p.analyzer.Flags.Lookup(check) == nil {
			return nil, fmt.Errorf("idempotencykey: the settings name %q, which is none of its checks", check)
		}
		if err := p.analyzer.Flags.Set(check, strconv.FormatBool(on)); err != nil {
			return nil, err
		}
	}
	return p, nil
}

type plugin struct{ analyzer *analysis.Analyzer }

func (p plugin) BuildAnalyzers() ([]*analysis.Analyzer, error) {
	return []*analysis.Analyzer{p.analyzer}, nil
}

func (plugin) GetLoadMode() string { return register.LoadModeTypesInfo }
