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

// Stall wraps the store of a server process so that the first execution stops
// at the point that its environment names. Without one it returns store.
func Stall[Tx any](store idempotency.Store[Tx]) idempotency.Store[Tx] {
	if p := Point(os.Getenv(stallVariable)); p != "" {
		return &stall[Tx]{Store: store, point: p}
	}
	return store
}

type stall[Tx any] struct {
	idempotency.Store[Tx]
	point Point
	once  sync.Once
}

// at stops the first caller at p. It returns when ctx is done at the points
// that wait for the client to go, and never at the others.
func (s *stall[Tx]) at(ctx context.Context, p Point) {
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

func (s *stall[Tx]) Execute(ctx context.Context, req idempotency.Request, work idempotency.Work[Tx]) (idempotency.Result, error) {
	s.at(ctx, BeforeClaim)
	result, err := s.Store.Execute(ctx, req, func(ctx context.Context, tx Tx) (idempotency.Response, error) {
		s.at(ctx, InHandler)
		s.at(ctx, UntilGone)
		resp, err := work(ctx, tx)
		s.at(ctx, BeforeCommit)
		s.at(ctx, DoneUntilGone)
		return resp, err
	})
	s.at(ctx, AfterCommit)
	return result, err
}
