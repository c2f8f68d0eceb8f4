package e2e

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// childVariable marks a process that a test has started from its own binary.
const childVariable = "E2E_CHILD"

// Main is the body of TestMain. It runs the tests, or child with the arguments
// given to [Start] in a process that a test has started from its own binary.
func Main(m *testing.M, child func(args []string) error) {
	if os.Getenv(childVariable) == "" {
		os.Exit(m.Run())
	}
	if err := child(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Process is a server in a process of its own.
type Process struct {
	URL     string
	cmd     *exec.Cmd
	stalled chan struct{}
	done    chan struct{} // closed when its output has ended
}

var serving = regexp.MustCompile(`address=(\S+)`)

// Start starts this test binary as a server, to be stopped at point (""
// for never), with args, and returns when it serves. It is killed when the
// test ends.
func Start(t *testing.T, point Point, args ...string) *Process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), childVariable+"=1", stallVariable+"="+string(point))
	return start(t, cmd)
}

// Build builds a program of this module, by its import path, and returns its
// file.
func Build(t *testing.T, pkg string) string {
	t.Helper()
	exe := filepath.Join(t.TempDir(), path.Base(pkg))
	if out, err := exec.Command("go", "build", "-o", exe, pkg).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return exe
}

// StartProgram is [Start] for a program of its own, which is never stopped at
// a point.
func StartProgram(t *testing.T, exe string, args ...string) *Process {
	t.Helper()
	return start(t, exec.Command(exe, args...))
}

func start(t *testing.T, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{cmd: cmd, stalled: make(chan struct{}), done: make(chan struct{})}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stderr = p.cmd.Stdout
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	url := make(chan string, 1)
	go func() {
		defer close(p.done)
		defer close(url)
		lines := bufio.NewScanner(out)
		var tail []string
		for lines.Scan() {
			line := lines.Text()
			if m := serving.FindStringSubmatch(line); m != nil && len(url) == 0 {
				url <- m[1]
			}
			if line == Stalled {
				close(p.stalled)
			}
			if tail = append(tail, line); len(tail) > 20 {
				tail = tail[1:]
			}
		}
		if t.Failed() {
			t.Logf("the server's last lines:\n%s", strings.Join(tail, "\n"))
		}
	}()
	p.URL = <-url
	if p.URL == "" {
		t.Fatal("the server ended before it served")
	}
	return p
}

// AwaitStall returns when the process has reached its point.
func (p *Process) AwaitStall(t *testing.T) {
	t.Helper()
	select {
	case <-p.stalled:
	case <-p.done:
		t.Fatal("the server ended before it reached its point")
	}
}

// Kill kills the process with SIGKILL and waits until it has gone.
func (p *Process) Kill() {
	// A process that has gone already cannot be killed again.
	_ = p.cmd.Process.Kill()
	<-p.done
	_ = p.cmd.Wait()
}
