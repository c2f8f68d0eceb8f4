package main

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// idemgen runs the program and returns what it prints and its exit code.
func idemgen(args ...string) (stdout, stderr string, code int) {
	var out, errs bytes.Buffer
	code = run(args, strings.NewReader(""), &out, &errs)
	return out.String(), errs.String(), code
}

// snapshot returns the content and times of all files under dir.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		b.WriteString(path + " " + info.ModTime().String() + "\n" + string(content) + "\n")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// write makes a file under dir.
func write(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

const (
	goMod    = "module example.com/payments\n\ngo 1.25.0\n"
	document = `openapi: 3.0.3
info: {title: Payments, version: "1"}
paths:
  /payments:
    post:
      operationId: createPayment
      x-idempotent: {retention: 48h}
      requestBody:
        content: {application/json: {schema: {type: object, properties: {amount: {type: integer}}}}}
      responses: {"201": {description: done}}
    get:
      operationId: listPayments
      responses: {"200": {description: all}}
`
	config = "spec: openapi.yaml\noapi-codegen: oapi-codegen.yaml\n"
	oapi   = "package: payments\noutput: api.gen.go\ngenerate: {models: true, std-http-server: true, strict-server: true}\n"
)

// project makes a module with a document and both configs.
func project(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "go.mod", goMod)
	write(t, dir, "openapi.yaml", document)
	write(t, dir, "idemgen.yaml", config)
	write(t, dir, "oapi-codegen.yaml", oapi)
	return dir
}

func configOf(dir string) string { return filepath.Join(dir, "idemgen.yaml") }

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args   []string
		code   int
		stdout string // a part of it
		stderr string
	}{
		{[]string{"help"}, exitDone, "idemgen init", ""},
		{[]string{"-h"}, exitDone, "Start with: idemgen init", ""},
		{[]string{"--help"}, exitDone, "Start with: idemgen init", ""},
		{[]string{"-version"}, exitDone, "idemgen ", ""},
		{[]string{"--version"}, exitDone, "idemgen ", ""},
		{[]string{"generate", "-h"}, exitDone, "Usage: idemgen [generate]", ""},
		{[]string{"-check", "-h"}, exitDone, "Usage: idemgen [generate]", ""},
		{[]string{"explain", "--help"}, exitDone, "Usage: idemgen explain", ""},
		{[]string{"help", "explain"}, exitDone, "Usage: idemgen explain", ""},
		{[]string{"init", "-h"}, exitDone, "Usage: idemgen init", ""},
		{[]string{"version"}, exitDone, "idemgen ", ""},
		{[]string{"help"}, exitDone, "idemgen help vet", ""},
		{[]string{"contract", "-h"}, exitDone, "Usage: idemgen contract", ""},
		{[]string{"contract", "x"}, exitUsage, "", `unexpected argument "x"`},
		{[]string{"contract", "-config", "testdata/none.yaml"}, exitUsage, "", "there is no config"},
		{[]string{"help", "vet"}, exitDone, "Usage: idemgen vet", ""},
		{[]string{"vet", "-h"}, exitDone, "Usage: idemgen vet", ""},
		{[]string{"help", "me"}, exitUsage, "", `no command "me"`},
		{[]string{"help", "check"}, exitDone, "Usage: idemgen [generate]", ""},
		{[]string{"help", "-against"}, exitDone, "Usage: idemgen [generate]", ""},
		{[]string{"check"}, exitUsage, "", `no command "check"; it is a flag: idemgen -check`},
		{[]string{"chekc"}, exitUsage, "", `no command "chekc"`},
		{[]string{"-chekc"}, exitUsage, "", "run idemgen help generate"},
		{[]string{"generate", "openapi.yaml"}, exitUsage, "", `unexpected argument "openapi.yaml"`},
		{[]string{"explain", "wrong-type"}, exitDone, "wrong-type\n\nA value of another type", ""},
		{[]string{"explain", "-config", "testdata/none.yaml", "wrong-type"}, exitDone, "wrong-type\n", ""},
		{[]string{"explain", "wrong-tpye"}, exitUsage, "", `no code "wrong-tpye"; did you mean wrong-type?`},
		{[]string{"explain", "openapi.yaml"}, exitUsage, "", `no code "openapi.yaml"; known are body-lost, `},
		{[]string{"explain", "stale", "missing"}, exitUsage, "", "one code at a time, not stale missing"},
		{[]string{"-format", "xml"}, exitUsage, "", "text, json, github or sarif"},
		{[]string{"-config", "testdata/none.yaml"}, exitUsage, "", "there is no config testdata/none.yaml; run idemgen init"},
		{[]string{"explain", "-config", "testdata/none.yaml"}, exitUsage, "", "there is no config"},
		{[]string{"init", "a", "b"}, exitUsage, "", "one directory"},
	} {
		stdout, stderr, code := idemgen(test.args...)
		if code != test.code || !strings.Contains(stdout, test.stdout) || !strings.Contains(stderr, test.stderr) {
			t.Errorf("idemgen %v: exit %d, want %d\nstdout: %s\nstderr: %s", test.args, code, test.code, stdout, stderr)
		}
	}
}

// Generate, check, an edit of the document, check again, generate again.
//
// Covers GEN-37.
func TestGenerateAndCheck(t *testing.T) {
	t.Parallel()
	dir := project(t)
	step := func(want int, args ...string) (string, string) {
		t.Helper()
		stdout, stderr, code := idemgen(append(args, "-config", configOf(dir))...)
		if code != want {
			t.Fatalf("idemgen %v: exit %d, want %d\nstdout: %s\nstderr: %s", args, code, want, stdout, stderr)
		}
		return stdout, stderr
	}

	before := snapshot(t, dir)
	if _, stderr := step(exitFindings, "-check"); strings.Count(stderr, "is missing") != 2 {
		t.Errorf("check of nothing: %s", stderr)
	}
	if stdout, _ := step(exitDone, "-n"); !strings.Contains(stdout, "missing, would be written") {
		t.Errorf("dry run: %s", stdout)
	}
	if snapshot(t, dir) != before {
		t.Fatal("-check or -n has touched a file")
	}

	stdout, stderr := step(exitDone)
	if !strings.HasSuffix(stdout, "idempotent.gen.go: 1 of 2 operations protected\n") || stderr != "" {
		t.Errorf("generate printed %q, %q", stdout, stderr)
	}
	written := snapshot(t, dir)
	step(exitDone, "-check")
	if stdout, _ := step(exitDone, "-v"); strings.Count(stdout, "up to date") != 2 {
		t.Errorf("second run: %s", stdout)
	}
	if snapshot(t, dir) != written {
		t.Error("a second run has touched a file that was up to date")
	}
	if stdout, stderr := step(exitDone, "-q"); stdout+stderr != "" {
		t.Errorf("-q printed %q, %q", stdout, stderr)
	}

	write(t, dir, "openapi.yaml", strings.Replace(document, "retention: 48h", "retention: 47h", 1))
	stdout, stderr = step(exitFindings, "-check")
	if !strings.Contains(stderr, "idempotent.gen.go: is not what the document says now") || strings.Count(stderr, "\n") != 2 {
		t.Errorf("check of a stale file: %s", stderr)
	}
	if !strings.Contains(stderr, "answers of createPayment are kept for 47h now, and were for 48h") {
		t.Errorf("the change is not named: %s", stderr)
	}
	if !strings.Contains(stdout, "\n-") || !strings.Contains(stdout, "\n+") {
		t.Errorf("no diff: %s", stdout)
	}
	step(exitDone)
	step(exitDone, "-check")

	// The last marker goes: the old file must not stay unnoticed.
	write(t, dir, "openapi.yaml", strings.Replace(document, "x-idempotent: {retention: 48h}", "x-idempotent: false", 1))
	for _, args := range [][]string{{"-check"}, {}} {
		if _, stderr := step(exitFindings, args...); !strings.Contains(stderr, "no operation is marked") {
			t.Errorf("%v without a marker: %s", args, stderr)
		}
	}
}

// No error leaves a trace on disk, whatever the mistake.
func TestErrorsTouchNothing(t *testing.T) {
	t.Parallel()
	cases, err := filepath.Glob("../../generator/testdata/errors/*")
	if err != nil || len(cases) == 0 {
		t.Fatalf("no error cases: %v", err)
	}
	for _, dir := range cases {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			before := snapshot(t, dir)
			stdout, stderr, code := idemgen("-config", configOf(dir))
			if code != exitFindings && code != exitUsage {
				t.Errorf("exit %d", code)
			}
			if stdout != "" || stderr == "" {
				t.Errorf("stdout %q, stderr %q", stdout, stderr)
			}
			if snapshot(t, dir) != before {
				t.Error("a file was touched")
			}
		})
	}
}

// A file that a person wrote is not replaced, and then nothing else is
// written either, nor said: what it declares may collide with everything.
func TestForeignFile(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ config, file, want string }{
		"output":           {config, "idempotent.gen.go", "was not written by idemgen"},
		"another name":     {config + "output: generate.go\n", "generate.go", "was not written by idemgen"},
		"command":          {"spec: openapi.yaml\noapi-codegen: {command: [go, mod, edit, -go=1.26]}\n", "idempotent.gen.go", "was not written by idemgen"},
		"of oapi-codegen":  {config, "api.gen.go", "was not written by a generator"},
		"licence above it": {config, "idempotent.gen.go", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := project(t)
			write(t, dir, "idemgen.yaml", test.config)
			content := "package payments\n\ntype CreatePaymentOp struct{}\n"
			if test.want == "" {
				content = "// Copyright us.\r\n\r\n// Code generated by idemgen. DO NOT EDIT.\r\n\r\n" + content
			}
			write(t, dir, test.file, content)
			before := snapshot(t, dir)
			_, stderr, code := idemgen("-config", configOf(dir))
			if test.want == "" {
				if code != exitDone || !strings.Contains(stderr, "warning: what has changed") || strings.Count(stderr, "\n") != 1 {
					t.Errorf("exit %d: %s", code, stderr)
				}
				return
			}
			if code != exitFindings || !strings.Contains(stderr, test.file+": "+test.want) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("exit %d: %s", code, stderr)
			}
			if snapshot(t, dir) != before {
				t.Error("a file was touched")
			}
		})
	}
}

// What cannot be read is an error of the file system, and what is wrong in a
// file is a finding.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		file, content string // "" makes a directory
		code          int
	}{
		"config is a directory":      {"idemgen.yaml", "", exitUsage},
		"config is wrong":            {"idemgen.yaml", "spec: [openapi.yaml]\n", exitFindings},
		"document is a directory":    {"openapi.yaml", "", exitUsage},
		"document is missing":        {"idemgen.yaml", "spec: none.yaml\n", exitUsage},
		"document is wrong":          {"openapi.yaml", "openapi: 2\n", exitFindings},
		"overlay is missing":         {"idemgen.yaml", config + "overlay: none.yaml\n", exitUsage},
		"oapi config is a directory": {"oapi-codegen.yaml", "", exitUsage},
		"oapi config is wrong":       {"oapi-codegen.yaml", "package: payments\n", exitFindings},
		"output is a directory":      {"idempotent.gen.go", "", exitUsage},
		"Go file is a directory":     {"api.gen.go", "", exitUsage},
		"package is not there":       {"idemgen.yaml", config + "package: none\n", exitFindings},
		"nothing is wrong":           {"README.md", "Payments.\n", exitDone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := project(t)
			if test.content == "" {
				os.Remove(filepath.Join(dir, test.file)) // if it is there
				write(t, dir, filepath.Join(test.file, "keep"), "")
			} else {
				write(t, dir, test.file, test.content)
			}
			for _, format := range []string{"text", "json", "github", "sarif"} {
				if stdout, stderr, code := idemgen("-format", format, "-config", configOf(dir)); code != test.code {
					t.Errorf("-format %s: exit %d, want %d\n%s%s", format, code, test.code, stdout, stderr)
				}
			}
		})
	}
	for name, args := range map[string][]string{
		"explain": {"explain", "-config"}, "init": {"init", "-spec"},
	} {
		dir := project(t)
		write(t, dir, "idemgen.yaml", "spec: none.yaml\n")
		args = append(args, configOf(dir))
		if name == "init" {
			os.Remove(configOf(dir))
			args = append(args, dir)
		}
		if _, stderr, code := idemgen(args...); code != exitUsage {
			t.Errorf("%s: exit %d: %s", name, code, stderr)
		}
	}
}

// Annotations name files from the root of the repository, wherever idemgen
// runs.
func TestAnnotationPaths(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "outside.yaml", "")
	write(t, dir, "repository/.git/HEAD", "")
	write(t, dir, "repository/api/openapi.yaml", "")
	write(t, dir, "repository/worktree/.git", "gitdir: ../.git/worktrees/w\n")
	for name, want := range map[string]string{
		"repository/api/openapi.yaml":      "api/openapi.yaml",
		"repository/api":                   "api",
		"repository/worktree/openapi.yaml": "openapi.yaml",
		"repository":                       ".",
		"outside.yaml":                     filepath.ToSlash(filepath.Join(dir, "outside.yaml")),
	} {
		if got := repositoryPath(filepath.ToSlash(filepath.Join(dir, name))); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if got := repositoryPath("run.go"); got != "cmd/idemgen/run.go" && got != "run.go" { // a copy without .git
		t.Errorf("run.go: %s", got)
	}
}

func TestFormats(t *testing.T) {
	t.Parallel()
	dir := project(t)
	write(t, dir, "openapi.yaml", strings.Replace(document, "48h", "48", 1))

	for _, args := range [][]string{{"generate"}, {"explain"}} {
		_, stderr, code := idemgen(append(args, "-config", configOf(dir))...)
		if code != exitFindings || !strings.Contains(stderr, "openapi.yaml:7:33: retention must be") || !strings.Contains(stderr, "not a number (units are") || !strings.HasSuffix(stderr, " [wrong-type]\n") {
			t.Errorf("%v: exit %d: %s", args, code, stderr)
		}
	}

	stdout, stderr, code := idemgen("-format", "json", "-config", configOf(dir))
	var got struct {
		Findings []struct {
			File, Level, Code, Message string
			Line, Col                  int
		}
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != exitFindings || stderr != "" {
		t.Fatalf("exit %d, %v\nstdout: %s\nstderr: %s", code, err, stdout, stderr)
	}
	if len(got.Findings) != 1 || got.Findings[0].Line != 7 || got.Findings[0].Col != 33 ||
		got.Findings[0].Code != "wrong-type" || got.Findings[0].Level != "error" {
		t.Errorf("findings: %+v", got.Findings)
	}

	write(t, dir, ".git/HEAD", "")
	stdout, _, code = idemgen("-format", "github", "-config", configOf(dir))
	if code != exitFindings || !strings.HasPrefix(stdout, "::error file=openapi.yaml,") || !strings.Contains(stdout, ",line=7,col=33,title=wrong-type::retention must be") {
		t.Errorf("exit %d: %s", code, stdout)
	}
}

// A line of a document that has the form of a workflow command is none where
// the diff of a contract shows it.
func TestDiffHoldsNoCommand(t *testing.T) {
	t.Parallel()
	const command = "::add-mask::Payments"
	dir := project(t)
	write(t, dir, "idemgen.yaml", config+"contract: contract.yaml\n")
	described := strings.Replace(document, "paths:", "x-notes: |\n  "+command+"\npaths:", 1)
	write(t, dir, "openapi.yaml", described)
	if _, stderr, code := idemgen("-config", configOf(dir)); code != exitDone {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	write(t, dir, "openapi.yaml", strings.Replace(described, "title: Payments", "title: Payouts", 1))
	stdout, stderr, code := idemgen("-check", "-format", "github", "-config", configOf(dir))
	_, diff, _ := strings.Cut(stdout, "\n::stop-commands::")
	token, diff, _ := strings.Cut(diff, "\n")
	diff, after, stopped := strings.Cut(diff, "\n::"+token+"::\n")
	if code != exitFindings || len(token) != 64 || !stopped || !strings.Contains(diff, command) || strings.Contains(after, command) {
		t.Errorf("exit %d: %s\n%s", code, stderr, stdout)
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	dir := project(t)
	stdout, stderr, code := idemgen("explain", "-config", configOf(dir))
	if code != exitDone {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	for _, want := range []string{
		"createPayment  POST /payments  yes     required: true",
		"retention: 48h",
		"openapi.yaml:7:33",
		"listPayments   GET /payments   no",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in:\n%s", want, stdout)
		}
	}
	if strings.Contains(stdout, "key.in") {
		t.Errorf("key.in, which key.name implies, is shown in:\n%s", stdout)
	}
}

// The user's own command runs in generate only, in the config's directory.
func TestCommand(t *testing.T) {
	t.Parallel()
	dir := project(t)
	if _, stderr, code := idemgen("-q", "-config", configOf(dir)); code != exitDone {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	write(t, dir, "idemgen.yaml", "spec: openapi.yaml\noapi-codegen: {command: [go, mod, edit, -go=1.26]}\n")

	stdout, stderr, code := idemgen("-check", "-config", configOf(dir))
	if code != exitDone || !strings.Contains(stdout, "command is not run") || !strings.Contains(stdout, "go generate ./... && git diff --exit-code") {
		t.Errorf("check: exit %d\n%s%s", code, stdout, stderr)
	}
	if mod, _ := os.ReadFile(filepath.Join(dir, "go.mod")); string(mod) != goMod {
		t.Error("-check has run the command")
	}
	if _, stderr, code := idemgen("-config", configOf(dir)); code != exitDone {
		t.Errorf("generate: exit %d: %s", code, stderr)
	}
	if mod, _ := os.ReadFile(filepath.Join(dir, "go.mod")); !strings.Contains(string(mod), "go 1.26") {
		t.Error("generate has not run the command in the config's directory")
	}

	write(t, dir, "idemgen.yaml", "spec: openapi.yaml\noapi-codegen: {command: [go, nonsense]}\n")
	if _, stderr, code := idemgen("-config", configOf(dir)); code != exitUsage || !strings.Contains(stderr, `idemgen.yaml:2:15: the command "go nonsense" has failed`) {
		t.Errorf("failing command: exit %d: %s", code, stderr)
	}
}
