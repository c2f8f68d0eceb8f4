package idempotency_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// keeper counts sweeps and fails the second one.
type keeper struct {
	idempotency.Keeper
	mu     sync.Mutex
	sweeps int
}

func (k *keeper) Sweep(context.Context) (int64, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sweeps++
	if k.sweeps == 2 {
		return 7, errors.New("no connection")
	}
	return 3, nil
}

// The sweeper sweeps every interval, goes on after a failure, says what it
// did, and ends with its context.
// Covers EXP-09.
func TestRunSweeper(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var log bytes.Buffer
		k := &keeper{}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			idempotency.RunSweeper(ctx, k, time.Hour, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
		}()
		time.Sleep(3 * time.Hour) // the bubble's clock: no time passes
		synctest.Wait()
		stop()
		<-ended
		if k.sweeps != 3 {
			t.Errorf("%d sweeps in three hours, want 3", k.sweeps)
		}
		if got := log.String(); strings.Count(got, "level=DEBUG") != 2 || !strings.Contains(got, "level=ERROR") || !strings.Contains(got, "no connection") {
			t.Error(got)
		}
	})
}
