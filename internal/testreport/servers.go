package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

// server is one that tests used.
type server struct{ name, version string }

// serverOf reads the line in which package testenv says what tests use.
func serverOf(line string) (server, bool) {
	_, said, found := strings.Cut(strings.TrimSpace(line), "testenv: tests use ")
	name, version, whole := cutLast(said, " ")
	return server{name, version}, found && whole
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// promises reads a section of a Markdown file, named as in "README.md#Stores". It
// ends with the next heading.
func promises(place string) (string, error) {
	file, heading, _ := strings.Cut(place, "#")
	if file == "" {
		return "", nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	_, section, found := strings.Cut(string(text), "\n## "+heading+"\n")
	if !found {
		return "", fmt.Errorf("%s has no section %q", file, heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	return section, nil
}

// servers prints what tests used and compares it with what a text promises.
func (r *report) servers(promised string) {
	used := slices.SortedFunc(maps.Keys(r.used), func(a, b server) int {
		return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.version, b.version))
	})
	for _, s := range used {
		fmt.Fprintf(r.out, "used %s %s\n", s.name, s.version)
	}
	if promised == "" {
		return
	}
	versions := map[string][]string{} // used ones, by name
	for _, s := range used {
		versions[s.name] = append(versions[s.name], s.version)
		if !slices.ContainsFunc(namedVersions(promised, s.name), s.is) {
			fmt.Fprintf(r.out, "tests used %s %s, which is not promised\n", s.name, s.version)
			r.broken = true
		}
	}
	for name, all := range versions {
		for _, v := range namedVersions(promised, name) {
			if !slices.ContainsFunc(all, func(used string) bool { return server{name, used}.is(v) }) {
				fmt.Fprintf(r.out, "%s %s is promised, but no test used it\n", name, v)
				r.broken = true
			}
		}
	}
}

// is tells whether version, which may leave its end out, is that of s.
func (s server) is(version string) bool {
	return s.version == version || strings.HasPrefix(s.version, version+".")
}

var number = regexp.MustCompile(`\d+(\.\d+)*`)

// namedVersions returns the versions that text lists after a name, such as
// "Name 15, 16.1 and 18".
func namedVersions(text, name string) (versions []string) {
	list := regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `((?:(?:,| and)? \d+(?:\.\d+)*)+)`)
	for _, found := range list.FindAllStringSubmatch(text, -1) {
		versions = append(versions, number.FindAllString(found[1], -1)...)
	}
	return versions
}
