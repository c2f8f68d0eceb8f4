package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/scannererr"
	"golang.org/x/tools/go/analysis/passes/sqlrowserr"
	"golang.org/x/tools/go/analysis/suite/vet"
	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/idemgen/idemgen/analyzer/idempotencykey"
)

// isVet tells whether the go command runs this program as a vet tool: to learn
// its version or its flags, or to look at the package that a file describes.
func isVet(args []string) bool {
	if len(args) == 0 {
		return false
	}
	last := args[len(args)-1]
	ofConfig := len(args) > 1 && strings.TrimLeft(args[len(args)-2], "-") == "config"
	return last == "-flags" || strings.HasPrefix(last, "-V=") ||
		strings.HasSuffix(last, ".cfg") && !strings.HasPrefix(last, "-") && !ofConfig
}

// runVet does what the go command asks of a vet tool, and ends the program. All
// checks of go vet stand beside our own, so that one run makes both.
func runVet() { unitchecker.Main(vetChecks()...) }

// vetChecks are the checks of Go 1.26's vet, and our own.
func vetChecks() []*analysis.Analyzer {
	return append(slices.DeleteFunc(slices.Clone(vet.Suite), isUnreleased), idempotencykey.Analyzer)
}

// isUnreleased tells whether x/tools has a check ahead of go vet. A project
// that changes its vet tool for ours gets no findings but ours.
func isUnreleased(check *analysis.Analyzer) bool {
	return check == scannererr.Analyzer || check == sqlrowserr.Analyzer
}

// goVet runs go vet with this program as its tool. The arguments are go vet's.
func goVet(ctx context.Context, inv *invocation) int {
	self, err := os.Executable()
	if err != nil {
		return inv.failf("its own file cannot be found: %v", err)
	}
	vet := exec.CommandContext(ctx, "go", append([]string{"vet", "-vettool=" + self}, inv.args...)...)
	vet.Stdout, vet.Stderr = inv.stdout, inv.stderr
	err = vet.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &exit) && exit.ExitCode() == exitFindings:
		return exitFindings
	case errors.As(err, &exit):
		return exitUsage // go vet has said why
	}
	return inv.failf("go vet cannot be run: %v", err)
}
