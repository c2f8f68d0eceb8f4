package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/idemgen/idemgen/generator"
)

// reporters print an outcome, by the value of -format.
var reporters = map[string]func(*outcome){
	"text":   (*outcome).text,
	"json":   (*outcome).json,
	"github": (*outcome).github,
	"sarif":  (*outcome).sarif,
}

// text prints for people: findings and errors to standard error.
func (o *outcome) text() {
	o.inv.print(o.findings)
	fmt.Fprint(o.inv.stdout, o.diff())
	o.summary()
}

// diff is that of all files, if the run shows one.
func (o *outcome) diff() string {
	if !o.inv.check || o.inv.quiet {
		return ""
	}
	var b strings.Builder
	for _, c := range o.changes {
		b.WriteString(c.Diff)
	}
	return b.String()
}

// summary prints all but findings and diff.
func (o *outcome) summary() {
	if o.err != nil {
		fmt.Fprintln(o.inv.stderr, "idemgen:", o.err)
	}
	if o.inv.quiet || o.failed() {
		return
	}
	if o.inv.against != "" {
		fmt.Fprintf(o.inv.stdout, "no client and no live key notices what has changed since %s\n", o.inv.against)
		return
	}
	for _, note := range o.notes {
		fmt.Fprintln(o.inv.stdout, "note:", note)
	}
	if o.inv.dryRun || o.inv.verbose {
		for _, c := range o.changes {
			fmt.Fprintf(o.inv.stdout, "%s: %s\n", c.File.Name(), o.fate(c))
		}
	}
	last := o.changes[len(o.changes)-1]
	fmt.Fprintf(o.inv.stdout, "%s: %d of %d operations protected\n", last.File.Name(), o.result.Protected, o.result.Operations)
}

// failed reports whether there is an error.
func (o *outcome) failed() bool {
	return o.err != nil || slices.ContainsFunc(o.findings, func(d generator.Diagnostic) bool { return !d.Warning })
}

// fate says what became of a file.
func (o *outcome) fate(c generator.Change) string {
	switch {
	case c.State == generator.Fresh:
		return "up to date"
	case o.inv.dryRun:
		return fmt.Sprintf("%s, would be written", c.State)
	case o.inv.check:
		return string(c.State)
	default:
		return "written"
	}
}

// json prints one object to standard output.
func (o *outcome) json() {
	type finding struct {
		File    string `json:"file"`
		Line    int    `json:"line,omitempty"`
		Col     int    `json:"col,omitempty"`
		Level   string `json:"level"`
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	type file struct {
		Path  string          `json:"path"`
		State generator.State `json:"state"` // on disk, before the run
	}
	document := struct {
		Findings   []finding `json:"findings"`
		Files      []file    `json:"files"`
		Operations int       `json:"operations"`
		Protected  int       `json:"protected"`
		Error      string    `json:"error,omitempty"`
	}{Findings: []finding{}, Files: []file{}, Operations: o.result.Operations, Protected: o.result.Protected}
	for _, d := range o.findings {
		document.Findings = append(document.Findings, finding{d.File, d.Line, d.Col, level(d), d.Code, d.Message})
	}
	for _, c := range o.changes {
		document.Files = append(document.Files, file{c.File.Name(), c.State})
	}
	if o.err != nil {
		document.Error = o.err.Error()
	}
	o.encode(document)
}

func (o *outcome) encode(document any) {
	enc := json.NewEncoder(o.inv.stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(document); err != nil {
		fmt.Fprintln(o.inv.stderr, "idemgen:", err)
	}
}

// github prints findings as workflow commands of GitHub Actions, which show
// them as annotations.
func (o *outcome) github() {
	data := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	for _, d := range o.findings {
		place := "file=" + property.Replace(repositoryPath(d.File))
		if d.Line > 0 {
			place += fmt.Sprintf(",line=%d", d.Line)
		}
		if d.Col > 0 {
			place += fmt.Sprintf(",col=%d", d.Col)
		}
		fmt.Fprintf(o.inv.stdout, "::%s %s,title=%s::%s\n", level(d), place, property.Replace(d.Code), data.Replace(d.Message))
	}
	if diff := o.diff(); diff != "" {
		// A line of a document may have the form of a command. None can hold the
		// hash of what it is a part of.
		token := fmt.Sprintf("%x", sha256.Sum256([]byte(diff)))
		fmt.Fprintf(o.inv.stdout, "::stop-commands::%s\n%s::%s::\n", token, diff, token)
	}
	o.summary()
}

// repositoryPath is the name of a file as annotations need it: relative to the
// root of its git repository, or as it is where there is none.
func repositoryPath(name string) string {
	path, err := filepath.Abs(filepath.FromSlash(name))
	if err != nil {
		return name
	}
	for root := path; root != filepath.Dir(root); root = filepath.Dir(root) {
		if _, err := os.Lstat(filepath.Join(root, ".git")); err != nil {
			continue
		}
		if rel, err := filepath.Rel(root, path); err == nil {
			return filepath.ToSlash(rel)
		}
	}
	return name
}

func level(d generator.Diagnostic) string {
	if d.Warning {
		return "warning"
	}
	return "error"
}
