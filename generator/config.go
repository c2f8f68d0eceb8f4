package generator

import (
	"go/build"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/idemgen/idemgen/generator/internal/diag"
	"github.com/idemgen/idemgen/generator/internal/spec"
	"github.com/idemgen/idemgen/generator/internal/tree"
)

// Config is a valid config file. [LoadConfig] makes one.
type Config struct {
	// File is the path of the config file itself.
	File string
	// Spec is the path of the OpenAPI document.
	Spec string
	// Overlay is the path of an OpenAPI Overlay for it, or "".
	Overlay string
	// Package is the directory of the Go package that holds oapi-codegen's
	// output and gets idemgen's. Default: the config file's directory.
	Package string
	// Output is the path of the file to generate, in that directory. Default:
	// idempotent.gen.go.
	Output string
	// OapiCodegen is the path of the config with which the built-in
	// oapi-codegen runs first, or "".
	OapiCodegen string
	// Command is the user's own command that writes oapi-codegen's output, or
	// nil. [Config.RunCommand] runs it.
	Command []string
	// Contract is the path of the document to write with all that clients need
	// to know of keys, or "". It is JSON if it is named so, otherwise YAML.
	Contract string
	// Marker is the extension that marks an operation. Default: x-idempotent.
	Marker string

	operations tree.Value          // markers by operation
	oapiPos    diag.Pos            // of the value of oapi-codegen
	named      map[string]diag.Pos // where the config names a file, by its name in findings
}

// unread puts the findings of files that cannot be read where the config names
// them.
func (c Config) unread(findings diag.List) diag.List {
	for i, d := range findings {
		if pos, ok := c.named[d.File]; ok && d.Code == diag.Unreadable && d.Line == 0 {
			findings[i] = diag.Errorf(pos, diag.Unreadable, "%s %s; the path is relative to the config", d.File, d.Message)
		}
	}
	return findings
}

// defaultOutput is the name of the generated file unless the config says
// otherwise.
const defaultOutput = "idempotent.gen.go"

// LoadConfig reads a config file. Paths in it are relative to its directory.
// Every key must be known. A file that cannot be used is an error of type
// [Findings].
func LoadConfig(path string) (Config, error) {
	file, findings := tree.Read(path)
	if findings.HasErrors() {
		return Config{}, asError(findings)
	}
	r := configReader{
		dir:    filepath.Dir(file.Path),
		root:   file.Root(),
		config: Config{File: file.Path, Marker: spec.DefaultMarker, named: map[string]diag.Pos{}},
	}
	r.read()
	return r.config, asError(r.findings)
}

type configReader struct {
	dir      string
	root     tree.Value
	config   Config
	findings diag.List
}

func (r *configReader) errorf(pos diag.Pos, code, format string, args ...any) {
	r.findings = append(r.findings, diag.Errorf(pos, code, format, args...))
}

func (r *configReader) read() {
	c := &r.config
	output := defaultOutput
	var packagePos, outputPos, contractPos diag.Pos
	r.findings = append(r.findings, tree.Members(r.root, "the config",
		tree.Member{Name: "spec", Read: func(f tree.Field) { c.Spec = r.path(f) }},
		tree.Member{Name: "overlay", Read: func(f tree.Field) { c.Overlay = r.path(f) }},
		tree.Member{Name: "package", Read: func(f tree.Field) { c.Package, packagePos = r.path(f), f.Value.Pos() }},
		tree.Member{Name: "output", Read: func(f tree.Field) { output, outputPos = r.text(f), f.Value.Pos() }},
		tree.Member{Name: "oapi-codegen", Read: r.oapiCodegen},
		tree.Member{Name: "contract", Read: func(f tree.Field) { c.Contract, contractPos = r.path(f), f.Value.Pos() }},
		tree.Member{Name: "operations", Read: func(f tree.Field) {
			if !f.Value.IsMap() {
				r.errorf(f.Value.Pos(), "wrong-type", "operations must be an object of markers by operationId or METHOD /path, not %s", f.Value.Kind())
				return
			}
			c.operations = f.Value
		}},
		tree.Member{Name: "marker", Read: func(f tree.Field) {
			c.Marker = r.text(f)
			if c.Marker != "" && !strings.HasPrefix(c.Marker, "x-") {
				r.errorf(f.Value.Pos(), "wrong-value", "marker must be the name of an extension, which begins with x-, not %s", tree.Quote(c.Marker))
			}
		}},
	)...)
	if r.findings.HasErrors() {
		return
	}
	if c.Spec == "" {
		r.errorf(r.root.Pos(), "missing-key", "the config needs spec: the path of the OpenAPI document")
		return
	}
	if c.Package == "" {
		c.Package, packagePos = r.dir, r.root.Pos()
	}
	if outputPos.Line == 0 {
		outputPos = r.root.Pos()
	}
	r.checkPackage(packagePos)
	r.checkOutput(output, outputPos)
	c.Output = filepath.Join(c.Package, output)
	switch {
	case c.Contract == "":
	case !isDataFile(c.Contract):
		r.errorf(contractPos, "wrong-value", "contract must be the name of a .yaml, .yml or .json file")
	case realPath(c.Contract) == realPath(c.Spec):
		r.errorf(contractPos, "wrong-value", "contract must name another file than spec: it is made from that one, which is never written to")
	}
}

// isDataFile reports whether a file with this name is taken for YAML or JSON.
func isDataFile(name string) bool {
	return slices.Contains([]string{".json", ".yaml", ".yml"}, strings.ToLower(filepath.Ext(name)))
}

// text reads a string that is not empty.
func (r *configReader) text(f tree.Field) string {
	s, ok := f.Value.Str()
	if !ok || strings.TrimSpace(s) == "" {
		got := f.Value.Kind()
		if ok {
			got = "an empty one"
		}
		r.errorf(f.Value.Pos(), "wrong-type", "%s must be a string, not %s", f.Name, got)
		return ""
	}
	return s
}

// path reads a path, relative to the config file.
func (r *configReader) path(f tree.Field) string {
	s := r.text(f)
	switch {
	case s == "":
		return ""
	case strings.Contains(s, "://"):
		r.errorf(f.Value.Pos(), "wrong-value", "%s must be the path of a local file, not a URL; download it first", f.Name)
		return ""
	}
	path := under(r.dir, s)
	r.config.named[diag.FileName(path)] = f.Value.Pos()
	return path
}

// under is path if it is absolute, else path in dir. A config that somebody
// wrote on Windows, with backslashes, serves everywhere.
func under(dir, path string) string {
	path = filepath.FromSlash(strings.ReplaceAll(path, `\`, "/"))
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

func (r *configReader) oapiCodegen(f tree.Field) {
	r.config.oapiPos = f.Value.Pos()
	if !f.Value.IsMap() {
		r.config.OapiCodegen = r.path(f)
		if strings.Contains(r.config.OapiCodegen, " ") && !exists(r.config.OapiCodegen) {
			r.errorf(f.Value.Pos(), "wrong-value", "oapi-codegen names a config, and there is no file %s; write a command as {command: [go, tool, oapi-codegen, ...]}", tree.Quote(f.Value.Text()))
		}
		return
	}
	r.findings = append(r.findings, tree.Members(f.Value, "oapi-codegen", tree.Member{Name: "command", Read: func(f tree.Field) {
		for _, item := range f.Value.Items() {
			s, ok := item.Str()
			if !ok {
				r.errorf(item.Pos(), "wrong-type", "a word of the command must be a string, not %s", item.Kind())
				return
			}
			r.config.Command = append(r.config.Command, s)
		}
		if len(r.config.Command) == 0 || r.config.Command[0] == "" {
			r.errorf(f.Value.Pos(), "wrong-type", "command must be a list of words such as [go, tool, oapi-codegen, -config, oapi-codegen.yaml, openapi.yaml]")
		}
	}})...)
	if len(f.Value.Fields()) == 0 {
		r.errorf(f.Value.Pos(), "missing-key", "oapi-codegen must be the path of its config, or {command: [...]}")
	}
}

// checkPackage refuses a directory outside the module that the config is in.
func (r *configReader) checkPackage(pos diag.Pos) {
	root := moduleRoot(r.dir)
	if root == "" {
		r.errorf(diag.Pos{File: diag.FileName(r.config.File)}, "module", "lies in no Go module; run go mod init in the directory that should be its root")
		return
	}
	if moduleRoot(r.config.Package) != root {
		r.errorf(pos, "module", "the package directory %s is outside of the Go module of the config, %s; name a directory in it, or move the config",
			diag.FileName(r.config.Package), diag.FileName(root))
		return
	}
	if info, err := os.Stat(r.config.Package); err != nil || !info.IsDir() {
		r.errorf(pos, "module", "there is no package directory %s; create it", diag.FileName(r.config.Package))
	}
}

func (r *configReader) checkOutput(output string, pos diag.Pos) {
	switch {
	case strings.ContainsAny(output, `/\`):
		r.errorf(pos, "wrong-value", "output must be a file name without directories, such as %s: the file is written to the package directory", defaultOutput)
	case !compiledEverywhere(output):
		r.errorf(pos, "wrong-value", "output must be the name of a Go file that the go command compiles on every system, such as %s", defaultOutput)
	}
}

// compiledEverywhere reports whether the go command compiles a file of this
// name: neither a test nor, like x_windows.go, for one system alone.
func compiledEverywhere(name string) bool {
	anySystem := build.Context{Compiler: "gc", OpenFile: func(string) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader("package p\n")), nil
	}}
	matches, err := anySystem.MatchFile("", name)
	return err == nil && matches && strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
}

// realPath is the absolute path without links, as far as it can be told.
func realPath(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	return path
}

// moduleRoot is the nearest directory at or above dir that holds a go.mod, or
// "". Links are followed first: it is where a file really lies that counts.
func moduleRoot(dir string) string {
	dir = realPath(dir)
	for {
		if info, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil && !info.IsDir() {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}
