package tree

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/idemgen/idemgen/generator/internal/diag"
)

// parseJSON reads JSON. YAML's own reader would refuse some of it, such as
// pairs of escaped surrogates.
func parseJSON(name string, data []byte) (*yaml.Node, *diag.Diagnostic) {
	if len(bytes.TrimSpace(data)) == 0 {
		d := diag.Errorf(diag.Pos{File: name}, "file-invalid", "is empty")
		return nil, &d
	}
	var invalid *json.SyntaxError
	if err := json.Unmarshal(data, new(json.RawMessage)); errors.As(err, &invalid) {
		at := jsonParser{data: data, line: 1, col: 1}
		at.advance(max(0, int(invalid.Offset)-1))
		d := diag.Errorf(diag.Pos{File: name, Line: at.line, Col: at.col}, "file-invalid", "is not valid JSON: %v", invalid)
		return nil, &d
	}
	p := jsonParser{data: data, dec: json.NewDecoder(bytes.NewReader(data)), line: 1, col: 1}
	p.dec.UseNumber()
	root := p.value(0)
	if p.tooDeep != nil {
		d := diag.Errorf(diag.Pos{File: name, Line: p.tooDeep.Line, Col: p.tooDeep.Column},
			"file-invalid", "is nested deeper than %d levels", maxDepth)
		return nil, &d
	}
	return &yaml.Node{Kind: yaml.DocumentNode, Line: root.Line, Column: root.Column, Content: []*yaml.Node{root}}, nil
}

type jsonParser struct {
	data      []byte
	dec       *json.Decoder
	off       int // of line and col in data
	line, col int
	tooDeep   *yaml.Node
}

// value reads the next value, or the end of the one around it, for which it
// returns nil. The input is known to be valid.
func (p *jsonParser) value(depth int) *yaml.Node {
	start := int(p.dec.InputOffset())
	token, err := p.dec.Token()
	if err != nil {
		return nil
	}
	for strings.IndexByte(" \t\r\n,:", p.data[start]) >= 0 {
		start++
	}
	p.advance(start)
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: p.line, Column: p.col}
	switch token := token.(type) {
	case json.Delim:
		switch token {
		case '{':
			n.Kind, n.Tag = yaml.MappingNode, "!!map"
		case '[':
			n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
		default:
			return nil
		}
		if depth > maxDepth {
			p.tooDeep = n
			return n
		}
		for p.tooDeep == nil {
			child := p.value(depth + 1)
			if child == nil {
				break
			}
			n.Content = append(n.Content, child)
		}
	case string:
		n.Tag, n.Value, n.Style = "!!str", token, yaml.DoubleQuotedStyle
	case json.Number:
		n.Value = token.String()
		n.Tag = "!!int"
		if strings.ContainsAny(n.Value, ".eE") {
			n.Tag = "!!float"
		}
	case bool:
		n.Tag, n.Value = "!!bool", "false"
		if token {
			n.Value = "true"
		}
	default:
		n.Tag, n.Value = "!!null", "null"
	}
	return n
}

// advance moves line and col to the offset.
func (p *jsonParser) advance(to int) {
	for p.off < to {
		r, size := utf8.DecodeRune(p.data[p.off:])
		p.off += size
		if r == '\n' {
			p.line, p.col = p.line+1, 1
		} else {
			p.col++
		}
	}
}
