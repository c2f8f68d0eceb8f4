// Package tree reads YAML and JSON files as trees in which every value knows
// where it stands. Files are taken as hostile: aliases, nesting and size are
// bounded, and what two readers could understand differently is an error.
package tree

import (
	"iter"
	"slices"
	"strconv"

	"gopkg.in/yaml.v3"

	"github.com/idemgen/idemgen/generator/internal/diag"
)

// File is one file as a tree.
type File struct {
	// Path is where the file lies on disk.
	Path string
	// Name is the path as findings show it.
	Name string
	doc  *yaml.Node
	// moved are the nodes that an overlay brought in or copied.
	moved map[*yaml.Node]diag.Pos
}

// Root is the file's top value.
func (f *File) Root() Value { return Value{f, f.doc.Content[0]} }

// Value is one value of a file. The zero Value is an absent one: it has no
// fields, no items and no text.
type Value struct {
	file *File
	node *yaml.Node
}

// Field is one member of a mapping.
type Field struct {
	Key   Value
	Name  string // the key's text
	Value Value
}

// File is the file that holds the value; for a value that an overlay brought
// in, the file it was laid over.
func (v Value) File() *File { return v.file }

// Pos is where the value stands.
func (v Value) Pos() diag.Pos {
	if v.node == nil {
		return diag.Pos{}
	}
	if pos, ok := v.file.moved[v.node]; ok {
		return pos
	}
	return diag.Pos{File: v.file.Name, Line: v.node.Line, Col: v.node.Column}
}

// Exists reports whether the value is there at all; null is.
func (v Value) Exists() bool { return v.node != nil }

// IsNull reports whether the value is there, and null.
func (v Value) IsNull() bool { return v.scalar("!!null") }

// IsMap reports whether the value is a mapping.
func (v Value) IsMap() bool { return v.node != nil && v.node.Kind == yaml.MappingNode }

// IsList reports whether the value is a sequence.
func (v Value) IsList() bool { return v.node != nil && v.node.Kind == yaml.SequenceNode }

// Fields returns the members of a mapping in their order.
func (v Value) Fields() []Field {
	if !v.IsMap() {
		return nil
	}
	fields := make([]Field, 0, len(v.node.Content)/2)
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		key := Value{v.file, v.node.Content[i]}
		fields = append(fields, Field{key, key.node.Value, Value{v.file, v.node.Content[i+1]}})
	}
	return fields
}

// Field returns the member with this name; its Value is absent if there is none.
func (v Value) Field(name string) Field {
	if v.IsMap() {
		for i := 0; i+1 < len(v.node.Content); i += 2 {
			if v.node.Content[i].Value == name {
				return Field{Value{v.file, v.node.Content[i]}, name, Value{v.file, v.node.Content[i+1]}}
			}
		}
	}
	return Field{Name: name}
}

// Get returns the value at the end of a path of names, absent if one is missing.
func (v Value) Get(names ...string) Value {
	for _, name := range names {
		v = v.Field(name).Value
	}
	return v
}

// Items returns the items of a sequence.
func (v Value) Items() []Value {
	if !v.IsList() {
		return nil
	}
	items := make([]Value, len(v.node.Content))
	for i, n := range v.node.Content {
		items[i] = Value{v.file, n}
	}
	return items
}

// All returns the value and all that it holds, from the outside inwards.
func (v Value) All() iter.Seq[Value] {
	return func(yield func(Value) bool) { v.all(yield) }
}

func (v Value) all(yield func(Value) bool) bool {
	if !v.Exists() {
		return true
	}
	if !yield(v) {
		return false
	}
	for _, f := range v.Fields() {
		if !f.Value.all(yield) {
			return false
		}
	}
	for _, item := range v.Items() {
		if !item.all(yield) {
			return false
		}
	}
	return true
}

// Without returns the value without members of these names, its own and those
// of all that it holds.
func (v Value) Without(names ...string) Value {
	if !v.Exists() {
		return v
	}
	n := *v.node
	n.Content = nil
	for _, f := range v.Fields() {
		if !slices.Contains(names, f.Name) {
			n.Content = append(n.Content, f.Key.node, f.Value.Without(names...).node)
		}
	}
	for _, item := range v.Items() {
		n.Content = append(n.Content, item.Without(names...).node)
	}
	return Value{v.file, &n}
}

// Str returns the value of a string.
func (v Value) Str() (string, bool) {
	if v.scalar("!!str") {
		return v.node.Value, true
	}
	return "", false
}

// Bool returns the value of true or false; other spellings are no booleans.
func (v Value) Bool() (value, ok bool) {
	if !v.scalar("!!bool") {
		return false, false
	}
	switch v.node.Value {
	case "true", "True", "TRUE":
		return true, true
	case "false", "False", "FALSE":
		return false, true
	default:
		return false, false
	}
}

// Int returns the value of a decimal integer. With a sign or zeros before it,
// it is none: 010 is 8 for some readers.
func (v Value) Int() (int, bool) {
	if !v.scalar("!!int") {
		return 0, false
	}
	n, err := strconv.Atoi(v.node.Value)
	return n, err == nil && strconv.Itoa(n) == v.node.Value
}

// Text returns a scalar as it is written, whatever its type.
func (v Value) Text() string {
	if v.node == nil || v.node.Kind != yaml.ScalarNode {
		return ""
	}
	return v.node.Value
}

// MarshalYAML makes the value a part of what is marshalled.
func (v Value) MarshalYAML() (any, error) { return v.node, nil }

// Kind names the value's type as a person would: "a string", "null".
func (v Value) Kind() string {
	switch {
	case v.node == nil:
		return "nothing"
	case v.IsMap():
		return "an object"
	case v.IsList():
		return "a list"
	}
	switch v.node.ShortTag() {
	case "!!null":
		return "null"
	case "!!bool":
		return "a boolean"
	case "!!int", "!!float":
		return "a number"
	case "!!timestamp":
		return "a date"
	case "!!binary":
		return "binary data"
	default:
		return "a string"
	}
}

// Is reports whether both are the same value at the same place.
func (v Value) Is(w Value) bool { return v.node == w.node }

func (v Value) scalar(tag string) bool {
	return v.node != nil && v.node.Kind == yaml.ScalarNode && v.node.ShortTag() == tag
}

// Quote shows text of a file in a message: on one line and in bounds.
func Quote(s string) string {
	const most = 80
	if runes := []rune(s); len(runes) > most {
		s = string(runes[:most]) + "…"
	}
	return strconv.Quote(s)
}
