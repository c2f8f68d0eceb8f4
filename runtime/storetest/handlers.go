package storetest

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"strings"
	"sync"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// An error of the handler comes back as it was, nothing is kept, and the key
// is free at once on every replica.
//
// Covers CON-16, ERR-06, CRA-09.
func errorFreesKey[Tx any](s *suite[Tx]) {
	req := request("k")
	failure := errors.New("insufficient funds")
	for _, st := range s.stores() {
		_, err := st.Execute(s.ctx, req, func(ctx context.Context, tx Tx) (idempotency.Response, error) {
			if err := s.effect(ctx, tx, "failed"); err != nil {
				return idempotency.Response{}, err
			}
			return answer("ignored"), failure
		})
		if err != failure { //nolint:errorlint // as it was, not wrapped
			s.Errorf("Execute: %v, want the handler's own error", err)
		}
		s.wantNoRecord(req.Identity)
	}
	s.wantEffects("failed", 0)
	s.executes(s.stores()[len(s.stores())-1], req, "second")
	s.replays(s.Store, req, answer("second"))
	s.wantEffects("second", 1)
}

// A panic goes on with its own value, nothing is kept, and the key is free.
//
// Covers CTX-04, ERR-06.
func panicFreesKey[Tx any](s *suite[Tx]) {
	req := request("k")
	for _, value := range []any{http.ErrAbortHandler, "a bug"} {
		func() {
			defer func() {
				if got := recover(); got != value {
					s.Errorf("panic with %v, want %v", got, value)
				}
			}()
			_, err := s.Store.Execute(s.ctx, req, func(ctx context.Context, tx Tx) (idempotency.Response, error) {
				if err := s.effect(ctx, tx, "panicked"); err != nil {
					s.Errorf("effect: %v", err)
				}
				panic(value)
			})
			s.Errorf("Execute returned with error %v, want a panic", err)
		}()
		s.wantNoRecord(req.Identity)
	}
	s.wantEffects("panicked", 0)
	s.executes(s.Store, req, "second")
	s.wantEffects("second", 1)
}

// A handler whose goroutine ends, as testing's FailNow ends it, leaves nothing
// and a free key.
//
// Covers CTX-04.
func goexitFreesKey[Tx any](s *suite[Tx]) {
	req := request("k")
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := s.Store.Execute(s.ctx, req, func(ctx context.Context, tx Tx) (idempotency.Response, error) {
			if err := s.effect(ctx, tx, "ended"); err != nil {
				s.Errorf("effect: %v", err)
			}
			runtime.Goexit()
			return answer("ended"), nil
		})
		s.Errorf("Execute returned with error %v, want the goroutine to end", err)
	})
	wg.Wait()
	s.wantNoRecord(req.Identity)
	s.wantEffects("ended", 0)
	s.executes(s.Store, req, "second")
	s.wantEffects("second", 1)
}

// Whatever a handler does to its transaction, an answer is stored exactly
// when its effects are, and an error leaves the key free.
//
// Covers CRA-02, CRA-03, CRA-07, CRA-13, CRA-14.
func faultyHandler[Tx any](h Harness[Tx]) func(*suite[Tx]) {
	return func(s *suite[Tx]) {
		if len(h.Faults) == 0 {
			s.Skip("the store's transaction knows no faults")
		}
		for name, fault := range h.Faults {
			req := request(strings.ReplaceAll(name, " ", "-"))
			_, err := s.Store.Execute(s.ctx, req, func(ctx context.Context, tx Tx) (idempotency.Response, error) {
				if err := s.effect(ctx, tx, name); err != nil {
					return idempotency.Response{}, err
				}
				if err := fault(ctx, tx); err != nil {
					s.Logf("%s: %v, ignored by the handler", name, err)
				}
				return answer(name), nil
			})
			s.Logf("%s: Execute: %v", name, err)
			if err == nil {
				s.replays(s.Store, req, answer(name))
				s.wantEffects(name, 1)
				continue
			}
			s.wantNoRecord(req.Identity)
			s.executes(s.Store, req, name+", second")
			s.wantEffects(name+", second", 1)
		}
	}
}

// A transaction that is used after its handler has returned refuses.
//
// Covers CTX-13.
func lateUse[Tx any](s *suite[Tx]) {
	if s.Effect == nil {
		s.Skip("the store's transaction carries no effects")
	}
	var kept Tx
	_, err := s.Store.Execute(s.ctx, request("k"), func(ctx context.Context, tx Tx) (idempotency.Response, error) {
		kept = tx
		return s.work(answer("first"))(ctx, tx)
	})
	if err != nil {
		s.Fatalf("Execute: %v", err)
	}
	if err := s.Effect(s.ctx, kept, "late"); err == nil {
		s.Error("an effect after the handler's return: no error")
	}
	s.wantEffects("late", 0)
	s.wantEffects("first", 1)
}

// A request that is cancelled before its claim is not executed.
//
// Covers CTX-01.
func cancelledBefore[Tx any](s *suite[Tx]) {
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	if _, err := s.Store.Execute(ctx, request("k"), s.never); !errors.Is(err, idempotency.ErrUnavailable) {
		s.Errorf("Execute: %v, want %v", err, idempotency.ErrUnavailable)
	}
	if _, err := s.Store.Transact(ctx, s.never); !errors.Is(err, idempotency.ErrUnavailable) {
		s.Errorf("Transact: %v, want %v", err, idempotency.ErrUnavailable)
	}
	s.wantNoRecord(request("k").Identity)
	s.executes(s.Store, request("k"), "first")
}

// A client that goes while its request is executed leaves a complete record
// with its effects, or nothing at all and a free key.
//
// Covers CTX-01, CTX-12, ERR-06.
func cancelledDuring[Tx any](s *suite[Tx]) {
	type tag struct{}

	// A handler that takes no notice is committed.
	req := request("finished")
	ctx, cancel := context.WithCancel(context.WithValue(s.ctx, tag{}, "trace"))
	_, err := s.Store.Execute(ctx, req, func(ctx context.Context, tx Tx) (idempotency.Response, error) {
		if ctx.Value(tag{}) != "trace" {
			s.Error("the handler's context lacks the request's values")
		}
		defer cancel()
		return s.work(answer("finished"))(ctx, tx)
	})
	if err != nil {
		s.Errorf("Execute: %v, want the handler's answer to be kept", err)
	}
	s.replays(s.Store, req, answer("finished"))
	s.wantEffects("finished", 1)

	// One that goes on after a statement was refused for the cancellation.
	req = request("went-on")
	ctx, cancel = context.WithCancel(s.ctx)
	_, err = s.Store.Execute(ctx, req, func(ctx context.Context, tx Tx) (idempotency.Response, error) {
		if err := s.effect(ctx, tx, "went-on"); err != nil {
			return idempotency.Response{}, err
		}
		cancel()
		if err := s.effect(ctx, tx, "refused"); err != nil {
			s.Logf("second effect: %v, ignored by the handler", err)
		}
		return answer("went-on"), nil
	})
	if err == nil {
		s.replays(s.Store, req, answer("went-on"))
		s.wantEffects("went-on", 1)
	} else {
		s.wantNoRecord(req.Identity)
		s.wantEffects("went-on", 0)
	}

	// One that gives up.
	req = request("gave-up")
	ctx, cancel = context.WithCancel(s.ctx)
	_, err = s.Store.Execute(ctx, req, func(ctx context.Context, tx Tx) (idempotency.Response, error) {
		if err := s.effect(ctx, tx, "gave-up"); err != nil {
			return idempotency.Response{}, err
		}
		cancel()
		return idempotency.Response{}, ctx.Err()
	})
	if !errors.Is(err, context.Canceled) {
		s.Errorf("Execute: %v, want %v", err, context.Canceled)
	}
	s.wantNoRecord(req.Identity)
	s.wantEffects("gave-up", 0)
	s.executes(s.Store, req, "second")
}

// After a serialization failure work runs again, three times at most, and
// leaves one effect.
//
// Covers ERR-07, ERR-08.
func rerun[Tx any](h Harness[Tx]) func(*suite[Tx]) {
	return func(s *suite[Tx]) {
		if h.Conflict == nil {
			s.Skip("the store knows no serialization failures")
		}
		conflicts := func(n int64) idempotency.Work[Tx] {
			s.runs.Store(0)
			return func(ctx context.Context, tx Tx) (idempotency.Response, error) {
				resp, err := s.work(answer("rerun"))(ctx, tx)
				if err == nil && s.runs.Load() <= n {
					err = h.Conflict(ctx, tx)
				}
				return resp, err
			}
		}
		_, err := s.Store.Execute(s.ctx, request("always"), conflicts(100))
		if !errors.Is(err, idempotency.ErrUnavailable) || s.runs.Load() != 3 {
			s.Errorf("Execute: %v after %d runs, want %v after 3", err, s.runs.Load(), idempotency.ErrUnavailable)
		}
		s.wantNoRecord(request("always").Identity)
		s.wantEffects("rerun", 0)

		res, err := s.Store.Execute(s.ctx, request("twice"), conflicts(2))
		if err != nil || res.Replayed || s.runs.Load() != 3 {
			s.Errorf("Execute: Replayed %v, error %v after %d runs, want an answer after 3", res.Replayed, err, s.runs.Load())
		}
		s.replays(s.Store, request("twice"), answer("rerun"))
		s.wantEffects("rerun", 1)

		// Work that has made an effect elsewhere is not run again.
		once := conflicts(1)
		_, _, err = idempotency.Do(s.ctx, s.Store, request("no-rerun"), func(ctx context.Context, tx Tx) (string, error) {
			idempotency.NoRerun(ctx)
			_, err := once(ctx, tx)
			return "done", err
		})
		if !errors.Is(err, idempotency.ErrUnavailable) || s.runs.Load() != 1 {
			s.Errorf("Do with NoRerun: %v after %d runs, want %v after 1", err, s.runs.Load(), idempotency.ErrUnavailable)
		}
		s.wantNoRecord(request("no-rerun").Identity)

		_, err = s.Store.Transact(s.ctx, conflicts(1))
		if !errors.Is(err, idempotency.ErrUnavailable) || s.runs.Load() != 1 {
			s.Errorf("Transact: %v after %d runs, want %v after 1", err, s.runs.Load(), idempotency.ErrUnavailable)
		}
		s.wantEffects("rerun", 1)
	}
}

// While the server cannot be reached nothing runs, and nothing is said about
// what is stored: a record that cannot be read is not a missing one.
//
// Covers CRA-16.
func unreachable[Tx any](s *suite[Tx]) {
	if s.Cut == nil {
		s.Skip("the store has no server to be cut off from")
	}
	stored, other := request("stored"), request("new")
	s.executes(s.Store, stored, "stored")
	s.Cut()
	s.refuses(s.Store, stored, idempotency.ErrUnavailable)
	s.refuses(s.Store, other, idempotency.ErrUnavailable)
	if s.Effect != nil { // where effects are only gathered, work may run
		_, err := s.Store.Transact(s.ctx, s.work(answer("plain")))
		if !errors.Is(err, idempotency.ErrUnavailable) && !errors.Is(err, idempotency.ErrOutcomeUnknown) {
			s.Errorf("Transact: %v, want %v", err, idempotency.ErrUnavailable)
		}
	}
	_, lookup := s.Store.Lookup(s.ctx, stored.Identity)
	for step, err := range map[string]error{"Lookup": lookup, "Release": s.Store.Release(s.ctx, stored.Identity)} {
		if err == nil || errors.Is(err, idempotency.ErrNotFound) || errors.Is(err, idempotency.ErrInFlight) {
			s.Errorf("%s: %v, want an error of the connection", step, err)
		}
	}
	if s.Replica != nil {
		s.replays(s.Replica, stored, answer("stored"))
		s.executes(s.Replica, other, "new")
	}
}

// Transact commits the effects of work that succeeds and no others.
func transact[Tx any](s *suite[Tx]) {
	for range 2 {
		resp, err := s.Store.Transact(s.ctx, s.work(answer("plain")))
		if err != nil {
			s.Fatalf("Transact: %v", err)
		}
		s.same(resp, answer("plain"))
	}
	s.wantEffects("plain", 2)

	failure := errors.New("insufficient funds")
	_, err := s.Store.Transact(s.ctx, func(ctx context.Context, tx Tx) (idempotency.Response, error) {
		if err := s.effect(ctx, tx, "failed"); err != nil {
			return idempotency.Response{}, err
		}
		return answer("ignored"), failure
	})
	if err != failure { //nolint:errorlint // as it was, not wrapped
		s.Errorf("Transact: %v, want the handler's own error", err)
	}
	s.wantEffects("failed", 0)

	func() {
		defer func() {
			if got := recover(); got != http.ErrAbortHandler { //nolint:errorlint // the same value
				s.Errorf("panic with %v, want %v", got, http.ErrAbortHandler)
			}
		}()
		_, err := s.Store.Transact(s.ctx, func(ctx context.Context, tx Tx) (idempotency.Response, error) {
			if err := s.effect(ctx, tx, "panicked"); err != nil {
				s.Errorf("effect: %v", err)
			}
			panic(http.ErrAbortHandler)
		})
		s.Errorf("Transact returned with error %v, want a panic", err)
	}()
	s.wantEffects("panicked", 0)

	resp, err := s.Store.Transact(s.ctx, s.work(answer("after")))
	if err != nil {
		s.Fatalf("Transact after a panic: %v", err)
	}
	s.same(resp, answer("after"))
	s.wantEffects("after", 1)
}
