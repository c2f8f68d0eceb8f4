package generator

import (
	"net/url"
	"path/filepath"
	"strings"

	"github.com/idemgen/idemgen/generator/internal/contract"
	"github.com/idemgen/idemgen/generator/internal/diag"
	"github.com/idemgen/idemgen/generator/internal/spec"
	"github.com/idemgen/idemgen/generator/internal/tree"
)

// Contract returns the config's document with what clients need to know of
// keys: the header, the answers that refuse a request, the headers of a replay
// and the retention. It is one file for the path, in JSON if that ends in
// .json, otherwise YAML; without a path it has the document's own format. No
// generated Go code is needed. Its errors are [Findings].
func Contract(c Config, path string) (Result, error) {
	return c.contract(path, contract.Document)
}

// ContractOverlay returns what [Contract] adds as an OpenAPI Overlay 1.0. It
// is made for the document with the config's own overlay applied, if there is
// one.
func ContractOverlay(c Config, path string) (Result, error) {
	return c.contract(path, contract.Overlay)
}

func (c Config) contract(path string, build func(*spec.Document) (*tree.File, diag.List)) (Result, error) {
	doc, findings := c.load()
	if findings.HasErrors() {
		return Result{}, asError(findings)
	}
	result := resultOf(doc)
	if result.Protected == 0 {
		return Result{}, asError(append(findings, c.nothingMarked(doc)))
	}
	file, more := contractFile(doc, path, build)
	findings = append(findings, more...)
	if more.HasErrors() {
		return Result{}, asError(findings)
	}
	result.Files = []File{file}
	result.Warnings = Findings(findings.Sorted())
	return result, nil
}

// contractFile encodes what is made of doc, which serves no more.
func contractFile(doc *spec.Document, path string, build func(*spec.Document) (*tree.File, diag.List)) (File, diag.List) {
	source := doc.File().Path
	if path == "" {
		path = source
	}
	made, findings := build(doc)
	if findings.HasErrors() {
		return File{}, findings
	}
	if realPath(filepath.Dir(path)) != realPath(filepath.Dir(source)) {
		if findings := relativeRefs(made.Root()); findings.HasErrors() {
			return File{}, findings
		}
	}
	content, findings := contract.Encode(made, contract.IsJSON(path))
	return File{Path: path, Content: content, ours: contract.Written}, findings
}

// relativeRefs finds every $ref that leads elsewhere from another directory.
func relativeRefs(root tree.Value) diag.List {
	var findings diag.List
	for v := range root.All() {
		ref, ok := v.Get("$ref").Str()
		if !ok || strings.HasPrefix(ref, "#") {
			continue
		}
		if u, err := url.Parse(ref); err == nil && !u.IsAbs() && !strings.HasPrefix(u.Path, "/") {
			findings = append(findings, diag.Errorf(v.Get("$ref").Pos(), "contract",
				"the $ref %s leads elsewhere from the contract's directory; write the contract beside the document", tree.Quote(ref)))
		}
	}
	return findings
}
