package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/internal/testenv"
	"github.com/idemgen/idemgen/runtime/redisstore"
)

// The environment of a process that is the other one of a test.
const (
	envChild  = "REDISSTORE_TEST_CHILD" // what it does
	envAddr   = "REDISSTORE_TEST_ADDR"
	envPrefix = "REDISSTORE_TEST_PREFIX"
)

// lease is how long a test waits for the key of a process that has died.
const lease = 500 * time.Millisecond

// quiet drops what go-redis writes about every connection that fails: tests
// let many fail.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func TestMain(m *testing.M) {
	redis.SetLogger(quiet{})
	if role := os.Getenv(envChild); role != "" {
		err := child(role, os.Getenv(envAddr), os.Getenv(envPrefix))
		fmt.Println("child:", err)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child executes a request, and is killed or stopped on its way.
func child(role, addr, prefix string) error {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
	s, err := redisstore.New(ctx, client, redisstore.WithPrefix(prefix), redisstore.WithLease(lease, time.Minute))
	if err != nil {
		return err
	}
	_, err = s.Execute(ctx, request("k"), func(ctx context.Context, tx *redisstore.Tx) (idempotency.Response, error) {
		if role == "killed in work" {
			kill()
		}
		if role == "stalled" {
			fmt.Println("in work")
			if _, err := io.ReadAll(os.Stdin); err != nil { // until the parent has seen enough
				return idempotency.Response{}, err
			}
		}
		return created("child"), effect(ctx, tx, "effect-"+prefix)
	})
	if role == "killed after completion" && err == nil {
		kill()
	}
	return err
}

// kill ends this process as SIGKILL does: no deferred call runs.
func kill() {
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
	select {}
}

func command(t *testing.T, role, addr, prefix string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), envChild+"="+role, envAddr+"="+addr, envPrefix+"="+prefix)
	return cmd
}

// A process is killed at two points of a first request. Before completion the
// key is in flight for its lease, no longer, and then executed; after it the
// answer is replayed. There is one effect.
//
// Covers CRA-01, CRA-02, CRA-03, CRA-04.
func TestKilledProcess(t *testing.T) {
	t.Parallel()
	for role, replayed := range map[string]bool{"killed in work": false, "killed after completion": true} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			addr := testenv.Redis(t)
			client := newClient(t, addr)
			prefix := prefixOf(t)
			s := newStore(t, client, redisstore.WithPrefix(prefix))
			out, err := command(t, role, addr, prefix).CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.Exited() {
				t.Fatalf("the process was not killed: %v\n%s", err, out)
			}
			start := time.Now()
			res := settled(t, s, request("k"), pay("effect-"+prefix, "parent"))
			if res.Replayed != replayed {
				t.Errorf("%+v, want Replayed %v", res, replayed)
			}
			if waited := time.Since(start); waited > lease+10*time.Second {
				t.Errorf("the key was free after %v, want about the lease, %v", waited, lease)
			}
			wantEffects(t, client, "effect-"+prefix, 1)
		})
	}
}

// A process is stopped in work for longer than its lease, as a long pause of the
// machine does. Another takes over; the first one's answer is refused when it
// goes on.
//
// Covers CON-10.
func TestStoppedProcess(t *testing.T) {
	t.Parallel()
	addr := testenv.Redis(t)
	client := newClient(t, addr)
	prefix := prefixOf(t)
	s := newStore(t, client, redisstore.WithPrefix(prefix))
	cmd := command(t, "stalled", addr, prefix)
	stdin, errIn := cmd.StdinPipe()
	stdout, errOut := cmd.StdoutPipe()
	if err := errors.Join(errIn, errOut, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, len("in work\n"))
	if _, err := io.ReadFull(stdout, said); err != nil || string(said) != "in work\n" {
		t.Fatalf("the process said %q, %v", said, err)
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	res := settled(t, s, request("k"), pay("effect-"+prefix, "parent"))
	if res.Replayed {
		t.Errorf("take-over: %+v", res)
	}
	if err := errors.Join(cmd.Process.Signal(syscall.SIGCONT), stdin.Close()); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(stdout)
	if err := errors.Join(err, cmd.Wait()); err != nil || !strings.Contains(string(rest), string(idempotency.CodeUnavailable)) {
		t.Errorf("the stopped process ended with %q, %v; want it refused", rest, err)
	}
	wantEffects(t, client, "effect-"+prefix, 1)
	if res, err := s.Execute(t.Context(), request("k"), never(t)); err != nil || string(res.Body) != "parent" {
		t.Errorf("retry: %+v, %v", res, err)
	}
}
