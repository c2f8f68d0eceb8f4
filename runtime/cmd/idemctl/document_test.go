package main

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// The scope of a header's value is what the docs and a message let a shell compute.
func TestScopeOfHeader(t *testing.T) {
	t.Parallel()
	store, _ := sqlServers[2].empty(t)
	code, _, stderr := idemctl("", "show", "-store", store, "-scope", "demo", "-operation", "pay", "-key", "k")
	if code != exitRefused || !strings.Contains(stderr, scopeOfHeader) {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	docs, err := os.ReadFile("../../../docs/idemctl.md")
	line := strings.Replace(scopeOfHeader, "VALUE", "demo", 1)
	if err != nil || !strings.Contains(string(docs), "$("+line+")\n") {
		t.Errorf("docs/idemctl.md does not have %q: %v", line, err)
	}
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skipf("openssl is not installed: %v", err)
	}
	got, err := exec.CommandContext(t.Context(), "sh", "-c", line).Output()
	want, errScope := idempotency.ScopeByHeader("X-Tenant")(t.Context(), http.Header{"X-Tenant": {"demo"}})
	if err := errors.Join(err, errScope); err != nil || strings.TrimSpace(string(got)) != want {
		t.Errorf("%s prints %q, want %q (%v)", line, got, want, err)
	}
}

// What docs/idemctl.md shows is what a test of this package has printed, and the
// commands in it have the flags that there are.
func TestDocument(t *testing.T) {
	t.Parallel()
	const root = "../../.."
	document, err := os.ReadFile(filepath.Join(root, "docs/idemctl.md"))
	if err != nil {
		t.Fatal(err)
	}
	quoted, parsed := 0, 0
	for _, block := range regexp.MustCompile("(?ms)^```([a-z]+) ?([^\n]*)\n(.*?)^```$").FindAllStringSubmatch(string(document), -1) {
		switch lang, file, text := block[1], block[2], block[3]; lang {
		case "text":
			want, err := os.ReadFile(filepath.Join(root, file))
			if err != nil || text != string(want) {
				t.Errorf("%s (%v) is not\n%s", file, err, text)
			}
			quoted++
		case "sh":
			for line := range strings.Lines(text) {
				fields := strings.Fields(line)
				if fields[0] != "idemctl" {
					continue
				}
				if pipe := slices.Index(fields, "|"); pipe >= 0 {
					fields = fields[:pipe]
				}
				i := slices.IndexFunc(commands, func(c command) bool { return c.name == fields[1] })
				if i < 0 {
					t.Errorf("there is no command: %s", line)
					continue
				}
				c, inv := commands[i], new(invocation)
				if err := c.parse(inv, fields[2:]); err != nil {
					t.Errorf("%s: %v", line, err)
				}
				if c.name == "schema" {
					must(t, exitDone, "", fields[1:]...)
				}
				parsed++
			}
		default:
			t.Errorf("nobody checks a block of %s", lang)
		}
	}
	if quoted < 2 || parsed < 10 {
		t.Errorf("%d files are quoted and %d commands shown", quoted, parsed)
	}
}
