// Package e2e drives the example servers as real processes: it stops them at
// a chosen point, kills them, and counts what they left behind.
package e2e

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// Point is where a [Stall] stops its process.
type Point string

// The points of one execution, in order.
const (
	BeforeClaim   Point = "before-claim"
	InHandler     Point = "in-handler"
	BeforeCommit  Point = "before-commit"
	AfterCommit   Point = "after-commit"
	UntilGone     Point = "handler-until-client-gone" // goes on when the client has gone
	DoneUntilGone Point = "done-until-client-gone"    // the same, after the handler has returned
)

// stallVariable carries the point into a server process.
const stallVariable = "E2E_STALL"

// Stalled is the line that a process prints when it has reached its point.
const Stalled = "stalled"

// Stopper stops its process at the point that the environment names, once.
type Stopper struct {
	point Point
	once  sync.Once
}

// NewStopper returns a Stopper for a process that [Start] has started. It
// stops nothing where no point was given.
func NewStopper() *Stopper { return &Stopper{point: Point(os.Getenv(stallVariable))} }

// At stops the first caller at p; others wait until that one goes on. It
// returns when ctx is done at the points that wait for the client to go, and
// never at the others.
func (s *Stopper) At(ctx context.Context, p Point) {
	if p != s.point {
		return
	}
	s.once.Do(func() {
		fmt.Println(Stalled)
		if p == UntilGone || p == DoneUntilGone {
			<-ctx.Done()
			return
		}
		select {}
	})
}

// Stall wraps the store of a server process so that the first execution stops
// at the point that its environment names. Without one it returns store.
func Stall[Tx any](store idempotency.Store[Tx]) idempotency.Store[Tx] {
	if stop := NewStopper(); stop.point != "" {
		return &stall[Tx]{store, stop}
	}
	return store
}

type stall[Tx any] struct {
	idempotency.Store[Tx]
	stop *Stopper
}

func (s *stall[Tx]) Execute(ctx context.Context, req idempotency.Request, work idempotency.Work[Tx]) (idempotency.Result, error) {
	s.stop.At(ctx, BeforeClaim)
	result, err := s.Store.Execute(ctx, req, func(ctx context.Context, tx Tx) (idempotency.Response, error) {
		s.stop.At(ctx, InHandler)
		s.stop.At(ctx, UntilGone)
		resp, err := work(ctx, tx)
		s.stop.At(ctx, BeforeCommit)
		s.stop.At(ctx, DoneUntilGone)
		return resp, err
	})
	s.stop.At(ctx, AfterCommit)
	return result, err
}
