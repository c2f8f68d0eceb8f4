package tree

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"gopkg.in/yaml.v3"
)

// indent is that of the files written here.
const indent = 2

// YAML returns the file as YAML, with its comments and its order. Aliases and
// merge keys are written out.
func (f *File) YAML() ([]byte, error) {
	var buf bytes.Buffer
	enc := yaml.NewEncoder(&buf)
	enc.SetIndent(indent)
	mendStyles(f.doc, false)
	if err := enc.Encode(f.doc); err != nil {
		return nil, err
	}
	return buf.Bytes(), enc.Close()
}

// mendStyles changes what the library would write as something else: blocks
// that begin with an empty line or hold breaks of YAML 1.1, folded lines that
// are indented, and in flow style a null that is nothing.
func mendStyles(n *yaml.Node, flow bool) {
	const quoted, block = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle, yaml.LiteralStyle | yaml.FoldedStyle
	switch {
	case n.Kind != yaml.ScalarNode || n.Style&quoted != 0:
		flow = flow || n.Style&yaml.FlowStyle != 0
	case flow && n.Value == "" && n.ShortTag() == "!!null":
		n.Value = "null"
	case strings.HasPrefix(n.Value, "\n") || n.Style&block != 0 && strings.ContainsAny(n.Value, yamlBreaks):
		n.Style = yaml.DoubleQuotedStyle
	case n.Style&yaml.FoldedStyle != 0 && (strings.Contains(n.Value, "\n ") || strings.Contains(n.Value, "\n\t")):
		n.Style = yaml.LiteralStyle
	}
	for _, child := range n.Content {
		mendStyles(child, flow)
	}
}

// JSON returns the file as JSON in its order. Its error is about a value that
// JSON does not have, such as .inf.
func (f *File) JSON() ([]byte, error) {
	var flat, buf bytes.Buffer
	if err := f.Root().appendJSON(&flat); err != nil {
		return nil, err
	}
	if err := json.Indent(&buf, flat.Bytes(), "", "  "); err != nil {
		return nil, err
	}
	buf.WriteByte('\n')
	return buf.Bytes(), nil
}

func (v Value) appendJSON(buf *bytes.Buffer) error {
	switch {
	case v.IsMap():
		separator := byte('{')
		for _, f := range v.Fields() {
			buf.WriteByte(separator)
			separator = ','
			if err := appendJSONText(buf, f.Name); err != nil {
				return err
			}
			buf.WriteByte(':')
			if err := f.Value.appendJSON(buf); err != nil {
				return err
			}
		}
		if separator == '{' {
			buf.WriteByte('{')
		}
		buf.WriteByte('}')
		return nil
	case v.IsList():
		buf.WriteByte('[')
		for i, item := range v.Items() {
			if i > 0 {
				buf.WriteByte(',')
			}
			if err := item.appendJSON(buf); err != nil {
				return err
			}
		}
		buf.WriteByte(']')
		return nil
	}
	return v.appendScalar(buf)
}

func (v Value) appendScalar(buf *bytes.Buffer) error {
	switch v.node.ShortTag() {
	case "!!int", "!!float":
		if json.Valid([]byte(v.node.Value)) {
			buf.WriteString(v.node.Value) // with all its digits
			return nil
		}
	case "!!bool", "!!null":
	default:
		return appendJSONText(buf, v.node.Value)
	}
	var decoded any
	if err := v.node.Decode(&decoded); err != nil {
		return fmt.Errorf("%s: %w", v.Pos(), err)
	}
	if n, ok := decoded.(float64); ok && (math.IsInf(n, 0) || math.IsNaN(n)) {
		return fmt.Errorf("%s: JSON has no number %s", v.Pos(), v.node.Value)
	}
	return appendJSONText(buf, decoded)
}

func appendJSONText(buf *bytes.Buffer, v any) error {
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// Equal reports whether both say the same: the same names in whatever order,
// the same lists, and scalars of the same type and text. Comments and style do
// not count.
func (v Value) Equal(w Value) bool {
	switch {
	case v.IsMap() && w.IsMap():
		fields := v.Fields()
		if len(fields) != len(w.Fields()) {
			return false
		}
		for _, f := range fields {
			if other := w.Field(f.Name); !f.Value.Equal(other.Value) {
				return false
			}
		}
		return true
	case v.IsList() && w.IsList():
		items, others := v.Items(), w.Items()
		if len(items) != len(others) {
			return false
		}
		for i := range items {
			if !items[i].Equal(others[i]) {
				return false
			}
		}
		return true
	case v.IsMap() || v.IsList() || w.IsMap() || w.IsList() || !v.Exists() || !w.Exists():
		return !v.Exists() && !w.Exists()
	}
	return v.node.ShortTag() == w.node.ShortTag() && v.node.Value == w.node.Value
}
