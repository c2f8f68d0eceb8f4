package diag

import (
	"fmt"
	"slices"
	"strings"
)

// Explanation says what all findings of one code have in common.
type Explanation struct {
	// Code is the code, such as "marker-place".
	Code string
	// Title is one short sentence.
	Title string
	// Meaning says why this is a finding.
	Meaning string
	// Wrong and Right are fragments of YAML, or "" where none would help.
	Wrong, Right string
	// Remedy says what to do.
	Remedy string
}

// Explain returns the explanation of a code. The error of an unknown one names
// the nearest.
func Explain(code string) (Explanation, error) {
	codes := make([]string, len(explanations))
	for i, e := range explanations {
		if e.Code == code {
			return e, nil
		}
		codes[i] = e.Code
	}
	if near := Nearest(code, codes); near != "" {
		return Explanation{}, fmt.Errorf("there is no code %q; did you mean %s?", code, near)
	}
	return Explanation{}, fmt.Errorf("there is no code %q; known are %s", code, strings.Join(codes, ", "))
}

// Explanations returns those of all codes, sorted by code.
func Explanations() []Explanation { return slices.Clone(explanations) }

// Text returns the explanation for a terminal.
func (e Explanation) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n%s\n\n%s\n", e.Code, e.Title, wrapped(e.Meaning))
	for _, fragment := range []struct{ name, yaml string }{{"Wrong", e.Wrong}, {"Right", e.Right}} {
		if fragment.yaml != "" {
			fmt.Fprintf(&b, "\n%s:\n\n    %s\n", fragment.name, strings.ReplaceAll(fragment.yaml, "\n", "\n    "))
		}
	}
	fmt.Fprintf(&b, "\n%s\n", wrapped(e.Remedy))
	return b.String()
}

// Markdown returns the explanation without its code.
func (e Explanation) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n%s\n\n", e.Title, wrapped(e.Meaning))
	var fragments []string
	for _, fragment := range []struct{ name, yaml string }{{"wrong", e.Wrong}, {"right", e.Right}} {
		if fragment.yaml != "" {
			fragments = append(fragments, "# "+fragment.name+"\n"+fragment.yaml+"\n")
		}
	}
	if len(fragments) > 0 {
		fmt.Fprintf(&b, "```yaml\n%s```\n\n", strings.Join(fragments, "\n"))
	}
	b.WriteString(wrapped(e.Remedy) + "\n")
	return b.String()
}

// lineLength is the greatest length of a line of prose.
const lineLength = 80

// wrapped breaks a paragraph into lines.
func wrapped(paragraph string) string {
	var b strings.Builder
	length := 0
	for word := range strings.FieldsSeq(paragraph) {
		switch {
		case length == 0:
		case length+1+len(word) > lineLength:
			b.WriteByte('\n')
			length = 0
		default:
			b.WriteByte(' ')
			length++
		}
		b.WriteString(word)
		length += len(word)
	}
	return b.String()
}
