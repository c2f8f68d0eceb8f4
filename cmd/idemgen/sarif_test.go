package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// sarifSchema is the schema that OASIS publishes, unchanged. Copyright OASIS
// Open; https://docs.oasis-open.org/sarif/sarif/v2.1.0/.
var sarifSchema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	return compiler.Compile("testdata/sarif-schema-2.1.0.json")
})

// sarifOf runs idemgen and returns its log, which must be valid by the schema of
// SARIF 2.1.0 and hold what code scanning asks of one.
func sarifOf(t *testing.T, wantCode int, args ...string) sarifRun {
	t.Helper()
	stdout, _, code := idemgen(append(args, "-format", "sarif")...)
	if code != wantCode {
		t.Errorf("%v: exit %d, want %d", args, code, wantCode)
	}
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(stdout))
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, stdout)
	}
	schema, err := sarifSchema()
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(document); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, stdout)
	}
	var log sarifLog
	if err := json.Unmarshal([]byte(stdout), &log); err != nil {
		t.Fatal(err)
	}
	if log.Version != "2.1.0" || len(log.Runs) != 1 {
		t.Fatalf("%v: version %s, %d runs", args, log.Version, len(log.Runs))
	}
	run := log.Runs[0]
	used := map[string]bool{}
	for _, r := range run.Results {
		used[r.RuleID] = true
		if r.RuleIndex < 0 || r.RuleIndex >= len(run.Tool.Driver.Rules) || run.Tool.Driver.Rules[r.RuleIndex].ID != r.RuleID {
			t.Errorf("%v: the rule of %s is not at %d", args, r.RuleID, r.RuleIndex)
		}
		if r.Message.Text == "" || len(r.Locations) != 1 || r.Locations[0].PhysicalLocation.Region.StartLine < 1 {
			t.Errorf("%v: a result without a message or a place: %+v", args, r)
		}
	}
	for _, rule := range run.Tool.Driver.Rules {
		if !used[rule.ID] || rule.ShortDescription.Text == "" || rule.FullDescription.Text == "" || rule.Help.Text == "" || rule.Help.Markdown == "" {
			t.Errorf("%v: a rule without a result or a description: %+v", args, rule)
		}
		if !strings.HasSuffix(rule.HelpURI, "/docs/diagnostics.md#"+rule.ID) {
			t.Errorf("%v: the help of %s is at %s", args, rule.ID, rule.HelpURI)
		}
	}
	return run
}

// shape is what a result says, in short.
type shape struct {
	rule, level, uri, base string
	line, col              int
}

func shapes(run sarifRun) []shape {
	var all []shape
	for _, r := range run.Results {
		at := r.Locations[0].PhysicalLocation
		all = append(all, shape{r.RuleID, r.Level, at.ArtifactLocation.URI, at.ArtifactLocation.URIBaseID, at.Region.StartLine, at.Region.StartColumn})
	}
	return all
}

func TestSARIF(t *testing.T) {
	t.Parallel()
	const base = "%SRCROOT%"
	wrong := strings.NewReplacer("retention: 48h", "retention: 1s, release: [200]", "operationId: listPayments", "x-idempotent: true").Replace(document)
	unmarked := strings.Replace(document, "x-idempotent: {retention: 48h}", "x-idempotent: false", 1)
	for name, test := range map[string]struct {
		spec    string // its name from the repository's root
		content string
		args    []string
		code    int
		want    []shape
	}{
		"errors and warnings": {"openapi.yaml", wrong, nil, exitFindings, []shape{
			{"short-retention", "warning", "openapi.yaml", base, 7, 33},
			{"wrong-value", "error", "openapi.yaml", base, 7, 47},
			{"marker-method", "error", "openapi.yaml", base, 12, 7},
		}},
		"one rule for two findings": {"openapi.yaml", strings.Replace(document, "retention: 48h", "retention: 0s, release: [200]", 1), nil, exitFindings, []shape{
			{"wrong-value", "error", "openapi.yaml", base, 7, 33},
			{"wrong-value", "error", "openapi.yaml", base, 7, 47},
		}},
		"a name that no URI can hold": {"my specs/50% é:#?.yaml", unmarked, nil, exitFindings, []shape{
			{"nothing-marked", "error", "my%20specs/50%25%20%C3%A9:%23%3F.yaml", base, 1, 0},
		}},
		"a name like a scheme": {"a:b.yaml", unmarked, nil, exitFindings, []shape{
			{"nothing-marked", "error", "./a:b.yaml", base, 1, 0},
		}},
		"whole files": {"openapi.yaml", document, []string{"-check"}, exitFindings, []shape{
			{"missing", "error", "api.gen.go", base, 1, 0},
			{"missing", "error", "idempotent.gen.go", base, 1, 0},
		}},
		"nothing": {"openapi.yaml", document, []string{"-n"}, exitDone, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if runtime.GOOS == "windows" && strings.ContainsAny(test.spec, ":?") {
				t.Skip("Windows has no such file names")
			}
			dir := project(t)
			write(t, dir, ".git/HEAD", "")
			write(t, dir, test.spec, test.content)
			write(t, dir, "idemgen.yaml", strings.Replace(config, "openapi.yaml", `"`+test.spec+`"`, 1))
			run := sarifOf(t, test.code, append(test.args, "-config", configOf(dir))...)
			if got := shapes(run); !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
			if !run.Invocations[0].ExecutionSuccessful {
				t.Error("findings are no failure of the tool")
			}
		})
	}
}

// Outside of a repository there is no root that a path could start at.
func TestSARIFOutsideOfARepository(t *testing.T) {
	t.Parallel()
	dir := project(t)
	write(t, dir, "openapi.yaml", strings.Replace(document, "48h", "48", 1))
	got := shapes(sarifOf(t, exitFindings, "-config", configOf(dir)))
	path := filepath.ToSlash(filepath.Join(dir, "openapi.yaml"))
	want := shape{"wrong-type", "error", "file:///" + strings.TrimPrefix(path, "/"), "", 7, 33}
	if len(got) != 1 || got[0] != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if place := sarifPlace("../../../openapi.yaml"); strings.Contains(place.URI, "..") { // above this repository
		t.Errorf("%+v leads out of the repository", place)
	}
}

// An error that is no finding fails the invocation, and a person who reads the
// console sees it too.
func TestSARIFOfAnError(t *testing.T) {
	t.Parallel()
	none := filepath.Join(t.TempDir(), "none.yaml")
	invocation := sarifOf(t, exitUsage, "-config", none).Invocations[0]
	if invocation.ExecutionSuccessful || len(invocation.Notifications) != 1 || !strings.Contains(invocation.Notifications[0].Message.Text, "there is no config") {
		t.Errorf("%+v", invocation)
	}
	if _, stderr, _ := idemgen("-format", "sarif", "-config", none); !strings.Contains(stderr, "there is no config") {
		t.Errorf("standard error: %s", stderr)
	}
}

// The log of every error case is valid.
func TestSARIFOfEveryMistake(t *testing.T) {
	t.Parallel()
	cases, err := filepath.Glob("../../generator/testdata/errors/*")
	if err != nil || len(cases) == 0 {
		t.Fatalf("no error cases: %v", err)
	}
	for _, dir := range cases {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			_, _, code := idemgen("-config", configOf(dir))
			if run := sarifOf(t, code, "-config", configOf(dir)); len(run.Results) == 0 {
				t.Error("no results")
			}
		})
	}
	if _, err := os.Stat("../../.git"); err != nil {
		t.Skip("a copy without .git: paths are not those of a repository")
	}
	for _, s := range shapes(sarifOf(t, exitFindings, "-config", "../../generator/testdata/errors/mode/idemgen.yaml")) {
		if s.uri != "generator/testdata/errors/mode/spec.yaml" || s.base != "%SRCROOT%" {
			t.Errorf("got %v", s)
		}
	}
}
