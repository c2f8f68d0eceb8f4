package e2e

import (
	"context"
	"net/http"
	"testing"
	"time"
)

// Await tries until there is no error. It fails after a minute.
func Await(t *testing.T, what string, try func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("waiting until %s: %v", what, err)
		}
	}
}

// Settle sends a request until it is no longer in flight, and returns its
// answer: a database may take a moment to notice that a killed client has gone.
// It fails after a minute.
func Settle(t *testing.T, send func(ctx context.Context) (Answer, error)) Answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		a, err := send(ctx)
		if err != nil {
			t.Fatalf("the request got no answer: %v", err)
		}
		if a.Status != http.StatusConflict {
			return a
		}
	}
}
