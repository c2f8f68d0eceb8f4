package idemgen_test

import (
	"bufio"
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	failureID = regexp.MustCompile(`^[A-Z]{3}-[0-9]{2}$`)
	// "Covers PRO-01.", "Covers PRO-01, FPR-02 and CRA-03: ...", also where the
	// comment goes on in the next line.
	covers      = regexp.MustCompile(`Covers ((?:[A-Z]{3}-[0-9]{2}(?:,? and |, ?|\b))+)`)
	nextComment = regexp.MustCompile(`\n\s*//\s?`)
	anyID       = regexp.MustCompile(`[A-Z]{3}-[0-9]{2}`)
	outOfScope  = regexp.MustCompile(`^- ([A-Z]{3}-[0-9]{2}):(.*)$`)
)

// Every known failure is ruled out by a test that says so, or is out of scope
// for a written reason, and never both.
func TestKnownFailuresAreCoveredOrOutOfScope(t *testing.T) {
	t.Parallel()
	known := knownFailures(t)
	reasons := outOfScopeReasons(t)
	where := coveringTests(t)

	for _, id := range slices.Sorted(maps.Keys(known)) {
		reason, listed := reasons[id]
		switch files := where[id]; {
		case len(files) == 0 && !listed:
			t.Errorf("%s %s: no test covers it, and it is not listed as out of scope", id, known[id])
		case len(files) > 0 && listed:
			t.Errorf("%s is listed as out of scope, but %s covers it", id, strings.Join(files, ", "))
		case listed && len(strings.Fields(reason)) < 4:
			t.Errorf("%s is listed as out of scope without a reason", id)
		}
	}
	for id := range reasons {
		if _, found := known[id]; !found {
			t.Errorf("%s is listed as out of scope, but testdata/failures.txt does not know it", id)
		}
	}
	// Tests may name failures of categories that the list does not have.
	categories := map[string]bool{}
	for id := range known {
		categories[id[:3]] = true
	}
	for id, files := range where {
		if _, found := known[id]; !found && categories[id[:3]] {
			t.Errorf("%s covers %s, which testdata/failures.txt does not know", strings.Join(files, ", "), id)
		}
	}
}

// ofEachStore are failures that the conformance suite cannot cause, since they
// need a process to die, an answer to be lost, a server to be gone or a clock to
// be wrong. Each store that servers run on rules them out by tests of its own.
var ofEachStore = []string{
	"CON-10", "CRA-01", "CRA-02", "CRA-03", "CRA-04", "CRA-08", "CRA-09", "CRA-16", "EXP-07",
}

// Each store is held to the conformance suite, and rules out by itself what the
// suite cannot show.
func TestFailuresOfEachStore(t *testing.T) {
	t.Parallel()
	where := coveringTests(t)
	for _, store := range []string{"pgxstore", "sqlstore", "redisstore", "dynamostore"} {
		dir := filepath.Join("runtime", store)
		suite := false
		walk(t, dir, func(path string, content []byte) {
			suite = suite || strings.HasSuffix(path, "_test.go") && bytes.Contains(content, []byte("storetest.Run("))
		})
		if !suite {
			t.Errorf("no test of %s runs the conformance suite", store)
		}
		for _, id := range ofEachStore {
			if !slices.ContainsFunc(where[id], func(path string) bool { return filepath.Dir(path) == dir }) {
				t.Errorf("no test of %s covers %s", store, id)
			}
		}
	}
}

// knownFailures reads testdata/failures.txt: an id and a title a line.
func knownFailures(t *testing.T) map[string]string {
	t.Helper()
	known := map[string]string{}
	for _, line := range lines(t, "testdata/failures.txt") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		id, title, _ := strings.Cut(line, " ")
		if _, twice := known[id]; twice || !failureID.MatchString(id) || title == "" {
			t.Fatalf("testdata/failures.txt: %q: want an id that stands once, and its title", line)
		}
		known[id] = title
	}
	return known
}

// outOfScopeReasons reads testdata/failures-out-of-scope.md: list items of an
// id, a colon and the reason, which may go on in indented lines.
func outOfScopeReasons(t *testing.T) map[string]string {
	t.Helper()
	reasons := map[string]string{}
	var id string
	for _, line := range lines(t, "testdata/failures-out-of-scope.md") {
		switch m := outOfScope.FindStringSubmatch(line); {
		case m != nil:
			id = m[1]
			if _, twice := reasons[id]; twice {
				t.Errorf("testdata/failures-out-of-scope.md lists %s twice", id)
			}
			reasons[id] = m[2]
		case id != "" && strings.HasPrefix(line, "  "):
			reasons[id] += line
		default:
			id = ""
		}
	}
	return reasons
}

// coveringTests returns the files that say "Covers ID", by id: tests, and the
// conformance suite, which stores' tests run.
func coveringTests(t *testing.T) map[string][]string {
	t.Helper()
	where := map[string][]string{}
	for _, dir := range []string{"analyzer", "cmd", "generator", "runtime", "testdata", "examples"} {
		if _, err := os.Stat(dir); err != nil {
			continue
		}
		walk(t, dir, func(path string, content []byte) {
			isTest := strings.HasSuffix(path, "_test.go") ||
				strings.HasPrefix(filepath.ToSlash(path), "runtime/storetest/")
			if !isTest || filepath.Ext(path) != ".go" {
				return
			}
			for _, m := range covers.FindAllStringSubmatch(nextComment.ReplaceAllString(string(content), " "), -1) {
				for _, id := range anyID.FindAllString(m[1], -1) {
					if !slices.Contains(where[id], path) {
						where[id] = append(where[id], path)
					}
				}
			}
		})
	}
	return where
}

func lines(t *testing.T, path string) []string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []string
	scanner := bufio.NewScanner(f)
	for scanner.Scan() {
		all = append(all, scanner.Text())
	}
	if err := scanner.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}
