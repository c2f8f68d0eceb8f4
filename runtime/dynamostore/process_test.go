package dynamostore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/dynamostore"
	"github.com/idemgen/idemgen/runtime/idempotency"
)

// The environment of a process that is the other one of a test.
const (
	envChild    = "DYNAMOSTORE_TEST_CHILD" // where it is killed
	envURL      = "DYNAMOSTORE_TEST_URL"
	envTable    = "DYNAMOSTORE_TEST_TABLE"
	envBusiness = "DYNAMOSTORE_TEST_BUSINESS"
	envPrefix   = "DYNAMOSTORE_TEST_PREFIX"
)

// lease is how long a test waits for the key of a process that has died.
const lease = 500 * time.Millisecond

func TestMain(m *testing.M) {
	if point := os.Getenv(envChild); point != "" {
		fmt.Println("child:", child(point))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child executes a request and is killed on its way.
func child(point string) error {
	ctx := context.Background()
	s, err := dynamostore.New(ctx, newClient(os.Getenv(envURL)), os.Getenv(envTable),
		dynamostore.WithPrefix(os.Getenv(envPrefix)), dynamostore.WithLease(lease, time.Minute), dynamostore.WithClockSkew(0))
	if err != nil {
		return err
	}
	_, err = s.Execute(ctx, request("k"), func(_ context.Context, tx *dynamostore.Tx) (idempotency.Response, error) {
		err := tx.Queue(increment(os.Getenv(envBusiness), os.Getenv(envPrefix)))
		if point == "in work" {
			kill()
		}
		return created("child"), err
	})
	if point == "after completion" && err == nil {
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

// A process is killed at two points of a first request. Before completion the
// key is in flight for its lease, no longer, and then executed; after it the
// answer is replayed. There is one effect.
//
// Covers CRA-01, CRA-02, CRA-03, CRA-04.
func TestKilledProcess(t *testing.T) {
	t.Parallel()
	for point, replayed := range map[string]bool{"in work": false, "after completion": true} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			prefix := prefixOf(t)
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), envChild+"="+point, envURL+"="+kumo.url(t),
				envTable+"="+kumo.table(t), envBusiness+"="+kumo.business(t), envPrefix+"="+prefix)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.Exited() {
				t.Fatalf("the process was not killed: %v\n%s", err, out)
			}
			s := kumo.open(t, newClient(kumo.url(t)), dynamostore.WithPrefix(prefix), dynamostore.WithClockSkew(0))
			start := time.Now()
			res := settled(t, s, request("k"), kumo.pay(t, prefix, "parent"))
			if body := string(res.Body); res.Replayed != replayed || replayed && body != "child" || !replayed && body != "parent" {
				t.Errorf("%q, Replayed %v, want Replayed %v", body, res.Replayed, replayed)
			}
			if waited := time.Since(start); waited > lease+10*time.Second {
				t.Errorf("the key was free after %v, want about the lease, %v", waited, lease)
			}
			kumo.wantEffects(t, prefix, 1)
		})
	}
}
