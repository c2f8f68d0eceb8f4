package render

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"text/template"

	"github.com/idemgen/idemgen/templates"
)

// Text of a document stays in its comment and its string.
//
// Covers GEN-31.
func TestQuoting(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                              "",
		"a\nfunc init() {}":             "// a func init() {}",
		"a\r\nb\u2028c\u0085d\ve":       "// a b c d e",
		"\ufeffa\u202eb\x00c\x7fd\xffe": "// abcde",
		"*/ /* //go:embed x":            "// */ /* //go:embed x",
		"%d {{.}}":                      "// %d {{.}}",
		// A line of its own would keep the file out of the build.
		strings.Repeat("x", 100) + " +build y": "// " + strings.Repeat("x", 100) + " +build\n// y",
		strings.Repeat("x", 100) + " y":        "// " + strings.Repeat("x", 100) + "\n// y",
		strings.Repeat("abcd ", 20):            "// " + strings.TrimSpace(strings.Repeat("abcd ", 15)) + "\n// " + strings.TrimSpace(strings.Repeat("abcd ", 5)),
		strings.Repeat("é", 70) + " éééééé z":  "// " + strings.Repeat("é", 70) + " éééééé\n// z",
	} {
		if got := doc("%s", text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got, want := quotedSlice([]string{"a`\"", "\n\ufeff"}), `[]string{"a`+"`"+`\"", "\n\ufeff"}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := quotedSlice(nil); got != "nil" {
		t.Error(got)
	}
}

// The file begins with the header by which it is known.
func TestHeader(t *testing.T) {
	t.Parallel()
	src, err := fs.ReadFile(templates.FS, "file.tmpl")
	if err != nil {
		t.Fatal(err)
	}
	if !templates.Written(src) {
		t.Errorf("file.tmpl does not begin with %s", templates.Header)
	}
}

// Each template is asked for, and a target defines nothing that is so already.
func TestTemplatesOfTargets(t *testing.T) {
	t.Parallel()
	common := templatesIn(t, "*.tmpl")
	for name := range common.text {
		if !strings.HasSuffix(name, ".tmpl") && !strings.Contains(common.all, `template "`+name+`"`) {
			t.Errorf("no template asks for %q", name)
		}
	}
	paths, err := fs.Glob(templates.FS, "targets/*.tmpl")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no targets: %v", err)
	}
	for _, path := range paths {
		target := templatesIn(t, path)
		for name, text := range target.text {
			switch {
			case name == filepath.Base(path):
			case text == common.text[name]:
				t.Errorf("%s: %q is what target.tmpl says", path, name)
			case !strings.Contains(common.all+target.all, `template "`+name+`"`):
				t.Errorf("%s: no template asks for %q", path, name)
			}
		}
	}
}

type templateSet struct {
	all  string            // the text of all files
	text map[string]string // by the name of the template
}

func templatesIn(t *testing.T, pattern string) templateSet {
	t.Helper()
	paths, err := fs.Glob(templates.FS, pattern)
	if err != nil {
		t.Fatal(err)
	}
	found := templateSet{text: make(map[string]string)}
	set, err := template.New("").Funcs(functions).ParseFS(templates.FS, paths...)
	if err != nil {
		t.Fatal(err)
	}
	for _, defined := range set.Templates() {
		found.text[defined.Name()] = defined.Root.String()
	}
	for _, path := range paths {
		src, err := fs.ReadFile(templates.FS, path)
		if err != nil {
			t.Fatal(err)
		}
		found.all += string(src)
	}
	return found
}
