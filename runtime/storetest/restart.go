package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// RunRestart examines what a restart of the database leaves: between calls, in
// the middle of one, and under load. The stores keep their pools, in which all
// connections are dead afterwards. h.Open opens them on a server that no other
// test uses; restart ends it without notice and starts it on the same data. The
// fixture's Effects must not need a connection from before.
//
// The checks run one after the other.
func RunRestart[Tx any](t *testing.T, h Harness[Tx], restart func(t *testing.T)) {
	for _, c := range []struct {
		name  string
		check func(s *suite[Tx], restart func())
	}{
		{"BetweenCalls", restartBetweenCalls[Tx]},
		{"InWork", restartInWork[Tx]},
		{"UnderLoad", restartUnderLoad[Tx]},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, h)
			c.check(s, func() { restart(s.T) })
		})
	}
}

// eventually executes req until it is not refused for the outage.
func (s *suite[Tx]) eventually(st Store[Tx], req idempotency.Request, work idempotency.Work[Tx]) idempotency.Result {
	s.Helper()
	for {
		res, err := st.Execute(s.ctx, req, work)
		switch {
		case err == nil:
			return res
		case !errors.Is(err, idempotency.ErrUnavailable) && !errors.Is(err, idempotency.ErrInFlight):
			s.Fatalf("Execute: %v, want %v until it works again", err, idempotency.ErrUnavailable)
		}
		select {
		case <-time.After(10 * time.Millisecond): // as a client would
		case <-s.ctx.Done():
			s.Fatalf("Execute: %v still", err)
		}
	}
}

// What was answered before is replayed, what failed is executed, and what is
// new is executed once, whatever the pool's dead connections make of it at
// first.
//
// Covers CRA-16.
func restartBetweenCalls[Tx any](s *suite[Tx], restart func()) {
	s.executes(s.Store, request("before"), "before")
	failure := errors.New("insufficient funds")
	_, err := s.Store.Execute(s.ctx, request("failed"), func(ctx context.Context, tx Tx) (idempotency.Response, error) {
		if err := s.effect(ctx, tx, "failed"); err != nil {
			return idempotency.Response{}, err
		}
		return idempotency.Response{}, failure
	})
	if !errors.Is(err, failure) {
		s.Errorf("Execute: %v, want the handler's error", err)
	}
	restart()
	for _, st := range s.stores() {
		res := s.eventually(st, request("before"), s.never)
		if !res.Replayed {
			s.Error("Replayed is false, want true")
		}
		s.same(res.Response, answer("before"))
	}
	restart() // with pools that have been through it
	for i, label := range []string{"failed", "after"} {
		st := s.stores()[i%len(s.stores())]
		s.same(s.eventually(st, request(label), s.work(answer(label))).Response, answer(label))
	}
	for _, label := range []string{"before", "failed", "after"} {
		s.wantEffects(label, 1)
	}
}

// A request whose server goes away while its handler runs leaves nothing, though
// the handler did not notice: the retry is executed.
//
// Covers CRA-09.
func restartInWork[Tx any](s *suite[Tx], restart func()) {
	_, err := s.Store.Execute(s.ctx, request("k"), func(ctx context.Context, tx Tx) (idempotency.Response, error) {
		if err := s.effect(ctx, tx, "k"); err != nil {
			return idempotency.Response{}, err
		}
		restart()
		return answer("lost"), nil
	})
	if !errors.Is(err, idempotency.ErrUnavailable) && !errors.Is(err, idempotency.ErrOutcomeUnknown) {
		s.Errorf("Execute: %v, want %v", err, idempotency.ErrUnavailable)
	}
	res := s.eventually(s.stores()[len(s.stores())-1], request("k"), s.work(answer("k")))
	if res.Replayed {
		s.Error("Replayed is true, want a run of work")
	}
	s.same(res.Response, answer("k"))
	s.wantEffects("k", 1)
}

// Requests that are sent again until they are answered have one effect each, and
// every answer stands.
//
// Covers CRA-09, CRA-16.
func restartUnderLoad[Tx any](s *suite[Tx], restart func()) {
	f := RunOutage(s.T, Outage[Tx]{
		Stores: s.stores(),
		Effect: s.effect,
		Effects: func(ctx context.Context, labels []string) (map[string]int, error) {
			counts := map[string]int{}
			for _, label := range labels {
				if s.Effects == nil {
					counts[label] = 1
					continue
				}
				n, err := s.Effects(ctx, label)
				if err != nil {
					return nil, err
				}
				counts[label] = n
			}
			return counts, nil
		},
		Strike: func(*testing.T) { restart() },
	})
	s.Log(f)
	if f.Changed > 0 {
		s.Errorf("%d requests were answered and then otherwise", f.Changed)
	}
}
