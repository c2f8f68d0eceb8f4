package tree

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/idemgen/idemgen/generator/internal/diag"
)

// Bounds on what is read. The largest public API descriptions have 13 MB,
// some 700,000 values and are 60 deep.
const (
	maxBytes  = 32 << 20
	maxMarks  = 4_000_000 // characters that can begin a value
	maxCopies = 250_000   // values that aliases may add
	maxDepth  = 1_000
)

// Read reads a file. The File is nil if there is an error among the findings.
func Read(path string) (*File, diag.List) {
	data, err := ReadBytes(path)
	if err != nil {
		pos := diag.Pos{File: diag.FileName(path)}
		if errors.Is(err, errTooLarge) {
			return nil, diag.List{diag.Errorf(pos, "file-invalid", "%v", err)}
		}
		return nil, diag.List{diag.Errorf(pos, diag.Unreadable, "%v", err)}
	}
	return parse(path, data, strings.EqualFold(filepath.Ext(path), ".json"))
}

var errTooLarge = fmt.Errorf("is larger than %d MB; split it into files, and join them with $ref", maxBytes>>20)

// ReadBytes reads a file within the bounds of [Read]. Its errors do not name
// the file.
func ReadBytes(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", diag.Reason(err))
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("cannot be read: it is not a regular file")
	}
	if info.Size() > maxBytes {
		return nil, errTooLarge
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", diag.Reason(err))
	}
	return data, nil
}

// Parse reads data in place of the file at path, whatever that is named: JSON
// if it is valid JSON, otherwise YAML.
func Parse(path string, data []byte) (*File, diag.List) {
	return parse(path, data, false)
}

func parse(path string, data []byte, mustBeJSON bool) (*File, diag.List) {
	file := &File{Path: filepath.Clean(path), Name: diag.FileName(path)}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if marks(data) > maxMarks {
		return nil, diag.List{diag.Errorf(diag.Pos{File: file.Name}, "file-invalid", "holds too many values: more than %d of the characters that can begin one; split it into files, and join them with $ref", maxMarks)}
	}
	if pos, what := firstBadCharacter(file.Name, data); what != "" {
		return nil, diag.List{diag.Errorf(pos, "file-invalid", "is not valid YAML or JSON: %s", what)}
	}
	read := parseYAML
	if mustBeJSON || json.Valid(data) {
		read = parseJSON
	}
	var problem *diag.Diagnostic
	file.doc, problem = read(file.Name, data)
	if problem != nil {
		return nil, diag.List{*problem}
	}
	e := expander{file: file, copies: maxCopies, open: map[*yaml.Node]bool{}}
	e.expand(file.doc, 0)
	if e.findings.HasErrors() {
		return nil, e.findings
	}
	return file, nil
}

// marks counts the characters that can begin a value. There are at least half
// as many as values, so that what would take much memory is refused unparsed.
func marks(data []byte) int {
	n := 0
	for _, mark := range []string{",", ":", "[", "{", "-", "?"} {
		n += bytes.Count(data, []byte(mark))
	}
	return n
}

// firstBadCharacter finds what neither YAML nor JSON allows: bytes that are
// not UTF-8, and control characters.
func firstBadCharacter(name string, data []byte) (diag.Pos, string) {
	pos := diag.Pos{File: name, Line: 1, Col: 1}
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			return pos, "it is not UTF-8 here"
		case r < 0x20 && r != '\t' && r != '\n' && r != '\r', r == 0x7f:
			return pos, fmt.Sprintf("it holds the control character U+%04X", r)
		}
		if r == '\n' {
			pos.Line, pos.Col = pos.Line+1, 1
		} else {
			pos.Col++
		}
		i += size
	}
	return diag.Pos{}, ""
}

var (
	yamlErrorLine = regexp.MustCompile(`^line (\d+): `)
	// yamlParserError matches the messages whose line the library counts from 0.
	yamlParserError = regexp.MustCompile(`^did not find expected (node content|key|'-' indicator|',' or '.'|<)`)
)

func parseYAML(name string, data []byte) (*yaml.Node, *diag.Diagnostic) {
	fail := func(pos diag.Pos, format string, args ...any) (*yaml.Node, *diag.Diagnostic) {
		d := diag.Errorf(pos, "file-invalid", format, args...)
		return nil, &d
	}
	pos := diag.Pos{File: name}
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")) // the library takes it for two in comments
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return fail(pos, "is empty")
	case err != nil:
		msg := strings.TrimPrefix(err.Error(), "yaml: ")
		pos.Line = 1
		if m := yamlErrorLine.FindStringSubmatch(msg); m != nil {
			pos.Line, _ = strconv.Atoi(m[1])
			msg = msg[len(m[0]):]
			if yamlParserError.MatchString(msg) {
				pos.Line++
			}
		}
		return fail(pos, "is not valid YAML: %s", msg)
	}
	if len(doc.Content) != 1 {
		return fail(pos, "is empty")
	}
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		pos.Line, pos.Col = second.Line, second.Column // none if it does not parse
		return fail(pos, "holds a second YAML document; keep one")
	}
	if bytes.ContainsAny(data, yamlBreaks) {
		relocate(&doc, lineStarts(data))
	}
	return &doc, nil
}

// yamlBreaks end a line for the library, as in YAML 1.1, and not for editors.
const yamlBreaks = "\u0085\u2028\u2029"

// lineStarts returns where an editor shows the start of each of the library's
// lines.
func lineStarts(data []byte) []diag.Pos {
	at := diag.Pos{Line: 1, Col: 1}
	starts := []diag.Pos{at}
	for i, r := range string(data) {
		isBreak := strings.ContainsRune(yamlBreaks, r)
		if r == '\n' || r == '\r' && !bytes.HasPrefix(data[i+1:], []byte("\n")) {
			at, isBreak = diag.Pos{Line: at.Line + 1, Col: 1}, true
		} else {
			at.Col++
		}
		if isBreak {
			starts = append(starts, at)
		}
	}
	return starts
}

// relocate moves the positions of n and all under it to those of an editor.
func relocate(n *yaml.Node, starts []diag.Pos) {
	if n.Line > 0 && n.Line <= len(starts) {
		start := starts[n.Line-1]
		n.Line, n.Column = start.Line, start.Col-1+n.Column
	}
	for _, child := range n.Content {
		relocate(child, starts)
	}
}

// expander replaces aliases and merge keys by copies of what they stand for,
// so that nothing after it needs to know of them.
type expander struct {
	file     *File
	copies   int // how many more values may be copied
	open     map[*yaml.Node]bool
	findings diag.List
}

func (e *expander) failf(n *yaml.Node, code, format string, args ...any) {
	e.findings = append(e.findings, diag.Errorf(Value{e.file, n}.Pos(), code, format, args...))
}

func (e *expander) expand(n *yaml.Node, depth int) {
	if depth > maxDepth {
		e.failf(n, "file-invalid", "is nested deeper than %d levels", maxDepth)
		return
	}
	e.open[n] = true
	defer delete(e.open, n)
	n.Anchor = "" // no alias is left to need it
	for i, child := range n.Content {
		if len(e.findings) > 0 {
			return
		}
		if child.Kind == yaml.AliasNode {
			if e.open[child.Alias] {
				e.failf(child, "file-invalid", "the alias *%s stands inside of what it names", child.Value)
				return
			}
			// Anchors come before their aliases: the target is expanded already.
			n.Content[i] = e.copy(child.Alias, depth+1)
			continue
		}
		e.expand(child, depth+1)
	}
	if n.Kind == yaml.MappingNode && len(e.findings) == 0 {
		e.checkKeys(n)
		e.merge(n)
	}
}

func (e *expander) copy(n *yaml.Node, depth int) *yaml.Node {
	e.copies--
	if e.copies < 0 || depth > maxDepth {
		if len(e.findings) == 0 {
			e.failf(n, "file-invalid", "aliases expand to more than %d values or %d levels", maxCopies, maxDepth)
		}
		return n
	}
	c := *n
	c.Anchor = ""
	c.Content = make([]*yaml.Node, len(n.Content))
	for i, child := range n.Content {
		c.Content[i] = e.copy(child, depth+1)
		if len(e.findings) > 0 {
			break
		}
	}
	return &c
}

// merge applies the merge key << of YAML 1.1, which OpenAPI tools understand.
func (e *expander) merge(n *yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.ShortTag() != "!!merge" {
			continue
		}
		sources := []*yaml.Node{value}
		if value.Kind == yaml.SequenceNode {
			sources = value.Content
		}
		n.Content = append(n.Content[:i:i], n.Content[i+2:]...)
		for _, source := range sources {
			if source.Kind != yaml.MappingNode {
				e.failf(source, "file-invalid", "<< needs an object or a list of objects")
				return
			}
			for j := 0; j+1 < len(source.Content); j += 2 {
				if !(Value{e.file, n}).Field(source.Content[j].Value).Value.Exists() {
					n.Content = append(n.Content, source.Content[j], source.Content[j+1])
				}
			}
		}
		return
	}
}

// checkKeys refuses keys that are not text and keys that stand twice: readers
// differ on which of two values counts.
func (e *expander) checkKeys(n *yaml.Node) {
	seen := make(map[string]*yaml.Node, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode || key.ShortTag() == "!!binary" {
			e.failf(key, "file-invalid", "a key must be text, not %s", Value{e.file, key}.Kind())
			continue
		}
		if first, ok := seen[key.Value]; ok {
			e.failf(key, "duplicate-key", "the key %s stands at line %d already; keep one of the two", Quote(key.Value), first.Line)
			continue
		}
		seen[key.Value] = key
	}
}
