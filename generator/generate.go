// Package generator makes the Go code of idempotent operations from an OpenAPI
// document and what oapi-codegen has generated from it. It is the library
// behind the idemgen command.
//
// [LoadConfig] and [Generate] change nothing on disk; [Result.Check] compares
// what was generated with what is there, and [Result.Write] writes it.
package generator

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/idemgen/idemgen/generator/internal/contract"
	"github.com/idemgen/idemgen/generator/internal/diag"
	"github.com/idemgen/idemgen/generator/internal/gosource"
	"github.com/idemgen/idemgen/generator/internal/plan"
	"github.com/idemgen/idemgen/generator/internal/render"
	"github.com/idemgen/idemgen/generator/internal/spec"
	"github.com/idemgen/idemgen/templates"
)

// Operation is an operation of the document; its Policy is nil if it is not
// marked.
type Operation = spec.Operation

// Operations returns all operations of the config's document with their
// policies. It needs no generated Go code. Its errors are [Findings].
func Operations(c Config) ([]Operation, error) {
	doc, findings := c.load()
	if findings.HasErrors() {
		return nil, asError(findings)
	}
	return doc.Operations, nil
}

func (c Config) load() (*spec.Document, diag.List) {
	doc, findings := spec.Load(spec.Options{File: c.Spec, Overlay: c.Overlay, Marker: c.Marker, Operations: c.operations})
	return doc, c.unread(findings)
}

// Generate returns the files for the config's document. Nothing on disk is
// changed. The same input gives the same bytes on every machine. Its errors
// are [Findings], all that the run has found, or the context's.
func Generate(ctx context.Context, c Config) (Result, error) {
	if err := c.refuseForeignOutput(); err != nil {
		return Result{}, err
	}
	doc, findings := c.load()
	if findings.HasErrors() {
		return Result{}, asError(findings)
	}
	result := resultOf(doc)
	if result.Protected == 0 {
		findings = append(findings, c.nothingMarked(doc))
	}
	findings = append(findings, c.leftovers()...)
	if c.Contract != "" {
		file, more := contractFile(doc, c.Contract, contract.Document)
		findings = append(findings, more...)
		if more.HasErrors() {
			return Result{}, asError(findings)
		}
		result.Files = append(result.Files, file)
	}
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}

	overlay := map[string][]byte{}
	if c.OapiCodegen != "" {
		file, more := runOapiCodegen(c)
		findings = append(findings, more...)
		if more.HasErrors() {
			return Result{}, asError(findings)
		}
		overlay[filepath.Base(file.Path)] = file.Content
		result.Files = append(result.Files, file)
	}
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}

	pkg, more := gosource.Load(c.Package, overlay)
	findings = append(findings, more...)
	if more.HasErrors() {
		return Result{}, asError(findings)
	}
	planned, more := plan.New(doc, pkg)
	findings = append(findings, more...)
	if findings.HasErrors() {
		return Result{}, asError(findings)
	}
	content, err := render.File(planned)
	if err != nil {
		return Result{}, err
	}
	result.Files = append(result.Files, File{Path: c.Output, Content: content, ours: templates.Written})
	result.methods = make(map[string]string, len(planned.Operations))
	for _, op := range planned.All() {
		result.methods[op.ID()] = op.Method()
	}
	result.Warnings = Findings(findings.Sorted())
	return result, nil
}

// resultOf is a result without files.
func resultOf(doc *spec.Document) Result {
	result := Result{Operations: len(doc.Operations), document: doc.Operations}
	for i := range doc.Operations {
		if doc.Operations[i].Policy != nil {
			result.Protected++
		}
	}
	return result
}

func (c Config) nothingMarked(doc *spec.Document) Diagnostic {
	return diag.Errorf(doc.Pos, "nothing-marked",
		"no operation is marked; write %s: true on one, or name it under operations in %s", c.Marker, diag.FileName(c.File))
}

// refuseForeignOutput returns findings if there are output files that idemgen
// did not write. It comes first: what such a Go file declares is a part of the
// package, and would collide with all that is generated.
func (c Config) refuseForeignOutput() error {
	findings := c.foreign(c.Output, "output", templates.Written)
	if c.Contract != "" {
		findings = append(findings, c.foreign(c.Contract, "contract", contract.Written)...)
	}
	return asError(findings)
}

func (c Config) foreign(path, setting string, ours func([]byte) bool) diag.List {
	pos := diag.Pos{File: diag.FileName(path)}
	src, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && ours(src):
		return nil
	case err != nil:
		return diag.List{diag.Errorf(pos, diag.Unreadable, "cannot be read: %v", diag.Reason(err))}
	}
	return diag.List{diag.Errorf(pos, "foreign-file",
		"was not written by idemgen and is not replaced; rename it, or write another %s name in %s", setting, diag.FileName(c.File))}
}

// leftovers finds files of idemgen in the package that this config does not
// write: the package would hold everything twice, or code that nothing keeps
// fresh.
func (c Config) leftovers() diag.List {
	entries, err := os.ReadDir(c.Package)
	if err != nil {
		return nil // reported by the reader of the Go package
	}
	var findings diag.List
	for _, e := range entries {
		path := filepath.Join(c.Package, e.Name())
		if e.IsDir() || !strings.HasSuffix(e.Name(), ".go") || path == c.Output {
			continue
		}
		if src, err := os.ReadFile(path); err == nil && templates.Written(src) {
			findings = append(findings, diag.Errorf(diag.Pos{File: diag.FileName(path)}, "leftover",
				"was written by idemgen for another config or output name, and a package holds one such file, since two outputs of oapi-codegen declare the same names; delete it if it is left over, or give each document a package of its own"))
		}
	}
	return findings
}
