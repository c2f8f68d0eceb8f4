// Bench measures what idemgen costs beside oapi-codegen: both run as processes
// of their own, in turns, on the documents that are its arguments, with every
// operation marked that can be. It prints a Markdown table.
//
//	go run ./generator/internal/bench [-rounds 5] openapi.yaml ...
package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
)

func main() {
	rounds := flag.Int("rounds", 5, "how often each command runs on each document")
	flag.Parse()
	if err := run(*rounds, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(rounds int, documents []string) error {
	if len(documents) == 0 {
		return fmt.Errorf("name one document at least")
	}
	dir, err := os.MkdirTemp("", "idemgen-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	idemgen, upstream := filepath.Join(dir, "idemgen"), filepath.Join(dir, "oapi-codegen")
	for bin, pkg := range map[string]string{
		idemgen:  "github.com/idemgen/idemgen/cmd/idemgen",
		upstream: "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen",
	} {
		build := exec.Command("go", "build", "-o", bin, pkg)
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("building %s: %w", pkg, err)
		}
	}
	fmt.Println("| document | size | operations (marked) | oapi-codegen CPU | idemgen CPU | ratio | idemgen memory |")
	fmt.Println("|---|---|---|---|---|---|---|")
	for i, document := range documents {
		work := filepath.Join(dir, fmt.Sprint(i))
		p, err := prepare(work, document)
		if err != nil {
			return fmt.Errorf("%s: %w", document, err)
		}
		var theirs, ours []time.Duration
		var memory int64
		for range rounds {
			u, err := measure(work, upstream, "-config", "oapi-codegen.yaml", p.document)
			if err != nil {
				return err
			}
			o, err := measure(work, idemgen, "-config", "idemgen.yaml")
			if err != nil {
				return err
			}
			theirs, ours = append(theirs, u.cpu), append(ours, o.cpu)
			memory = max(memory, o.memory)
		}
		t, o := median(theirs), median(ours)
		fmt.Printf("| %s | %d KB | %d (%d) | %d ms | %d ms | %.2f | %d MB |\n",
			filepath.Base(document), p.size>>10, p.operations, p.marked, t.Milliseconds(), o.Milliseconds(), float64(o)/float64(t), memory>>20)
	}
	return nil
}

// refused are the parts of published documents that oapi-codegen v2.8.2
// refuses, as output-options that leave them out.
var refused = map[string]struct{ schemas, operations []string }{
	"formance-ledger.yaml": {schemas: []string{"V2QueryParams"}},
	"svix-server.json":     {operations: []string{"v1.application.delete", "v1.application.get", "patch_application", "v1.message.list", "v1.health.get"}},
}

type prepared struct {
	document           string // absolute
	size               int64
	operations, marked int
}

// prepare makes a package with a config that marks whatever may change
// something and does not stream.
func prepare(dir, document string) (p prepared, err error) {
	if p.document, err = filepath.Abs(document); err != nil {
		return p, err
	}
	info, err := os.Stat(p.document)
	if err != nil {
		return p, err
	}
	p.size = info.Size()
	doc, err := openapi3.NewLoader().LoadFromFile(p.document)
	if err != nil {
		return p, err
	}
	out := refused[filepath.Base(p.document)]
	var marks strings.Builder
	for _, path := range slices.Sorted(maps.Keys(doc.Paths.Map())) {
		for method, op := range doc.Paths.Value(path).Operations() {
			if slices.Contains(out.operations, op.OperationID) {
				continue
			}
			p.operations++
			if method == "GET" || method == "HEAD" || method == "OPTIONS" || method == "TRACE" {
				continue
			}
			p.marked++
			fmt.Fprintf(&marks, "  %q: true\n", method+" "+path)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return p, err
	}
	for name, text := range map[string]string{
		"go.mod": "module bench\n\ngo 1.25.0\n",
		"oapi-codegen.yaml": "package: bench\noutput: api.gen.go\ngenerate: {models: true, std-http-server: true, strict-server: true, client: true}\n" +
			fmt.Sprintf("output-options: {resolve-type-name-collisions: true, exclude-schemas: [%s], exclude-operation-ids: [%s]}\n",
				strings.Join(out.schemas, ", "), strings.Join(out.operations, ", ")),
		"idemgen.yaml": fmt.Sprintf("spec: %q\noperations:\n%s", p.document, marks.String()),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return p, err
		}
	}
	return p, nil
}

type usage struct {
	cpu    time.Duration // user and system time of the process
	memory int64         // its largest resident set, in bytes
}

func measure(dir, bin string, args ...string) (usage, error) {
	cmd := exec.Command(bin, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return usage{}, fmt.Errorf("%s: %w\n%s", filepath.Base(bin), err, out)
	}
	u := usage{cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
	if r, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		u.memory = r.Maxrss << 10 // kilobytes on Linux
	}
	return u, nil
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}
