package tree

import (
	"fmt"
	"strings"

	"github.com/speakeasy-api/openapi/overlay"
	"gopkg.in/yaml.v3"

	"github.com/idemgen/idemgen/generator/internal/diag"
)

// Overlay applies the OpenAPI Overlay in the file at path to f, in place.
// Every value keeps the position where its text stands: in f's file or in the
// overlay's. When strict, a target that matches nothing is an error.
func (f *File) Overlay(path string, strict bool) diag.List {
	over, findings := Read(path)
	if findings.HasErrors() {
		return findings
	}
	return f.Apply(over, strict)
}

// Apply does what [File.Overlay] does with an overlay that has been read.
// The overlay serves once.
func (f *File) Apply(over *File, strict bool) diag.List {
	root := over.Root()
	if !root.Field("overlay").Value.Exists() {
		return diag.List{diag.Errorf(root.Pos(), "overlay-invalid",
			"is not an OpenAPI Overlay: it does not begin with \"overlay: 1.0.0\"")}
	}
	m := mover{labels: map[string]label{}, texts: map[*yaml.Node]string{}}
	m.label(f, f.doc)
	m.label(over, over.doc)
	var parsed overlay.Overlay
	err := over.doc.Decode(&parsed)
	if err == nil {
		err = parsed.Validate()
	}
	if err != nil {
		return diag.List{diag.Errorf(root.Pos(), "overlay-invalid", "is not a valid OpenAPI Overlay: %s", diag.OneLine(err))}
	}

	for i, item := range root.Get("actions").Items() {
		if findings := checkAction(item, parsed.Actions[i]); len(findings) > 0 {
			return findings
		}
		single := parsed
		single.Actions = parsed.Actions[i : i+1]
		var err error
		if strict {
			_, err = single.ApplyToStrict(f.doc)
		} else {
			err = single.ApplyTo(f.doc)
		}
		if err != nil {
			pos := item.Pos()
			if target := item.Get("target"); target.Exists() {
				pos = target.Pos()
			}
			return diag.List{diag.Errorf(pos, "overlay-invalid", "this action cannot be applied: %s", diag.OneLine(err))}
		}
	}
	f.moved = m.positions(f.doc, root.Get("actions"))
	return nil
}

// checkAction refuses an action that does less than it seems to say.
func checkAction(v Value, action overlay.Action) diag.List {
	var findings diag.List
	for _, f := range v.Fields() {
		if _, unknown := action.Extensions[f.Name]; unknown && !strings.HasPrefix(f.Name, "x-") {
			findings = append(findings, diag.Errorf(f.Key.Pos(), "overlay-invalid",
				"an action has no setting %s; known are target, description, update, remove, copy", Quote(f.Name)))
		}
	}
	if action.Update.IsZero() && !action.Remove && action.Copy == "" && len(findings) == 0 {
		findings = append(findings, diag.Errorf(v.Pos(), "overlay-invalid", "this action does nothing; write update, remove: true or copy"))
	}
	return findings
}

// mover carries positions through the overlay library, whose copies of a
// value keep its comment but not its line.
type mover struct {
	labels map[string]label      // by the comment that stands for it
	texts  map[*yaml.Node]string // of the scalars before the overlay
}

// label is what the library would lose of a value, and the comment whose place
// it takes meanwhile.
type label struct {
	pos     diag.Pos
	comment string
}

func (m *mover) label(f *File, n *yaml.Node) {
	name := fmt.Sprint(len(m.labels))
	m.labels[name] = label{Value{f, n}.Pos(), n.HeadComment}
	n.HeadComment = name
	if n.Kind == yaml.ScalarNode {
		m.texts[n] = n.Value
	}
	for _, child := range n.Content {
		m.label(f, child)
	}
}

// positions returns the position of every value under n, and gives back to
// overwritten values the type that they have in the overlay.
func (m *mover) positions(n *yaml.Node, actions Value) map[*yaml.Node]diag.Pos {
	moved := make(map[*yaml.Node]diag.Pos, len(m.labels))
	written := map[[2]string]Value{} // by key and text, the last in the overlay
	for _, action := range actions.Items() {
		collectScalars(action.Get("update"), "", written)
	}
	var walk func(n *yaml.Node, key string)
	walk = func(n *yaml.Node, key string) {
		// The library lets several objects share the node of a new key.
		if l, ok := m.labels[n.HeadComment]; ok {
			moved[n] = l.pos
			n.HeadComment = l.comment
		}
		// The library writes a new scalar's text into the old one's node.
		if text, ok := m.texts[n]; ok && text != n.Value {
			from, ok := written[[2]string{key, n.Value}]
			if !ok {
				from, ok = written[[2]string{"", n.Value}]
			}
			if ok {
				moved[n], n.Tag, n.Style = from.Pos(), from.node.Tag, from.node.Style
			}
		}
		for i, child := range n.Content {
			childKey := key
			if n.Kind == yaml.MappingNode && i%2 == 1 {
				childKey = n.Content[i-1].Value
			}
			walk(child, childKey)
		}
	}
	walk(n, "")
	return moved
}

func collectScalars(v Value, key string, into map[[2]string]Value) {
	for _, f := range v.Fields() {
		collectScalars(f.Value, f.Name, into)
	}
	for _, item := range v.Items() {
		collectScalars(item, key, into)
	}
	if v.Exists() && !v.IsMap() && !v.IsList() {
		into[[2]string{key, v.Text()}] = v
	}
}
