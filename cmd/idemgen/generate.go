package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"

	"github.com/idemgen/idemgen/generator"
)

func generateFlags(inv *invocation, flags *flag.FlagSet) {
	flags.StringVar(&inv.config, "config", "idemgen.yaml", "")
	flags.BoolVar(&inv.check, "check", false, "")
	flags.StringVar(&inv.against, "against", "", "")
	flags.BoolVar(&inv.dryRun, "n", false, "")
	flags.BoolVar(&inv.verbose, "v", false, "")
	flags.BoolVar(&inv.quiet, "q", false, "")
	flags.StringVar(&inv.format, "format", "text", "")
}

// generate writes the generated files, or compares them with those on disk.
func generate(ctx context.Context, inv *invocation) int {
	if err := inv.noArguments(); err != nil {
		return inv.failf("%v", err)
	}
	report, ok := reporters[inv.format]
	if !ok {
		return inv.failf("-format must be text, json, github or sarif, not %q", inv.format)
	}
	if inv.against != "" && !inv.check {
		return inv.failf("-against compares and writes nothing; write -check -against %s", inv.against)
	}
	out := &outcome{inv: inv}
	code := out.generate(ctx)
	report(out)
	return code
}

// outcome is what a run of generate has to tell.
type outcome struct {
	inv      *invocation
	findings generator.Findings
	notes    []string // for people
	result   generator.Result
	changes  []generator.Change
	err      error // no finding
}

func (o *outcome) generate(ctx context.Context) int {
	config, err := loadConfig(o.inv.config)
	if err != nil {
		return o.fail(err)
	}
	if o.inv.against != "" {
		return o.compare(config)
	}
	writes := !o.inv.check && !o.inv.dryRun
	if len(config.Command) > 0 {
		if writes {
			err = config.RunCommand(ctx, o.inv.stderr, o.inv.stderr)
		} else {
			o.notes = append(o.notes, "the oapi-codegen command is not run here, and its output is taken as it is; to check that too, use go generate ./... && git diff --exit-code")
		}
		if err != nil {
			return o.fail(err)
		}
	}
	if o.result, err = generator.Generate(ctx, config); err != nil {
		return o.fail(err)
	}
	o.findings = o.result.Warnings
	if o.changes, err = o.result.Check(); err != nil {
		return o.fail(err)
	}
	if writes {
		if _, err := o.result.Write(); err != nil {
			return o.fail(err)
		}
	}
	for _, c := range o.changes {
		drift := c.Drift(o.result)
		if !o.inv.check { // the change is what the run is asked for
			for i := range drift {
				drift[i].Warning = true
			}
		}
		o.findings = append(o.findings, drift...)
		if o.inv.check && c.State != generator.Fresh {
			o.findings = append(o.findings, c.Finding())
		}
	}
	if o.failed() {
		return exitFindings
	}
	return exitDone
}

// compare compares the document with an older one.
func (o *outcome) compare(config generator.Config) int {
	var err error
	if o.result, err = generator.Compare(config, o.inv.against); err != nil {
		return o.fail(err)
	}
	o.findings = o.result.Warnings
	return exitDone
}

// fail keeps the error for the report and returns the exit code.
func (o *outcome) fail(err error) int {
	var findings generator.Findings
	if errors.As(err, &findings) {
		o.findings = append(o.findings, findings...)
		return exitCode(findings)
	}
	o.err = err
	return exitUsage
}

// loadConfig says what to do where there is no config.
func loadConfig(path string) (generator.Config, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return generator.Config{}, fmt.Errorf("there is no config %s; run idemgen init to write one, or name yours with -config", path)
	}
	return generator.LoadConfig(path)
}
