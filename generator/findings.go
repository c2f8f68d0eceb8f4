package generator

import (
	"slices"
	"strings"

	"github.com/idemgen/idemgen/generator/internal/diag"
)

// Diagnostic is one finding: where it is, a stable code and a message of one
// line that says what to do. Its String is "file:line:col: message".
type Diagnostic = diag.Diagnostic

// Explanation says what all findings of one code have in common: what they
// mean, and what to do.
type Explanation = diag.Explanation

// Explain returns the explanation of a code. The error of an unknown one names
// the nearest.
func Explain(code string) (Explanation, error) { return diag.Explain(code) }

// Findings are all findings of a run, sorted by position. As an error they say
// that nothing was generated.
type Findings []Diagnostic //nolint:errname // a list that can also be an error, as go/scanner.ErrorList

// Error returns one line for each finding.
func (f Findings) Error() string {
	lines := make([]string, len(f))
	for i, d := range f {
		lines[i] = d.String()
	}
	return strings.Join(lines, "\n")
}

// Unreadable reports whether a file that the run needs could not be read, so
// that the findings say nothing of what is in it.
func (f Findings) Unreadable() bool {
	return slices.ContainsFunc(f, func(d Diagnostic) bool { return d.Code == diag.Unreadable })
}

// asError returns the findings as an error if one of them is one.
func asError(findings diag.List) error {
	if !findings.HasErrors() {
		return nil
	}
	return Findings(findings.Sorted())
}
