// Package render prints a plan. It is the one place where text of the document
// enters Go: inside a quoted string or a comment.
package render

import (
	"bytes"
	"fmt"
	"go/format"
	"strconv"
	"strings"
	"text/template"
	"unicode"
	"unicode/utf8"

	"github.com/idemgen/idemgen/generator/internal/plan"
	"github.com/idemgen/idemgen/templates"
)

// functions are what templates can call.
var functions = template.FuncMap{
	"quote":   strconv.Quote,
	"strings": quotedSlice,
	"doc":     doc,
}

var parsed = template.Must(template.New("").Funcs(functions).ParseFS(templates.FS, "*.tmpl"))

// File returns the generated file.
func File(f *plan.File) ([]byte, error) {
	set := parsed
	if f.Target != "" {
		var err error
		if set, err = withTarget(f.Target); err != nil {
			return nil, err
		}
	}
	return execute(set, "file.tmpl", f)
}

// withTarget adds the template of a target to the common ones. What it defines
// takes the place of what they define under the same name.
func withTarget(name string) (*template.Template, error) {
	set, err := parsed.Clone()
	if err != nil {
		return nil, err
	}
	return set.ParseFS(templates.FS, "targets/"+name+".tmpl")
}

func execute(set *template.Template, name string, model any) ([]byte, error) {
	var b bytes.Buffer
	if err := set.ExecuteTemplate(&b, name, model); err != nil {
		return nil, fmt.Errorf("executing template %s: %w", name, err)
	}
	src, err := format.Source(b.Bytes())
	if err != nil {
		return nil, fmt.Errorf("template %s has produced Go that does not parse: %w", name, err)
	}
	return src, nil
}

// quotedSlice writes a slice literal.
func quotedSlice(values []string) string {
	if len(values) == 0 {
		return "nil"
	}
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = strconv.Quote(v)
	}
	return "[]string{" + strings.Join(quoted, ", ") + "}"
}

// width is how long a comment line gets, without what stands before it.
const width = 77

// doc writes a comment as // lines. Format is the templates' own, the values
// can be text of the document.
func doc(format string, values ...any) string {
	var b strings.Builder
	line := 0
	for i, word := range strings.Fields(printable(fmt.Sprintf(format, values...))) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
			b.WriteString("// ")
		case line+1+n > width && word[0] != '+': // a line that begins with +build would be a build constraint
			b.WriteString("\n// ")
			line = 0
		default:
			b.WriteString(" ")
			line++
		}
		b.WriteString(word)
		line += n
	}
	return b.String()
}

// printable makes text fit for a comment: a line break becomes a space, and what
// does not print, such as a mark that turns the direction of writing, is
// dropped.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == unicode.ReplacementChar || !unicode.IsPrint(r):
			return -1
		}
		return r
	}, text)
}
