package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

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
