package contract

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"

	"github.com/idemgen/idemgen/generator/internal/diag"
	"github.com/idemgen/idemgen/generator/internal/tree"
	"github.com/idemgen/idemgen/templates"
)

// A file says in its first line that idemgen has written it, as Go files do;
// JSON has no comments, so there it is the first member of the object.
var (
	mark     = strings.TrimPrefix(templates.Header, "// ")
	yamlMark = "# " + mark
)

// jsonMark is the name of the member that marks a JSON file.
const jsonMark = "x-idemgen"

// IsJSON reports whether a file with this name is written as JSON.
func IsJSON(name string) bool { return strings.EqualFold(filepath.Ext(name), ".json") }

// Encode returns the file with idemgen's mark, as JSON or YAML.
func Encode(f *tree.File, asJSON bool) ([]byte, diag.List) {
	fail := func(format string, args ...any) ([]byte, diag.List) {
		return nil, diag.List{diag.Errorf(diag.Pos{File: f.Name}, "contract", format, args...)}
	}
	if asJSON {
		data, err := f.JSON()
		if err != nil {
			return fail("the contract cannot be written as JSON: %s", diag.OneLine(err))
		}
		return append([]byte("{\n  \""+jsonMark+"\": \""+mark+"\",\n"), bytes.TrimPrefix(data, []byte("{\n"))...), nil
	}
	data, err := f.YAML()
	if err != nil {
		return fail("the contract cannot be written as YAML: %s", diag.OneLine(err))
	}
	// The YAML library moves comments, and then now and then loses text.
	if again, findings := tree.Parse(f.Path, data); findings.HasErrors() || !again.Root().Equal(f.Root()) {
		return fail("the contract cannot be written as YAML with the comments of this document; name a .json file")
	}
	return append([]byte(yamlMark+"\n\n"), data...), nil
}

// Written reports whether src is a contract or an overlay that idemgen has
// written. In YAML, people may put comments above the mark.
func Written(src []byte) bool {
	for line := range bytes.Lines(src) {
		line = bytes.TrimRight(line, "\r\n")
		if string(line) == yamlMark {
			return true
		}
		if len(line) > 0 && line[0] != '#' {
			break
		}
	}
	dec := json.NewDecoder(bytes.NewReader(src))
	for _, want := range []json.Token{json.Delim('{'), jsonMark, mark} {
		if token, err := dec.Token(); err != nil || token != want {
			return false
		}
	}
	return true
}
