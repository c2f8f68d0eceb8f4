package spec

import (
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/idemgen/idemgen/generator/internal/diag"
	"github.com/idemgen/idemgen/generator/internal/tree"
)

// resolver follows $ref, within the document and to local files. It fetches
// nothing from the network.
type resolver struct {
	files map[string]loaded // by path on disk
}

type loaded struct {
	file     *tree.File
	findings diag.List
}

func newResolver(file *tree.File) *resolver {
	return &resolver{files: map[string]loaded{file.Path: {file: file}}}
}

// maxHops bounds a chain of references to references.
const maxHops = 100

// resolve returns v, or what its $ref stands for in the end.
func (r *resolver) resolve(v tree.Value) (tree.Value, *diag.Diagnostic) {
	start := v
	for range maxHops {
		ref := v.Get("$ref")
		if !ref.Exists() {
			return v, nil
		}
		text, ok := ref.Str()
		if !ok {
			return v, refProblem(ref, "a $ref must be a string, not %s", ref.Kind())
		}
		target, problem := r.target(ref, text)
		if problem != nil {
			return v, problem
		}
		if target.Is(start) || target.Is(v) {
			return v, refProblem(start.Get("$ref"), "this $ref leads back to itself")
		}
		v = target
	}
	return v, refProblem(start.Get("$ref"), "this $ref leads in a circle, or through more than %d others", maxHops)
}

func (r *resolver) target(ref tree.Value, text string) (tree.Value, *diag.Diagnostic) {
	place, fragment, _ := strings.Cut(text, "#")
	root := ref.File().Root()
	if strings.Contains(place, `\`) {
		return root, refProblem(ref, "the $ref %s holds a backslash; a $ref is a URL, in which directories end in / on every system", tree.Quote(text))
	}
	if place != "" {
		u, err := url.Parse(place)
		if err != nil || u.Scheme != "" || u.Host != "" {
			return root, refProblem(ref, "the $ref %s leaves this machine; remote documents are not read: put it into a local file", tree.Quote(text))
		}
		path := filepath.Clean(filepath.FromSlash(u.Path))
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(ref.File().Path), path)
		}
		got, ok := r.files[path]
		if !ok {
			got.file, got.findings = tree.Read(path)
			r.files[path] = got
		}
		if got.findings.HasErrors() {
			return root, refProblem(ref, "the $ref %s cannot be followed: %s", tree.Quote(text), got.findings[0])
		}
		root = got.file.Root()
	}
	target := root
	if fragment == "" {
		return target, nil
	}
	if unescaped, err := url.PathUnescape(fragment); err == nil {
		fragment = unescaped
	}
	for token := range strings.SplitSeq(strings.TrimPrefix(fragment, "/"), "/") {
		token = pointerUnescaper.Replace(token)
		if items := target.Items(); items != nil {
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(items) {
				return root, refProblem(ref, "the $ref %s leads nowhere", tree.Quote(text))
			}
			target = items[i]
			continue
		}
		target = target.Get(token)
	}
	if !target.Exists() {
		return root, refProblem(ref, "the $ref %s leads nowhere", tree.Quote(text))
	}
	return target, nil
}

// pointerUnescaper undoes the escapes of a JSON Pointer's token (RFC 6901
// section 4).
var pointerUnescaper = strings.NewReplacer("~1", "/", "~0", "~")

func refProblem(at tree.Value, format string, args ...any) *diag.Diagnostic {
	d := diag.Errorf(at.Pos(), "ref-invalid", format, args...)
	return &d
}

// BrokenRefs finds every $ref in the file that leads nowhere. Only readers of
// the whole document stumble over those that no marked operation reaches. What
// stands in data, such as an example, refers to nothing.
func BrokenRefs(path string) diag.List {
	file, findings := tree.Read(path)
	if findings.HasErrors() {
		return findings
	}
	refs := newResolver(file)
	walkParts(file.Root(), nil, false, func(v tree.Value, _ []string, named bool) bool {
		if _, ok := v.Get("$ref").Str(); !ok || named {
			return true
		}
		if _, problem := refs.resolve(v); problem != nil {
			findings = append(findings, *problem)
		}
		return false
	})
	return findings
}
