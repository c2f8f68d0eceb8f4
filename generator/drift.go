package generator

import (
	"fmt"

	"github.com/idemgen/idemgen/generator/internal/diag"
	"github.com/idemgen/idemgen/generator/internal/drift"
	"github.com/idemgen/idemgen/generator/internal/spec"
	"github.com/idemgen/idemgen/generator/internal/tree"
	"github.com/idemgen/idemgen/templates"
)

// Drift says what a stale file means: how what idemgen's file on disk does
// differs from what the document says now. A finding that is no warning is one
// that a client or a live key notices. A file that is missing or fresh says
// nothing.
func (c Change) Drift(r Result) Findings {
	if c.State != Stale || !templates.Written(c.onDisk) {
		return nil
	}
	old, err := drift.Read(c.File.Name(), c.onDisk)
	if err != nil {
		return Findings{diag.Warningf(diag.Pos{File: c.File.Name()}, "drift-unknown",
			"what has changed for clients and live keys is not known, since this file cannot be read (%s); compare with the document of its time, with -against", diag.OneLine(err))}
	}
	existed := func(op *spec.Operation) bool { return old.Methods[r.methods[op.ID()]] }
	return Findings(drift.Compare(old.Operations, r.document, existed).Sorted())
}

// Compare says what has changed for clients and live keys from an older
// document, or from that of an older config file, to the config's own. It needs
// no generated Go code, and its Result has no files. What nobody notices is
// among the Result's warnings; where somebody does, all of it is the error, of
// type [Findings]. Another error says that the two cannot be compared.
func Compare(c Config, older string) (Result, error) {
	before, err := c.olderOperations(older)
	if err != nil {
		return Result{}, err
	}
	doc, findings := c.load()
	if findings.HasErrors() {
		return Result{}, asError(findings)
	}
	result := resultOf(doc)
	changes := drift.Compare(before, doc.Operations, drift.Unmarked(before))
	result.Warnings = Findings(changes.Sorted())
	return result, asError(changes)
}

// olderOperations reads a document or a config.
func (c Config) olderOperations(older string) ([]Operation, error) {
	file, findings := tree.Read(older)
	if findings.HasErrors() {
		return nil, asError(findings)
	}
	if root := file.Root(); !root.Get("openapi").Exists() && root.Get("spec").Exists() {
		config, err := LoadConfig(older)
		if err != nil {
			return nil, err
		}
		return Operations(config)
	}
	if c.Overlay != "" || len(c.operations.Fields()) > 0 {
		return nil, fmt.Errorf("%s marks operations in an overlay or under operations, which the document %s does not have; compare with the config of that time, in a checkout of it",
			diag.FileName(c.File), diag.FileName(older))
	}
	doc, findings := spec.Load(spec.Options{File: older, Marker: c.Marker})
	if findings.HasErrors() {
		return nil, asError(findings)
	}
	return doc.Operations, nil
}
