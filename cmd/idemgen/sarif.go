package main

import (
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/idemgen/idemgen/generator"
)

const repository = "https://github.com/idemgen/idemgen"

// The parts of SARIF 2.1.0 (OASIS, errata 01) that code scanning shows.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool        sarifTool         `json:"tool"`
		Invocations []sarifInvocation `json:"invocations"`
		ColumnKind  string            `json:"columnKind"`
		Results     []sarifResult     `json:"results"`
	}
	sarifTool struct {
		Driver struct {
			Name           string      `json:"name"`
			Version        string      `json:"version"`
			InformationURI string      `json:"informationUri"`
			Rules          []sarifRule `json:"rules"`
		} `json:"driver"`
	}
	sarifRule struct {
		ID               string    `json:"id"`
		ShortDescription sarifText `json:"shortDescription"`
		FullDescription  sarifText `json:"fullDescription"`
		Help             sarifText `json:"help"`
		HelpURI          string    `json:"helpUri"`
	}
	sarifText struct {
		Text     string `json:"text"`
		Markdown string `json:"markdown,omitempty"`
	}
	sarifInvocation struct {
		ExecutionSuccessful bool                `json:"executionSuccessful"`
		Notifications       []sarifNotification `json:"toolExecutionNotifications,omitempty"`
	}
	sarifNotification struct {
		Level   string    `json:"level"`
		Message sarifText `json:"message"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		RuleIndex int             `json:"ruleIndex"`
		Level     string          `json:"level"`
		Message   sarifText       `json:"message"`
		Locations []sarifLocation `json:"locations"`
	}
	sarifLocation struct {
		PhysicalLocation struct {
			ArtifactLocation sarifArtifact `json:"artifactLocation"`
			Region           sarifRegion   `json:"region"`
		} `json:"physicalLocation"`
	}
	sarifArtifact struct {
		URI       string `json:"uri"`
		URIBaseID string `json:"uriBaseId,omitempty"`
	}
	sarifRegion struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn,omitempty"`
	}
)

// sarif prints a log for code scanning to standard output. An error that is no
// finding goes to standard error too, since a log is read by programs alone.
func (o *outcome) sarif() {
	run := sarifRun{
		Invocations: []sarifInvocation{{ExecutionSuccessful: o.err == nil}},
		ColumnKind:  "unicodeCodePoints",
		Results:     []sarifResult{},
	}
	driver := &run.Tool.Driver
	driver.Name, driver.Version, driver.InformationURI = "idemgen", toolVersion(), repository
	driver.Rules = sarifRules(o.findings)
	if o.err != nil {
		run.Invocations[0].Notifications = []sarifNotification{{"error", sarifText{Text: o.err.Error()}}}
		fmt.Fprintln(o.inv.stderr, "idemgen:", o.err)
	}
	for _, d := range o.findings {
		var at sarifLocation
		at.PhysicalLocation.ArtifactLocation = sarifPlace(d.File)
		// Code scanning wants a line, also for what is wrong with a whole file.
		at.PhysicalLocation.Region = sarifRegion{max(d.Line, 1), d.Col}
		run.Results = append(run.Results, sarifResult{
			RuleID:    d.Code,
			RuleIndex: slices.IndexFunc(driver.Rules, func(r sarifRule) bool { return r.ID == d.Code }),
			Level:     level(d),
			Message:   sarifText{Text: d.Message},
			Locations: []sarifLocation{at},
		})
	}
	o.encode(sarifLog{
		Schema:  "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
		Version: "2.1.0",
		Runs:    []sarifRun{run},
	})
}

// sarifRules describes the codes of the findings, sorted, each once.
func sarifRules(findings generator.Findings) []sarifRule {
	rules := []sarifRule{}
	for _, d := range findings {
		i, found := slices.BinarySearchFunc(rules, d.Code, func(r sarifRule, code string) int { return strings.Compare(r.ID, code) })
		if found {
			continue
		}
		e, _ := generator.Explain(d.Code) // a test sees to it that every code has one
		rules = slices.Insert(rules, i, sarifRule{
			ID:               d.Code,
			ShortDescription: sarifText{Text: e.Title},
			FullDescription:  sarifText{Text: e.Meaning},
			Help:             sarifText{Text: e.Text(), Markdown: e.Markdown()},
			HelpURI:          repository + "/blob/main/docs/diagnostics.md#" + d.Code,
		})
	}
	return rules
}

// sarifPlace names a file by its path from the repository's root, and one that
// is outside of it by its whole path.
func sarifPlace(name string) sarifArtifact {
	path := repositoryPath(name)
	if !filepath.IsAbs(filepath.FromSlash(path)) && !strings.HasPrefix(path, "../") {
		return sarifArtifact{URI: (&url.URL{Path: path}).String(), URIBaseID: "%SRCROOT%"}
	}
	if abs, err := filepath.Abs(filepath.FromSlash(path)); err == nil {
		path = filepath.ToSlash(abs)
	}
	return sarifArtifact{URI: (&url.URL{Scheme: "file", Path: "/" + strings.TrimPrefix(path, "/")}).String()}
}
