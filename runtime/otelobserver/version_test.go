package otelobserver

import (
	"runtime/debug"
	"testing"
)

// The instrumentation scope has the version that a program was built with.
func TestVersion(t *testing.T) {
	t.Parallel()
	other := &debug.Module{Path: modulePath + "/v2", Version: "v2.0.0"}
	for want, m := range map[string]*debug.Module{
		"v0.3.0": {Path: modulePath, Version: "v0.3.0"},
		"v0.3.1": {Path: modulePath, Version: "v0.3.0", Replace: &debug.Module{Path: "example.com/fork", Version: "v0.3.1"}},
		"":       {Path: modulePath, Version: "v0.0.0", Replace: &debug.Module{Path: "../runtime"}},
	} {
		if got := versionIn(&debug.BuildInfo{Deps: []*debug.Module{other, m}}); got != want {
			t.Errorf("version %q, want %q", got, want)
		}
	}
	if got := versionIn(&debug.BuildInfo{Deps: []*debug.Module{other}}); got != "" {
		t.Errorf("without the module: version %q", got)
	}
}
