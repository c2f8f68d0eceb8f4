package idemgen_test

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "github.com/idemgen/idemgen"

// modules are the directories of this repository's modules, as go.work ties
// them together. Users see the first two.
var modules = []string{".", "runtime", "testdata", "examples"}

// layer says what the packages of one module may import directly, beside the
// standard library. Paths of our own packages stand without the root's path; a
// trailing slash allows everything below.
type layer struct {
	own        []string
	thirdParty []string
}

// layers are the dependency rule: cmd → generator → spec, gosource, plan and
// render → templates; the runtime's core stands on one small module; each store
// adds one family; neither of the generator and the runtime knows the other.
// A package without an entry fails the test: say what it may import.
var layers = map[string]layer{
	root: {}, // tests alone
	"cmd/idemgen": {
		own:        []string{"generator", "analyzer/idempotencykey"},
		thirdParty: []string{"golang.org/x/mod/module", "golang.org/x/mod/semver", "golang.org/x/tools/go/analysis/"},
	},
	"analyzer/idempotencykey": {thirdParty: []string{"golang.org/x/tools/go/"}},
	"analyzer/golangcilint": {
		own:        []string{"analyzer/idempotencykey"},
		thirdParty: []string{"golang.org/x/tools/go/analysis", "github.com/golangci/plugin-module-register/register"},
	},
	"generator": {
		own: []string{
			"generator/internal/",
			"templates",
		},
		thirdParty: []string{
			"github.com/getkin/kin-openapi/openapi3",
			// Only Generate and Configuration of this package are stable.
			"github.com/oapi-codegen/oapi-codegen/v2/pkg/codegen",
			"github.com/rogpeppe/go-internal/diff",
			"golang.org/x/mod/modfile",
			"golang.org/x/mod/module",
			"gopkg.in/yaml.v3",
		},
	},
	"generator/internal/bench": {thirdParty: []string{"github.com/getkin/kin-openapi/openapi3"}},
	"generator/internal/diag":  {},
	"generator/internal/drift": {own: []string{"generator/internal/diag", "generator/internal/spec"}},
	"generator/internal/tree": {
		own:        []string{"generator/internal/diag"},
		thirdParty: []string{"gopkg.in/yaml.v3", "github.com/speakeasy-api/openapi/overlay"},
	},
	"generator/internal/spec": {own: []string{"generator/internal/diag", "generator/internal/tree"}},
	"generator/internal/contract": {
		own:        []string{"generator/internal/diag", "generator/internal/spec", "generator/internal/tree", "templates"},
		thirdParty: []string{"gopkg.in/yaml.v3"},
	},
	"generator/internal/gosource": {own: []string{"generator/internal/diag", "templates"}, thirdParty: []string{"golang.org/x/mod/modfile"}},
	"generator/internal/plan":     {own: []string{"generator/internal/diag", "generator/internal/spec", "generator/internal/gosource"}},
	"generator/internal/render":   {own: []string{"generator/internal/plan", "templates"}},
	"templates":                   {},
	"internal/testreport":         {},

	"runtime/idempotency":             {thirdParty: []string{"github.com/dunglas/httpsfv"}},
	"runtime/retry":                   {own: []string{"runtime/idempotency"}},
	"runtime/otelobserver":            {own: []string{"runtime/idempotency", "runtime/retry"}, thirdParty: []string{"go.opentelemetry.io/otel/attribute", "go.opentelemetry.io/otel/metric", "go.opentelemetry.io/otel/trace"}}, // the API; the SDK is the user's
	"runtime/answercodec":             {own: []string{"runtime/idempotency"}},
	"runtime/memstore":                {own: []string{"runtime/idempotency"}},
	"runtime/sqlstore":                {own: []string{"runtime/idempotency"}}, // the driver is the user's
	"runtime/pgxstore":                {own: []string{"runtime/idempotency"}, thirdParty: []string{"github.com/jackc/pgx/v5/"}},
	"runtime/redisstore":              {own: []string{"runtime/idempotency", "runtime/internal/heartbeat"}, thirdParty: []string{"github.com/redis/go-redis/v9"}},
	"runtime/dynamostore":             {own: []string{"runtime/idempotency", "runtime/internal/heartbeat"}, thirdParty: []string{"github.com/aws/aws-sdk-go-v2/aws", "github.com/aws/aws-sdk-go-v2/service/dynamodb/", "github.com/aws/smithy-go/"}}, // no configuration: the client is the user's
	"runtime/storetest":               {own: []string{"runtime/idempotency"}},
	"runtime/internal/heartbeat":      {own: []string{"runtime/idempotency"}},
	"runtime/internal/sweepbench":     {},
	"runtime/internal/testcodec":      {own: []string{"runtime/answercodec"}},
	"runtime/internal/testenv":        {thirdParty: []string{"github.com/go-sql-driver/mysql", "github.com/jackc/pgx/v5", "github.com/redis/go-redis/v9"}},
	"runtime/internal/testenv/testpg": {own: []string{"runtime/internal/testenv"}},

	// It links every driver, and nobody imports it.
	"runtime/cmd/idemctl": {
		own: []string{"runtime/idempotency", "runtime/pgxstore", "runtime/sqlstore", "runtime/redisstore", "runtime/dynamostore"},
		thirdParty: []string{
			"github.com/aws/aws-sdk-go-v2/aws", "github.com/aws/aws-sdk-go-v2/config", "github.com/aws/aws-sdk-go-v2/service/dynamodb", "github.com/aws/smithy-go/logging",
			"github.com/go-sql-driver/mysql", "github.com/jackc/pgx/v5/pgxpool", "github.com/redis/go-redis/v9", "modernc.org/sqlite",
		},
	},
}

// goPackage is what go list says of a package.
type goPackage struct {
	ImportPath string
	Standard   bool
	Module     *struct{ Path string }
	Imports    []string
}

func TestPackagesImportOnlyWhatTheirLayerMay(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, module := range []string{".", "runtime"} {
		standard := map[string]bool{}
		packages := list(t, module)
		for _, p := range packages {
			standard[p.ImportPath] = p.Standard
		}
		for _, p := range packages {
			if p.Module == nil || !slices.Contains([]string{root, root + "/runtime"}, p.Module.Path) {
				continue
			}
			name := strings.TrimPrefix(p.ImportPath, root+"/")
			rule, found := layers[name]
			if !found {
				t.Errorf("%s has no entry in layers: say what it may import", name)
				continue
			}
			used[name] = true
			for _, imported := range p.Imports {
				own, isOwn := strings.CutPrefix(imported, root+"/")
				allowed := standard[imported] ||
					isOwn && allows(rule.own, own) ||
					!isOwn && allows(rule.thirdParty, imported)
				if !allowed {
					t.Errorf("%s imports %s, which its layer forbids", name, imported)
				}
			}
		}
	}
	for name := range layers {
		if !used[name] {
			t.Errorf("layers has an entry for %s, which does not exist", name)
		}
	}
}

// allows tells whether a path is in the list, or below an entry that ends with
// a slash.
func allows(list []string, path string) bool {
	return slices.ContainsFunc(list, func(entry string) bool {
		return path == entry || strings.HasSuffix(entry, "/") && strings.HasPrefix(path+"/", entry)
	})
}

// goMod is what go mod edit -json says.
type goMod struct {
	Go        string
	Toolchain string
	Require   []struct{ Path string }
	Replace   []struct{ Old, New struct{ Path string } }
}

func TestModulesPromiseWhatUsersNeed(t *testing.T) {
	t.Parallel()
	for _, module := range modules {
		var mod goMod
		decode(t, goCommand(t, module, "mod", "edit", "-json"), &mod)
		if mod.Go != "1.25.0" || mod.Toolchain != "" {
			t.Errorf("%s/go.mod says go %s, toolchain %q: want go 1.25.0 and no toolchain line", module, mod.Go, mod.Toolchain)
		}
		users := module == "." || module == "runtime"
		if users && len(mod.Replace) > 0 {
			t.Errorf("%s/go.mod has a replace directive: the go command refuses to install it with @version", module)
		}
		for _, r := range mod.Replace {
			if !strings.HasPrefix(r.Old.Path, root) || !strings.HasPrefix(r.New.Path, "../") && r.New.Path != ".." {
				t.Errorf("%s/go.mod replaces %s by %s: only our own modules, by their folder", module, r.Old.Path, r.New.Path)
			}
		}
		for _, r := range mod.Require {
			if users && (r.Path == root || strings.HasPrefix(r.Path, root+"/")) {
				t.Errorf("%s/go.mod requires %s: the tool and the runtime never require each other", module, r.Path)
			}
			// Requiring these would raise the versions in users' builds, and so
			// break or rewrite what their own oapi-codegen generates.
			if module == "runtime" && (strings.HasPrefix(r.Path, "github.com/getkin/") || strings.HasPrefix(r.Path, "github.com/oapi-codegen/")) {
				t.Errorf("runtime/go.mod requires %s", r.Path)
			}
		}
	}
}

func TestWorkspaceTiesAllModules(t *testing.T) {
	t.Parallel()
	var work struct{ Use []struct{ DiskPath string } }
	decode(t, goCommand(t, ".", "work", "edit", "-json"), &work)
	var tied []string
	for _, use := range work.Use {
		tied = append(tied, filepath.Clean(use.DiskPath))
	}
	slices.Sort(tied)
	want := slices.Sorted(slices.Values(modules))
	if !slices.Equal(tied, want) {
		t.Errorf("go.work uses %v, want %v", tied, want)
	}
}

// The generator and the analyzer know the runtime by strings, since they cannot
// import it.
func TestRuntimeHasWhatTheGeneratorNames(t *testing.T) {
	t.Parallel()
	runtimePath := regexp.MustCompile(root + `/(runtime/[a-z0-9/]+)`)
	handshake := regexp.MustCompile(`\bIsAtLeastVersion[0-9]+_[0-9]+\b`)
	paths, constants := map[string]bool{}, map[string]bool{}
	for _, dir := range []string{"analyzer", "generator", "templates", "cmd"} {
		walk(t, dir, func(path string, content []byte) {
			if strings.HasSuffix(path, "_test.go") || strings.Contains(path, "testdata") {
				return
			}
			for _, m := range runtimePath.FindAllSubmatch(content, -1) {
				paths[string(m[1])] = true
			}
			for _, m := range handshake.FindAll(content, -1) {
				constants[string(m)] = true
			}
		})
	}
	if len(paths) == 0 || len(constants) == 0 {
		t.Fatalf("the generator names runtime packages %v and constants %v: want at least one of each", paths, constants)
	}
	for path := range paths {
		if files, _ := filepath.Glob(filepath.Join(path, "*.go")); len(files) == 0 {
			t.Errorf("the generator names package %s, which does not exist", path)
		}
	}
	for constant := range constants {
		declared := regexp.MustCompile(`(?m)^(const |\t)` + constant + `\b`)
		found := false
		walk(t, "runtime/idempotency", func(_ string, content []byte) {
			found = found || declared.Match(content)
		})
		if !found {
			t.Errorf("the generator names %s, which runtime/idempotency does not declare", constant)
		}
	}
}

// walk hands over every regular file below dir.
func walk(t *testing.T, dir string, visit func(path string, content []byte)) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !entry.Type().IsRegular():
			return nil
		}
		content, err := os.ReadFile(path)
		visit(path, content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// list returns a module's packages and all that they depend on.
func list(t *testing.T, module string) []goPackage {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(goCommand(t, module,
		"list", "-deps", "-json=ImportPath,Standard,Module,Imports", "./...")))
	var packages []goPackage
	for {
		var p goPackage
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}

func decode(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}

// goCommand runs the go command in a module's directory and returns what it
// printed.
func goCommand(t *testing.T, module string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = module
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s in %s: %v\n%s", strings.Join(args, " "), module, err, stderr.String())
	}
	return string(out)
}
