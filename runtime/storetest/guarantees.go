package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// What a store promises is one of the levels that there are, and the fixture can
// show it: effects for a store that says what is atomic, a replica for one whose
// answers survive their process. Those that survive a failover say so to the
// compiler too.
func guarantees[Tx any](h Harness[Tx]) func(*suite[Tx]) {
	return func(s *suite[Tx]) {
		g := s.Store.Guarantees()
		switch g.Atomic {
		case idempotency.AtomicNothing, idempotency.AtomicQueued, idempotency.AtomicTransaction:
		default:
			s.Errorf("Guarantees: %q is no level of Atomicity", g.Atomic)
		}
		switch g.Fenced {
		case idempotency.FencedByNothing, idempotency.FencedByTransaction, idempotency.FencedByToken:
		default:
			s.Errorf("Guarantees: %q is no kind of Fencing", g.Fenced)
		}
		switch g.Survives {
		case idempotency.SurvivesNothing, idempotency.SurvivesProcess, idempotency.SurvivesFailover:
		default:
			s.Errorf("Guarantees: %q is no level of Survival", g.Survives)
		}
		if shown := g.Atomic != idempotency.AtomicNothing && h.NoEffects == ""; shown != (s.Effect != nil) || shown != (s.Effects != nil) {
			s.Errorf("Guarantees: %q is atomic with answers; a store that says so shows it by Fixture.Effect and Effects, and no other has them", g.Atomic)
		}
		if shared := g.Survives != idempotency.SurvivesNothing; shared != (s.Replica != nil) {
			s.Errorf("Guarantees: an answer survives %s; a store whose answers survive their process shows it by Fixture.Replica, and no other has one", g.Survives)
		}
		if _, durable := s.Store.(idempotency.DurableStore[Tx]); durable != (g.Survives == idempotency.SurvivesFailover) {
			s.Errorf("Guarantees: an answer survives %s; that the store is an idempotency.DurableStore is %v", g.Survives, durable)
		}
		if s.Replica != nil && s.Replica.Guarantees() != g {
			s.Errorf("the replica guarantees %+v, the store %+v", s.Replica.Guarantees(), g)
		}
	}
}

// An attempt that runs for so long that another one may take its claim over, by
// the clock, either keeps it out or keeps nothing itself.
func fenced[Tx any](s *suite[Tx]) {
	if s.Replica == nil || s.oneWriter {
		s.Skip("no other attempt can be made beside the first")
	}
	req := request("k")
	var taken idempotency.Result
	var refused error
	first, lost := s.Store.Execute(s.ctx, req, func(ctx context.Context, tx Tx) (idempotency.Response, error) {
		if err := s.effect(ctx, tx, "first"); err != nil {
			return idempotency.Response{}, err
		}
		s.advance(time.Hour)
		taken, refused = s.Replica.Execute(s.ctx, req, s.work(answer("second")))
		return answer("first"), nil
	})
	switch {
	case refused == nil && lost != nil:
		s.same(taken.Response, answer("second"))
		s.wantEffects("first", 0)
		s.wantEffects("second", 1)
		s.replays(s.Store, req, answer("second"))
	case errors.Is(refused, idempotency.ErrInFlight) && lost == nil:
		s.same(first.Response, answer("first"))
		s.wantEffects("first", 1)
		s.wantEffects("second", 0)
		s.replays(s.Replica, req, answer("first"))
	default:
		s.Errorf("the first attempt: %v; one beside it: %v; want one of them to fail", lost, refused)
	}
	if refused == nil && s.Store.Guarantees().Fenced == idempotency.FencedByNothing {
		s.Error("a claim was taken over, and the store says that it is fenced by nothing")
	}
}
