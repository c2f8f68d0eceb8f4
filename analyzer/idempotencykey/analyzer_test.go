package idempotencykey

import (
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"
)

// Each seeded mistake is found at its line, and nothing else.
//
// Covers CLI-01, CLI-13.
func TestMistakesAreFound(t *testing.T) {
	t.Parallel()
	analysistest.Run(t, analysistest.TestData(), Analyzer, "bad")
}

func TestCorrectProgramsAreNotReported(t *testing.T) {
	t.Parallel()
	analysistest.Run(t, analysistest.TestData(), Analyzer, "good")
}

// What functions do is known in packages that import theirs, and what idemgen
// generates is not examined.
func TestFacts(t *testing.T) {
	t.Parallel()
	analysistest.Run(t, analysistest.TestData(), Analyzer, "shop/api", "shop/db", "shop/keys", "shop/retry", "shop/strict")
}

func TestSuggestedFixes(t *testing.T) {
	t.Parallel()
	analysistest.RunWithSuggestedFixes(t, analysistest.TestData(), Analyzer, "fix")
}

func TestOptionalChecks(t *testing.T) {
	t.Parallel()
	analyzer := New()
	for _, check := range []string{rawHTTP, retryLoop} {
		if err := analyzer.Flags.Set(check, "true"); err != nil {
			t.Fatal(err)
		}
	}
	analysistest.Run(t, analysistest.TestData(), analyzer, "optional")
}
