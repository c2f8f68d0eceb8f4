package spec

import (
	"strings"
	"unicode"
)

// Folded returns the letters and digits of a name, in lower case. Names that
// are folded alike can be one name in generated code.
func Folded(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, name)
}
