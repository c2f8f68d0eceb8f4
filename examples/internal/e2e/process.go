package e2e

import (
	"bufio"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// childVariable marks a process that a test has started from its own binary.
const childVariable = "E2E_CHILD"

// IsChild reports whether this process is a server that a test has started,
// and must serve instead of running tests.
func IsChild() bool { return os.Getenv(childVariable) != "" }

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
	p := &Process{cmd: exec.Command(exe, args...), stalled: make(chan struct{}), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), childVariable+"=1", stallVariable+"="+string(point))
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
