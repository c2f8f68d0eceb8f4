package tree

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// valid reads text that must be valid.
func valid(t *testing.T, name, text string) Value {
	t.Helper()
	file, findings := Parse(name, []byte(text))
	if len(findings) > 0 {
		t.Fatalf("%v", findings)
	}
	return file.Root()
}

// Columns count characters, in YAML and in JSON.
func TestPositions(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a.yaml": "ä: {b: [1, {c: x}]}\n",
		"b.yaml": "ä: {b: [1, {c: x}]}\r\n",
		"c.yaml": "\ufeffä: {b: [1, {c: x}]}\n",
		"e.yaml": "x: \"\u2028y\u0085\u2029\" # \u2028\r\nä: {b: [1, {c: x}]}\n",
		"f.yaml": "x: \"\u2028\"\rä: {b: [1, {c: x}]}\r",
		"d.json": "{\n\"ä\":{ \"b\"  :\t[1 , {\"c\":\"x\"}]}}",
	} {
		v := valid(t, name, text).Get("ä", "b").Items()[1].Get("c")
		want := name + ":1:16"
		switch name {
		case "d.json":
			want = name + ":2:24"
		case "e.yaml", "f.yaml": // where the ends of lines are those of an editor
			want = name + ":2:16"
		}
		if got := v.Pos().String(); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

func TestTypes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"true": "a boolean", "yes": "a string", "on": "a string", `"true"`: "a string", "null": "null", "~": "null", "": "null",
		"1": "a number", "1.5": "a number", "0x10": "a number", "2020-01-01": "a date", "[]": "a list", "{}": "an object",
	} {
		v := valid(t, "a.yaml", "x: "+text+"\n").Get("x")
		if got := v.Kind(); got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
		if _, ok := v.Bool(); ok != (want == "a boolean") {
			t.Errorf("%q: Bool is %v", text, ok)
		}
	}
	for _, text := range []string{"010", "+10", "0x10", "1_0", "1.0"} {
		if n, ok := valid(t, "a.yaml", "x: "+text+"\n").Get("x").Int(); ok {
			t.Errorf("Int of %s: %d", text, n)
		}
	}
	if n, ok := valid(t, "a.json", `{"x": 36}`).Get("x").Int(); n != 36 || !ok {
		t.Errorf("Int of 36: %d %v", n, ok)
	}
	if s, _ := valid(t, "a.json", `{"x": "\ud83d\ude00\/"}`).Get("x").Str(); s != "😀/" {
		t.Errorf("escapes of JSON: %q", s)
	}
}

// Aliases and merge keys are gone after reading; what they brought in stands
// where its text does.
func TestAliases(t *testing.T) {
	t.Parallel()
	root := valid(t, "a.yaml", `base: &base
  a: 1
  b: 2
more: &more {c: 3}
one:
  <<: *base
  b: 4
two:
  <<: [*base, *more]
three: *base
`)
	for path, want := range map[string]string{
		"one a": "a.yaml:2:6", "one b": "a.yaml:7:6", "two c": "a.yaml:4:17", "three b": "a.yaml:3:6",
	} {
		if got := root.Get(strings.Fields(path)...).Pos().String(); got != want {
			t.Errorf("%s is at %s, want %s", path, got, want)
		}
	}
	if n := len(root.Get("one").Fields()); n != 2 {
		t.Errorf("one has %d members, want 2", n)
	}
}

// What is written is what was read, with its comments, after an overlay too.
func TestEncode(t *testing.T) {
	t.Parallel()
	const text = `# A licence.

# The document.
a: &a # an anchor
  b: "1" # text
  c: 0x10
d: *a
e: {<<: *a, f: 010, g: ~, h: 2020-01-01, i: 1.50, j: yes}
# Folded.
k: >
  one
  two

    three

  four
l: |-
  # no comment

  last
"on": 'it''s'
m: [9007199254740993, "\u00e9\t", true]
`
	file, findings := Parse("a.yaml", []byte(text))
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	over, findings := Parse("o.yaml", []byte("overlay: 1.0.0\ninfo: {title: O, version: \"1\"}\nactions: [{target: $.a, update: {n: 1}}]\n"))
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	if findings := file.Apply(over, true); len(findings) > 0 {
		t.Fatal(findings)
	}
	for what, encode := range map[string]func() ([]byte, error){"YAML": file.YAML, "JSON": file.JSON} {
		content, err := encode()
		if err != nil {
			t.Fatal(err)
		}
		again := valid(t, "again", string(content))
		if what == "YAML" && !again.Equal(file.Root()) {
			t.Errorf("YAML says something else:\n%s", content)
		}
		for _, comment := range []string{"# A licence.\n", "# The document.\n", " # an anchor\n", " # text\n", "# Folded.\n"} {
			if what == "YAML" && !strings.Contains(string(content), comment) {
				t.Errorf("no comment %q in:\n%s", comment, content)
			}
		}
		for path, want := range map[string]string{"a b": "1", "d b": "1", "a n": "1", "k": "one two\n\n  three\n\nfour\n", "l": "# no comment\n\nlast", "on": "it's", "e h": "2020-01-01"} {
			if got := again.Get(strings.Fields(path)...).Text(); got != want {
				t.Errorf("%s: %s is %q, want %q", what, path, got, want)
			}
		}
		if got := again.Get("m").Items()[0].Text(); got != "9007199254740993" {
			t.Errorf("%s: a large number is %s", what, got)
		}
	}
	content, _ := file.JSON()
	json := valid(t, "a.json", string(content))
	for path, want := range map[string]string{"a c": "16", "e f": "8", "e g": "null", "e i": "1.50", "e j": "yes"} {
		if got := json.Get(strings.Fields(path)...).Text(); got != want {
			t.Errorf("JSON: %s is %s, want %s", path, got, want)
		}
	}
	file, _ = Parse("a.yaml", []byte("a: [1, .inf]\n"))
	if _, err := file.JSON(); err == nil || !strings.Contains(err.Error(), "a.yaml:1:8: JSON has no number .inf") {
		t.Errorf("infinity: %v", err)
	}
}

// Text that the YAML library would write with other line breaks, or as another
// value, is written as what it is.
func TestEncodeStyles(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"a: |\n\n  first line is empty\n", "a: >-\n  folded\n\n    indented\n", "a: \"\\n \\t\\u2028\\u0085\"\n", "# head\na: # line\n  - b # item\n# foot\n",
		"a: |\n  \u2028\n", "a: >\n  x\u0085  y\n", `{"a": "\ud83d\ude00\n", "b": [1e9, -0, null]}`, "a: &a {b: ~}\nc: *a\nd: {<<: *a}\n", "? a\n: !!str 1\n", "{a, b: , c: [~]}\n", "a:\n",
	} {
		file, findings := Parse("a.yaml", []byte(text))
		if findings.HasErrors() {
			t.Fatal(findings)
		}
		content, err := file.YAML()
		if err != nil {
			t.Fatal(err)
		}
		if again, findings := Parse("b.yaml", content); findings.HasErrors() || !again.Root().Equal(file.Root()) {
			t.Errorf("%q is written as %q: %v", text, content, findings)
		}
	}
}

func TestEqual(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{"{a: 1, b: [x]}", "b: ['x'] # comment\na: 1\n", true},
		{"{a: 1}", "{a: '1'}", false},
		{"{a: 1}", "{a: 1, b: 2}", false},
		{"{a: 1}", "{b: 1}", false},
		{"{a: null}", "{b: null}", false},
		{"[1, 2]", "[2, 1]", false},
		{"[1]", "[1, 2]", false},
		{"{}", "[]", false},
		{"{}", "x", false},
	} {
		if got := valid(t, "a", test.a).Equal(valid(t, "b", test.b)); got != test.want {
			t.Errorf("%s and %s: %v, want %v", test.a, test.b, got, test.want)
		}
	}
}

// Hostile files are refused in bounded time.
//
// Covers GEN-18.
func TestHostile(t *testing.T) {
	t.Parallel()
	bomb := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'n'; c++ {
		p := string(c - 1)
		bomb += string(c) + ": &" + string(c) + " [" + strings.TrimSuffix(strings.Repeat("*"+p+",", 10), ",") + "]\n"
	}
	for name, text := range map[string]string{
		"bomb":         bomb,
		"cycle":        "a: &a [*a]\n",
		"merge cycle":  "a: &a\n  <<: *a\n",
		"deep flow":    strings.Repeat("[", 100_000),
		"deep block":   "a:\n" + strings.Repeat("- ", 5_000) + "x\n",
		"deep json":    `{"a":` + strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000) + "}",
		"object key":   "{a: 1}: 2\n",
		"merge scalar": "<<: 1\n",
		"NUL":          "a: \x00\n",
		"no alias":     "a: *missing\n",
		"binary key":   "!!binary eC1pZGVtcG90ZW50: true\n",
		"two merges":   "a: {<<: {b: 1}, <<: {c: 1}}\n",
		"broken end":   "a: 1\n---\n[\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			if _, findings := Parse("a.yaml", []byte(text)); !findings.HasErrors() {
				t.Error("no error")
			}
			// A bound that only a blow-up in size can pass.
			if took := time.Since(start); took > time.Minute {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestReadRefusesWhatIsNoFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Join(dir, "missing.yaml"), os.DevNull} {
		if _, findings := Read(path); len(findings) != 1 || findings[0].Code != "file-unreadable" {
			t.Errorf("%s: %v", path, findings)
		}
	}
}

// Values keep the place where their text stands: in the document, or in the
// overlay, also where the overlay replaces a part of a value.
func TestOverlayPositions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	overlay := filepath.Join(dir, "o.yaml")
	text := `overlay: 1.0.0
info: {title: O, version: "1"}
actions:
  - target: $.a
    update:
      new: {x: 1}
      old: changed
      list: [2]
  - target: $.gone
    remove: true
  - target: $.a
    update: {base: {}}
  - target: $.s[*]
    update: {mark: true, shared: 2}
`
	if err := os.WriteFile(overlay, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	file, findings := Parse(filepath.Join(dir, "s.yaml"), []byte("a:\n  old: {deep: 1}\n  base: &b {y: 1}\n  same: *b\n  list: [1]\ngone: 1\ns: [{shared: s}, {shared: s}]\n"))
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	if findings := file.Overlay(overlay, true); len(findings) > 0 {
		t.Fatal(findings)
	}
	root := file.Root()
	if root.Get("gone").Exists() {
		t.Error("the removed member is still there")
	}
	for path, want := range map[string]string{
		"a new x": "o.yaml:6:16", "a old": "o.yaml:7:12", "a base y": "s.yaml:3:16", "a same y": "s.yaml:3:16", "a": "s.yaml:2:3",
	} {
		pos := root.Get(strings.Fields(path)...).Pos()
		pos.File = filepath.Base(pos.File)
		if got := pos.String(); got != want {
			t.Errorf("%s is at %s, want %s", path, got, want)
		}
	}
	if items := root.Get("a", "list").Items(); len(items) != 2 || filepath.Base(items[1].Pos().File) != "o.yaml" || items[1].Pos().Line != 8 {
		t.Errorf("list: %v", items)
	}
	for i, item := range root.Get("s").Items() {
		if pos := item.Field("mark").Key.Pos(); pos.Line != 14 {
			t.Errorf("the key that the overlay brought to item %d is at %v", i, pos)
		}
		if n, ok := item.Get("shared").Int(); n != 2 || !ok {
			t.Errorf("what the overlay replaced in item %d is %s", i, item.Get("shared").Kind())
		}
	}
	if pos := root.Get("a").Field("new").Key.Pos(); filepath.Base(pos.File) != "o.yaml" || pos.Line != 6 {
		t.Errorf("the key that the overlay brought is at %v", pos)
	}
}

// Reading never panics, and what it accepts has positions inside the file.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"a: &a [1, *a]\n", "<<: {a: 1}\na: 2\n", `{"a": [1, "\u0041", null, true, 1e9]}`, "? [a]\n: b\n", "a: !!binary aGk=\n", "\ufeff{}", "--- a\n--- b\n", "%YAML 1.1\n---\na: yes\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		file, findings := Parse("a.yaml", []byte(text))
		if findings.HasErrors() {
			return
		}
		lines := strings.Count(text, "\n") + strings.Count(text, "\r") + strings.Count(text, "\u2028") + strings.Count(text, "\u2029") + strings.Count(text, "\u0085") + 2 // an absent value can stand behind the end
		var walk func(Value)
		walk = func(v Value) {
			if pos := v.Pos(); pos.Line < 1 || pos.Line > lines || pos.Col < 1 {
				t.Errorf("%s at %v of %d lines", v.Kind(), pos, lines)
			}
			for _, item := range v.Items() {
				walk(item)
			}
			for _, f := range v.Fields() {
				walk(f.Key)
				walk(f.Value)
			}
		}
		walk(file.Root())
	})
}

// Applying an overlay never panics, whatever its targets are.
func FuzzOverlay(f *testing.F) {
	for _, target := range []string{
		"$", "$.a", "$..b", "$.a[0]", "$.a[-1:]", "$['a'].*", "$.a[?(@.b == 'x')]", "$.a[?@.b]", "$.c~", "@", "$.a[(@.length-1)]", "$.a[", "", "$.c.d.e",
	} {
		f.Add(target, "{x: 1}")
	}
	f.Add("$.a", "[1]")
	f.Add("$.c", "text")
	f.Fuzz(func(t *testing.T, target, update string) {
		overlay := "overlay: 1.0.0\ninfo: {title: O, version: \"1\"}\nactions:\n  - target: " + Quote(target) + "\n    update: " + update + "\n"
		path := filepath.Join(t.TempDir(), "o.yaml")
		if err := os.WriteFile(path, []byte(overlay), 0o600); err != nil {
			t.Fatal(err)
		}
		file, findings := Parse("a.yaml", []byte("a: [{b: x}, {b: y}]\nc: {d: {e: 1}}\n"))
		if len(findings) > 0 {
			t.Fatal(findings)
		}
		for _, d := range file.Overlay(path, true) {
			if d.Line == 0 && d.Code == "overlay-invalid" {
				t.Errorf("no position: %v", d)
			}
		}
	})
}
