// Package examples_test checks what the READMEs print against the examples.
package examples_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/idemgen/idemgen/examples/internal/e2e"
)

// block is a fenced code block of a README.
type block struct {
	line   int
	lang   string
	source string // second word of the info string: the file that it quotes
	text   string
}

// blocks returns the fenced code blocks of a Markdown file.
func blocks(t *testing.T, file string) (found []block) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var open *block
	for i, line := range strings.Split(string(data), "\n") {
		switch fence, isFence := strings.CutPrefix(line, "```"); {
		case isFence && open == nil:
			lang, source, _ := strings.Cut(fence, " ")
			open = &block{line: i + 1, lang: lang, source: source}
		case isFence:
			found = append(found, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		}
	}
	return found
}

// readmes returns the README of the repository and those of the examples.
func readmes(t *testing.T) []string { return append(glob(t, "*/README.md"), "../README.md") }

// documents returns all documents that users read.
func documents(t *testing.T) []string { return append(readmes(t), glob(t, "../docs/*.md")...) }

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files (%v)", pattern, len(files), err)
	}
	return files
}

// diagnosticsDoc shows fragments of documents and configs that are no part of this
// repository. The generator's tests write it and try them.
const diagnosticsDoc = "../docs/diagnostics.md"

// Each Go, YAML and SQL block of a document names the file it quotes, and stands
// in it. A line with three dots stands for lines left out.
func TestSnippets(t *testing.T) {
	t.Parallel()
	checked := 0
	for _, document := range documents(t) {
		if document == analyzerDoc || document == diagnosticsDoc {
			continue
		}
		for _, b := range blocks(t, document) {
			if !slices.Contains([]string{"go", "yaml", "sql"}, b.lang) {
				continue
			}
			at := fmt.Sprintf("%s:%d", document, b.line)
			if b.source == "" {
				t.Errorf("%s: the block names no file that it quotes", at)
				continue
			}
			data, err := os.ReadFile(filepath.Join("..", b.source))
			if err != nil {
				t.Errorf("%s: %v", at, err)
				continue
			}
			checked++
			rest := dedent(string(data))
			for _, part := range regexp.MustCompile(`(?m)^\s*(// )?(# )?\.\.\.\n`).Split(b.text, -1) {
				part = dedent(part)
				i := strings.Index(rest, part)
				if i < 0 {
					t.Errorf("%s: not in %s, or not in this order:\n%s", at, b.source, part)
					break
				}
				rest = rest[i+len(part):]
			}
		}
	}
	if checked == 0 {
		t.Error("no block was checked")
	}
}

// dedent drops the white space that lines begin with: a quotation may stand
// further left than its source.
func dedent(s string) string {
	return regexp.MustCompile(`(?m)^[ \t]+`).ReplaceAllString(s, "")
}

// Each link of a README or a document within the repository leads to a file, and
// to a heading of it.
func TestLinks(t *testing.T) {
	t.Parallel()
	for _, document := range documents(t) {
		for _, m := range regexp.MustCompile(`\]\(([^)#:]*)(?:#([^)]*))?\)`).FindAllStringSubmatch(prose(t, document), -1) {
			target := document
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(document), m[1])
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %v", document, err)
				continue
			}
			if m[2] != "" && !slices.Contains(anchors(t, target), m[2]) {
				t.Errorf("%s: %s has no heading #%s", document, target, m[2])
			}
		}
	}
}

// prose returns a document without its fenced blocks, which have brackets and
// hashes of their own.
func prose(t *testing.T, document string) string {
	t.Helper()
	data, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(string(data), "")
}

// anchors returns the names that GitHub gives to the headings of a document.
func anchors(t *testing.T, document string) (names []string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(prose(t, document), -1) {
		name := regexp.MustCompile(`[^\w -]`).ReplaceAllString(strings.ToLower(m[1]), "")
		names = append(names, strings.ReplaceAll(name, " ", "-"))
	}
	return names
}

// The commands for migration tools make files that hold the table.
func TestMigrationFiles(t *testing.T) {
	t.Parallel()
	workspace, err := filepath.Abs("../go.work")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, sub := range []string{"migrations", "schema"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, b := range blocks(t, "../docs/migrations.md") {
		if b.lang != "sh" || !strings.Contains(b.text, "$schema") {
			continue // among others AWS's tools, which would create a table
		}
		cmd := exec.Command("sh", "-e", "-c", b.text)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK="+workspace)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	for _, file := range []string{"migrations/00007_idempotency.sql", "migrations/000007_idempotency.up.sql", "schema/idempotency.sql"} {
		data, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil || !strings.Contains(string(data), "CREATE TABLE idempotency_records") {
			t.Errorf("%s: %v\n%s", file, err, data)
		}
	}
}

// Each test and file that the README of an example names is there.
func TestNames(t *testing.T) {
	t.Parallel()
	for _, readme := range glob(t, "*/README.md") {
		data, err := os.ReadFile(readme)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Dir(readme)
		var tests strings.Builder
		for _, file := range glob(t, filepath.Join(dir, "*_test.go")) {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			tests.Write(source)
		}
		for _, m := range regexp.MustCompile("`(Test[A-Za-z]+)`").FindAllStringSubmatch(string(data), -1) {
			if !strings.Contains(tests.String(), "\nfunc "+m[1]+"(t *testing.T)") {
				t.Errorf("%s: there is no %s", readme, m[1])
			}
		}
		_, files, _ := strings.Cut(string(data), "| file | what it is |")
		for _, m := range regexp.MustCompile("(?m)`([a-z_]+(?:/|\\.[a-z]+))`[^|]* \\|").FindAllStringSubmatch(files, -1) {
			if _, err := os.Stat(filepath.Join(dir, m[1])); err != nil {
				t.Errorf("%s: %v", readme, err)
			}
		}
	}
}

// Each console block of a README prints what it says when its curl lines, and
// those of the client, run against a fresh server of the SQLite example.
func TestConsole(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		if os.Getenv("IDEM_REQUIRE") == "all" {
			t.Fatal(err)
		}
		t.Skip("curl is not installed")
	}
	program := e2e.Build(t, "github.com/idemgen/idemgen/examples/payments")
	pay := e2e.Build(t, "github.com/idemgen/idemgen/examples/payments/pay")
	for _, readme := range readmes(t) {
		t.Run(readme, func(t *testing.T) {
			t.Parallel()
			base := e2e.StartProgram(t, program, "-addr", "127.0.0.1:0", "-db", filepath.Join(t.TempDir(), "payments.db")).URL
			for _, b := range blocks(t, readme) {
				if b.lang != "console" {
					continue
				}
				for _, step := range strings.Split("\n"+b.text, "\n$ ")[1:] {
					command, want := cutCommand(step)
					run := strings.ReplaceAll(command, "http://127.0.0.1:8080", base)
					if args, ok := strings.CutPrefix(run, "go run ./examples/payments/pay "); ok {
						run = pay + " -server " + base + " " + args
					} else if run, ok = strings.CutPrefix(run, "curl "); ok {
						run = "curl -s " + run
					} else {
						t.Errorf("%s:%d: nobody runs: %s", readme, b.line, command)
						continue
					}
					out, err := exec.Command("sh", "-c", run).CombinedOutput()
					if err != nil {
						t.Errorf("%s:%d: %s: %v", readme, b.line, command, err)
					}
					if got := tidy(string(out)); got != tidy(want) {
						t.Errorf("%s:%d: $ %s\ngot:\n%s\nwant:\n%s", readme, b.line, command, got, tidy(want))
					}
				}
			}
		})
	}
}

// cutCommand splits a command, which goes on after a backslash, from its output.
func cutCommand(step string) (command, output string) {
	for {
		line, rest, _ := strings.Cut(step, "\n")
		if part, more := strings.CutSuffix(line, `\`); more {
			command += part
			step = rest
			continue
		}
		return command + line, rest
	}
}

// tidy drops what differs from run to run.
func tidy(s string) string {
	s = strings.ReplaceAll(s, "\r", "")
	s = regexp.MustCompile(`(?m)^Date: .*$`).ReplaceAllString(s, "Date: ...")
	return strings.TrimSpace(s)
}
