package memstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// A claim leaves nothing behind, whatever way its work has ended.
//
// Covers STO-21.
func TestClaimsAreDropped(t *testing.T) {
	t.Parallel()
	s := New()
	for _, work := range []idempotency.Work[struct{}]{
		func(context.Context, struct{}) (idempotency.Response, error) {
			return idempotency.Response{Status: 204}, nil
		},
		func(context.Context, struct{}) (idempotency.Response, error) {
			return idempotency.Response{}, errors.New("failed")
		},
		func(context.Context, struct{}) (idempotency.Response, error) { panic("a bug") },
	} {
		for _, key := range []string{"a", "b", "a"} {
			func() {
				defer func() { _ = recover() }()
				req := idempotency.Request{Identity: idempotency.Identity{Key: key}, Retention: time.Nanosecond}
				_, _ = s.Execute(t.Context(), req, work)
			}()
		}
	}
	if len(s.running) != 0 {
		t.Errorf("%d claims left", len(s.running))
	}
	if _, err := s.Sweep(t.Context()); err != nil || len(s.records) != 0 {
		t.Errorf("%d records left after the sweep, error %v", len(s.records), err)
	}
}
