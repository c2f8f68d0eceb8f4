// Bench measures what idemgen costs beside oapi-codegen, to generate and to
// check that nothing has changed: all run as processes of their own, in turns, on
// the documents that are its arguments, with every operation marked that can be.
// It prints a Markdown table.
//
//	go run ./generator/internal/bench [-rounds 5] openapi.yaml ...
package main

import (
	"cmp"
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
	fmt.Println("| document | size | operations (marked) | oapi-codegen | idemgen | ratio | idemgen -check | ratio | memory of each |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|")
	for i, document := range documents {
		work := filepath.Join(dir, fmt.Sprint(i))
		p, err := prepare(work, document)
		if err != nil {
			return fmt.Errorf("%s: %w", document, err)
		}
		commands := []command{
			{bin: upstream, args: []string{"-config", "oapi-codegen.yaml", p.document}},
			{bin: idemgen, args: []string{"-config", "idemgen.yaml"}, removes: "idempotent.gen.go"},
			{bin: idemgen, args: []string{"-check", "-config", "idemgen.yaml"}},
		}
		for range rounds {
			for i := range commands {
				if err := commands[i].run(work); err != nil {
					return err
				}
			}
		}
		theirs, ours, check := &commands[0], &commands[1], &commands[2]
		fmt.Printf("| %s | %d KB | %d (%d) | %s | %s | %.2f | %s | %.2f | %d, %d, %d MB |\n",
			filepath.Base(document), p.size>>10, p.operations, p.marked,
			theirs, ours, ours.ratio(theirs), check, check.ratio(theirs),
			theirs.memory>>20, ours.memory>>20, check.memory>>20)
	}
	return nil
}

// command is one that is measured, and what its runs took.
type command struct {
	bin     string
	args    []string
	removes string // a file that a run finds missing, or ""

	cpu    []time.Duration // user and system time
	wall   []time.Duration
	memory int64 // the largest resident set of all runs, in bytes
}

func (c *command) run(dir string) error {
	if c.removes != "" {
		if err := os.RemoveAll(filepath.Join(dir, c.removes)); err != nil {
			return err
		}
	}
	cmd := exec.Command(c.bin, c.args...)
	cmd.Dir = dir
	start := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(c.bin), err, out)
	}
	c.wall = append(c.wall, time.Since(start))
	c.cpu = append(c.cpu, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	if r, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		c.memory = max(c.memory, r.Maxrss<<10) // kilobytes on Linux
	}
	return nil
}

// String is the CPU time and, in brackets, the time on the clock.
func (c *command) String() string {
	return fmt.Sprintf("%d (%d) ms", median(c.cpu).Milliseconds(), median(c.wall).Milliseconds())
}

// ratio is the median of those of the CPU times in each round.
func (c *command) ratio(of *command) float64 {
	ratios := make([]float64, len(c.cpu))
	for i := range ratios {
		ratios[i] = float64(c.cpu[i]) / float64(of.cpu[i])
	}
	return median(ratios)
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

func median[T cmp.Ordered](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
