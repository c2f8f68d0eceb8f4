//go:build unix

package sqlstore_test

import (
	"bufio"
	"context"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// A process that stands still inside its handler until its lease has passed is
// replaced by one of those who try. When it goes on it learns that its lease is
// lost, and its answer is dropped.
//
// Covers CON-10.
func TestStoppedProcess(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "test.db")
	db := openDB(t, file, wal, 0)
	prepare(t, db)
	cmd := command(t, "stopped", file)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewReader(out)
	if line, err := said.ReadString('\n'); line != "at work\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}

	var wg sync.WaitGroup
	answers := make(chan idempotency.Result, 2)
	for range cap(answers) {
		leases := idempotency.Leases(newStore(t, db), time.Minute)
		wg.Go(func() {
			for {
				res, err := leases.Execute(t.Context(), refundRequest(), func(_ context.Context, l *idempotency.Lease) (idempotency.Response, error) {
					return created(l.Token().String()), nil
				})
				if isInFlight(err) {
					time.Sleep(time.Millisecond) // as a client would
					continue
				}
				if err != nil {
					t.Errorf("take-over: %v", err)
				}
				answers <- res
				return
			}
		})
	}
	wg.Wait()
	first, second := <-answers, <-answers
	if first.Replayed == second.Replayed || string(first.Body) != string(second.Body) {
		t.Errorf("%q (replayed: %t) and %q (replayed: %t), want one run and its replay", first.Body, first.Replayed, second.Body, second.Replayed)
	}

	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(said)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	cause, answer, _ := strings.Cut(string(rest), "answer: ")
	if !strings.Contains(cause, idempotency.ErrLeaseLost.Error()) || !strings.Contains(answer, string(idempotency.CodeOutcomeUnknown)) {
		t.Errorf("the stopped process says %q", rest)
	}
	rec, err := newStore(t, db).Lookup(t.Context(), refundRequest().Identity)
	if err != nil || string(rec.Response.Body) != string(first.Body) {
		t.Errorf("Lookup: %q, %v; want %q", rec.Response.Body, err, first.Body)
	}
}
