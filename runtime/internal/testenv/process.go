package testenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// watchScript runs a server for as long as its standard input stays open. The
// writing end belongs to the test process: whether that exits, panics or is
// killed, the pipe closes, the server is ended by its process id, and its
// directory is removed. A server that ends by itself leaves its log behind for
// the error message.
const watchScript = `
ulimit -c 0
dir=$1 signal=$2
shift 2
exec 3<&0 </dev/null
"$@" >"$dir/log" 2>&1 3<&- &
server=$!
{ cat <&3 >/dev/null; : >"$dir/stopped"; kill -s "$signal" $server; } 2>/dev/null &
watcher=$!
wait $server
kill $watcher 2>/dev/null
if [ -e "$dir/stopped" ]; then rm -rf "$dir"; fi
`

// startTimeout is generous: the first start may pull a container image, and
// build machines are slow.
const startTimeout = 5 * time.Minute

// process is a server that ends with this process.
type process struct {
	dir    string
	stdin  io.Closer
	exited chan struct{}
	once   sync.Once
}

// supervise runs argv as a server whose log and data lie in dir, and which the
// signal ends without waiting for its clients.
func supervise(dir, signal string, argv []string) (*process, error) {
	cmd := command(dir, "/bin/sh", append([]string{"-c", watchScript, "sh", dir, signal}, argv...)...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	p := &process{dir: dir, stdin: stdin, exited: make(chan struct{})}
	go func() {
		defer close(p.exited)
		// The exit status is the script's; what went wrong stands in the log.
		_ = cmd.Wait()
	}()
	return p, nil
}

// stop ends the server and removes its directory. It may be called again.
func (p *process) stop() {
	p.once.Do(func() {
		p.stdin.Close()
		<-p.exited
		os.RemoveAll(p.dir)
	})
}

// waitReady asks ready until it agrees. A server that is not ready in time, or
// ends first, is stopped and the error carries its log.
func (p *process) waitReady(ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
			continue
		case <-p.exited:
			err = errors.New("the server ended by itself")
		case <-ctx.Done():
			err = fmt.Errorf("not ready after %v: %w", startTimeout, err)
		}
		log, _ := os.ReadFile(filepath.Join(p.dir, "log")) // it may not exist yet
		p.stop()
		return fmt.Errorf("%w; its log:\n%s", err, log)
	}
}

// freePort returns a TCP port of the loopback interface that nobody uses now.
func freePort() (string, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

// command prepares a program that works in dir, as the account that owns it.
// What it starts ends with this process, not with a context.
func command(dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.Background(), name, args...)
	cmd.Dir = dir
	// PostgreSQL on macOS refuses to start under a locale that it does not know.
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	asServerAccount(cmd)
	return cmd
}
