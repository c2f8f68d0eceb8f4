package main

import (
	"context"
	"flag"
	"fmt"
	"runtime/debug"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"

	"github.com/idemgen/idemgen/generator"
)

func initFlags(inv *invocation, flags *flag.FlagSet) { flags.StringVar(&inv.spec, "spec", "", "") }

// initialize prepares a package and says what it did.
func initialize(_ context.Context, inv *invocation) int {
	dir := "."
	switch len(inv.args) {
	case 0:
	case 1:
		dir = inv.args[0]
	default:
		return inv.failf("init takes one directory, not %d", len(inv.args))
	}
	start, err := generator.Init(dir, inv.spec, releasedVersion())
	if err == nil {
		_, err = start.Write()
	}
	if err != nil {
		return inv.fail(err)
	}
	for _, line := range start.Done {
		fmt.Fprintln(inv.stdout, "wrote", line)
	}
	fmt.Fprintln(inv.stdout, "Next:")
	for i, line := range start.Next {
		fmt.Fprintf(inv.stdout, "  %d. %s\n", i+1, line)
	}
	return exitDone
}

// releasedVersion is the version to name in a go:generate line: this program's
// if others can get it.
func releasedVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Replace != nil || !semver.IsValid(info.Main.Version) ||
		module.IsPseudoVersion(info.Main.Version) || semver.Build(info.Main.Version) != "" {
		return "latest"
	}
	return info.Main.Version
}
