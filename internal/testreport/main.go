// Testreport reads the output of one or more `go test -json` runs and prints
// what a person wants of it: go test's usual line for each package, everything
// that failing tests wrote, every skipped test with its reason, and the totals.
// It exits 1 if a test or a build failed, or if no test ran at all.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

func main() {
	testedOn := flag.String("tested-on", "", "compare the servers that tests used with the versions in this `file#section`")
	flag.Parse()
	promised, err := promises(*testedOn)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(1)
	}
	os.Exit(run(os.Stdin, os.Stdout, promised))
}

// event is one line of go test -json, as `go doc test2json` describes it.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// test names one test, or a package as a whole when name is empty.
type test struct{ pkg, name string }

type report struct {
	out                     io.Writer
	output                  map[test]*strings.Builder
	skips                   []string
	used                    map[server]bool
	passed, failed, skipped int
	broken                  bool
}

// run reports on in. Text that is not empty must name the servers' versions.
func run(in io.Reader, out io.Writer, promised string) int {
	r := report{out: out, output: map[test]*strings.Builder{}, used: map[server]bool{}}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		r.line(line)
		if err != nil {
			break
		}
	}
	r.servers(promised)
	return r.close()
}

// line takes one line of input. What is not an event, such as an error of the
// go command itself, is passed on.
func (r *report) line(line string) {
	if strings.TrimSpace(line) == "" {
		return
	}
	var e event
	if err := json.Unmarshal([]byte(line), &e); err != nil || e.Action == "" {
		fmt.Fprint(r.out, line)
		return
	}
	t := test{e.Package, e.Test}
	switch e.Action {
	case "output":
		if s, ok := serverOf(e.Output); ok {
			r.used[s] = true
			return
		}
		r.write(t, e.Output)
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "build-fail":
		r.broken = true
	case "pass", "fail", "skip":
		r.end(t, e.Action)
	}
}

func (r *report) write(t test, text string) {
	if r.output[t] == nil {
		r.output[t] = &strings.Builder{}
	}
	r.output[t].WriteString(text)
}

// end prints a finished test or package and forgets its output.
func (r *report) end(t test, action string) {
	var text string
	if b := r.output[t]; b != nil {
		text = b.String()
		delete(r.output, t)
	}
	if t.name == "" {
		r.endPackage(text, action)
		return
	}
	switch action {
	case "pass":
		r.passed++
	case "fail":
		r.failed++
		fmt.Fprint(r.out, text)
	case "skip":
		r.skipped++
		r.skips = append(r.skips, fmt.Sprintf("--- SKIP: %s %s: %s", t.pkg, t.name, reason(text)))
	}
}

// endPackage prints the line that go test closes a package with, or all that a
// failing one wrote outside its tests.
func (r *report) endPackage(text, action string) {
	if action == "fail" {
		r.broken = true
		fmt.Fprint(r.out, text)
		return
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "ok ") {
			fmt.Fprint(r.out, line)
		}
	}
}

// reason returns what a skipped test said, without go test's own lines.
func reason(text string) string {
	var said []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
			said = append(said, line)
		}
	}
	return strings.Join(said, " ")
}

// close prints the skips and the totals, and returns the exit code.
func (r *report) close() int {
	// A test process that was killed leaves tests that never ended.
	var unfinished []string
	for t, b := range r.output {
		if t.name != "" {
			unfinished = append(unfinished, fmt.Sprintf("--- UNFINISHED: %s %s\n%s", t.pkg, t.name, b))
		}
	}
	slices.Sort(unfinished)
	fmt.Fprint(r.out, strings.Join(unfinished, ""))
	for _, line := range r.skips {
		fmt.Fprintln(r.out, line)
	}
	fmt.Fprintf(r.out, "%d passed, %d failed, %d skipped\n", r.passed, r.failed, r.skipped)
	if r.broken || r.failed > 0 || r.passed == 0 || len(unfinished) > 0 {
		return 1
	}
	return 0
}
