package storetest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// RunLeases runs every check of lease mode as a parallel subtest of t. The
// stores of the harness must be [idempotency.Leaser] too, and Advance must move
// the ends of leases as well.
func RunLeases[Tx any](t *testing.T, h Harness[Tx]) {
	for _, c := range []struct {
		name  string
		check func(*leaseSuite[Tx])
	}{
		{"FirstThenReplay", leaseFirstThenReplay[Tx]},
		{"ReplayIsByteForByte", leaseReplayIsByteForByte[Tx]},
		{"InFlight", leaseInFlight[Tx]},
		{"FailureFreesKey", leaseFailureFreesKey[Tx]},
		{"CancelledBefore", leaseCancelledBefore[Tx]},
		{"ClientGone", leaseClientGone[Tx]},

		{"TakeOver", leaseTakeOver[Tx]},
		{"OneTakesOver", oneTakesOver[Tx]},
		{"Fencing", fencing[Tx]},
		{"LateCompletion", lateCompletion[Tx]},
		{"StepsMayBeRepeated", stepsMayBeRepeated[Tx]},

		{"Heartbeat", heartbeat[Tx]},
		{"LostLeaseCancels", lostLeaseCancels[Tx]},
		{"Ceiling", leaseCeiling[Tx]},
		{"Extend", leaseExtend[Tx]},

		{"Expiry", leaseExpiry[Tx]},
		{"AgeOfKey", leaseAgeOfKey[Tx]},
		{"Keeper", leaseKeeper[Tx]},
		{"Listed", leaseListed[Tx]},
		{"ReleaseEntry", leaseReleaseEntry[Tx]},
		{"ModeChanges", modeChanges[Tx]},
		{"Concurrency", leaseConcurrency[Tx]},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := &leaseSuite[Tx]{suite: open(t, h)}
			for _, st := range s.stores() {
				if _, ok := st.(idempotency.Leaser); !ok {
					t.Fatalf("%T is no idempotency.Leaser", st)
				}
			}
			c.check(s)
		})
	}
}

// leaseSuite is the state of one check of lease mode.
type leaseSuite[Tx any] struct{ *suite[Tx] }

// leaser returns the steps of st.
func (s *leaseSuite[Tx]) leaser(st Store[Tx]) idempotency.Leaser {
	return st.(idempotency.Leaser) //nolint:forcetypeassert // RunLeases has looked
}

// leases returns st in lease mode. The heartbeat ends with the check.
func (s *leaseSuite[Tx]) leases(st Store[Tx]) idempotency.Store[*idempotency.Lease] {
	return idempotency.Leases(s.leaser(st), patience)
}

// last returns the replica, or the store where there is none.
func (s *leaseSuite[Tx]) last() Store[Tx] {
	stores := s.stores()
	return stores[len(stores)-1]
}

// leaseRequest is a request whose claims hold for a minute.
func leaseRequest(key string) idempotency.Request {
	req := request(key)
	req.Lease = time.Minute
	return req
}

// token is one of the check's own.
func token(n byte) idempotency.LeaseToken { return idempotency.LeaseToken{n, 0xff} }

// runsUnderLease runs req on st and expects work to run and body to be answered.
func (s *leaseSuite[Tx]) runsUnderLease(st Store[Tx], req idempotency.Request, body string) {
	s.Helper()
	ran := false
	res, err := s.leases(st).Execute(s.ctx, req, func(context.Context, *idempotency.Lease) (idempotency.Response, error) {
		ran = true
		return answer(body), nil
	})
	if err != nil || res.Replayed || !ran {
		s.Fatalf("Execute: %v; Replayed %v, work ran: %v", err, res.Replayed, ran)
	}
	s.same(res.Response, answer(body))
}

// answersUnderLease runs req on st and expects resp to be replayed.
func (s *leaseSuite[Tx]) answersUnderLease(st Store[Tx], req idempotency.Request, resp idempotency.Response) {
	s.Helper()
	res, err := s.leases(st).Execute(s.ctx, req, s.noLease)
	if err != nil || !res.Replayed {
		s.Fatalf("Execute: %v; Replayed %v, want a replay", err, res.Replayed)
	}
	s.same(res.Response, resp)
}

// refusesLease runs req on st and expects the error want without a run of work.
func (s *leaseSuite[Tx]) refusesLease(st Store[Tx], req idempotency.Request, want error) {
	s.Helper()
	if _, err := s.leases(st).Execute(s.ctx, req, s.noLease); !errors.Is(err, want) {
		s.Fatalf("Execute: %v, want %v", err, want)
	}
}

// noLease is work that must not run.
func (s *leaseSuite[Tx]) noLease(context.Context, *idempotency.Lease) (idempotency.Response, error) {
	s.Error("work ran; it must not")
	return idempotency.Response{}, errors.New("work ran")
}

// crash leaves a claim as a process does that dies while work runs.
func (s *leaseSuite[Tx]) crash(st Store[Tx], req idempotency.Request, t idempotency.LeaseToken) {
	s.Helper()
	if res, err := s.leaser(st).AcquireLease(s.ctx, req, t); err != nil || res.Replayed {
		s.Fatalf("AcquireLease: %v, Replayed %v", err, res.Replayed)
	}
}

// fenced expects that t has no part in req any more.
func (s *leaseSuite[Tx]) fenced(st Store[Tx], req idempotency.Request, t idempotency.LeaseToken) {
	s.Helper()
	for step, err := range map[string]error{
		"ExtendLease":   s.leaser(st).ExtendLease(s.ctx, req, t, time.Hour),
		"CompleteLease": s.leaser(st).CompleteLease(s.ctx, req, t, answer("stale")),
		"ReleaseLease":  s.leaser(st).ReleaseLease(s.ctx, req, t),
	} {
		if !errors.Is(err, idempotency.ErrLeaseLost) {
			s.Errorf("%s under a token that does not hold the claim: %v, want %v", step, err, idempotency.ErrLeaseLost)
		}
	}
}

// leaseUntil returns when the lease of id's claim ends.
func (s *leaseSuite[Tx]) leaseUntil(id idempotency.Identity) time.Time {
	s.Helper()
	rec, err := s.Store.Lookup(s.ctx, id)
	if err != nil || rec.LeaseUntil.IsZero() || rec.Response.Status != 0 || !rec.ExpiresAt.After(rec.LeaseUntil) {
		s.Fatalf("Lookup of a claim: %v; status %d, lease until %v, kept until %v", err, rec.Response.Status, rec.LeaseUntil, rec.ExpiresAt)
	}
	return rec.LeaseUntil
}

// A first request executes, every retry is replayed, and the lease has ended.
func leaseFirstThenReplay[Tx any](s *leaseSuite[Tx]) {
	req := leaseRequest("k")
	s.runsUnderLease(s.Store, req, "first")
	for _, st := range s.stores() {
		s.answersUnderLease(st, req, answer("first"))
		other := req
		other.Fingerprint = fingerprint("other payload")
		s.refusesLease(st, other, idempotency.ErrMismatch)
		rec, err := st.Lookup(s.ctx, req.Identity)
		if err != nil || !rec.LeaseUntil.IsZero() || rec.Identity != req.Identity || string(rec.Fingerprint) != string(req.Fingerprint[:]) {
			s.Errorf("Lookup: %v, %+v", err, rec)
		}
		if kept := rec.ExpiresAt.Sub(rec.CreatedAt); (kept - req.Retention).Abs() > time.Millisecond {
			s.Errorf("kept for %v, want %v", kept, req.Retention)
		}
	}
}

// Answers come back as they were.
func leaseReplayIsByteForByte[Tx any](s *leaseSuite[Tx]) {
	for i, resp := range []idempotency.Response{
		{Status: http.StatusNoContent},
		{Status: http.StatusOK, Body: []byte("a\x00b\xff\xfe")},
		{Status: http.StatusCreated, Body: slices.Repeat([]byte("1 MiB "), 1<<20/6)},
		{Status: http.StatusPaymentRequired, Header: http.Header{"X-Repeated": {"one", "two, three", ""}, "Content-Type": {"text/plain"}}},
	} {
		req := leaseRequest(fmt.Sprint(i))
		res, err := s.leases(s.Store).Execute(s.ctx, req, func(context.Context, *idempotency.Lease) (idempotency.Response, error) {
			return resp, nil
		})
		if err != nil {
			s.Fatalf("Execute: %v", err)
		}
		s.same(res.Response, resp)
		s.answersUnderLease(s.last(), req, resp)
	}
}

// While work runs, every replica refuses duplicates, compares fingerprints and
// leaves the claim alone.
//
// Covers CON-01, CON-15, FPR-01.
func leaseInFlight[Tx any](s *leaseSuite[Tx]) {
	req := leaseRequest("k")
	other := req
	other.Fingerprint = fingerprint("other payload")
	nested := req
	nested.Operation = "createRefund"
	res, err := s.leases(s.Store).Execute(s.ctx, req, func(context.Context, *idempotency.Lease) (idempotency.Response, error) {
		for _, st := range s.stores() {
			s.refusesLease(st, req, idempotency.ErrInFlight)
			s.refusesLease(st, other, idempotency.ErrMismatch)
			if err := st.Release(s.ctx, req.Identity); !errors.Is(err, idempotency.ErrInFlight) {
				s.Errorf("Release of a live claim: %v, want %v", err, idempotency.ErrInFlight)
			}
			if n, err := st.Sweep(s.ctx); n != 0 || err != nil {
				s.Errorf("Sweep beside a live claim: %d, %v", n, err)
			}
		}
		s.leaseUntil(req.Identity)
		s.runsUnderLease(s.Store, nested, "nested")
		return answer("first"), nil
	})
	if err != nil || res.Replayed {
		s.Fatalf("Execute: %v, Replayed %v", err, res.Replayed)
	}
	s.answersUnderLease(s.last(), req, answer("first"))
	s.answersUnderLease(s.last(), nested, answer("nested"))
}

// An error, a panic and the end of the goroutine free the key at once, on every
// replica.
//
// Covers CTX-04, ERR-06, CON-16.
func leaseFailureFreesKey[Tx any](s *leaseSuite[Tx]) {
	req := leaseRequest("k")
	failure := errors.New("the provider refused")
	_, err := s.leases(s.Store).Execute(s.ctx, req, func(context.Context, *idempotency.Lease) (idempotency.Response, error) {
		return answer("ignored"), failure
	})
	if err != failure { //nolint:errorlint // as it was, not wrapped
		s.Errorf("Execute: %v, want the handler's own error", err)
	}
	s.wantNoRecord(req.Identity)

	func() {
		defer func() {
			if got := recover(); got != "a bug" {
				s.Errorf("panic with %v, want the handler's", got)
			}
		}()
		_, err := s.leases(s.Store).Execute(s.ctx, req, func(context.Context, *idempotency.Lease) (idempotency.Response, error) {
			panic("a bug")
		})
		s.Errorf("Execute returned with error %v, want a panic", err)
	}()
	s.wantNoRecord(req.Identity)

	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := s.leases(s.Store).Execute(s.ctx, req, func(context.Context, *idempotency.Lease) (idempotency.Response, error) {
			runtime.Goexit()
			return answer("ended"), nil
		})
		s.Errorf("Execute returned with error %v, want the goroutine to end", err)
	})
	wg.Wait()
	s.wantNoRecord(req.Identity)
	s.runsUnderLease(s.last(), req, "second")
}

// A request that is cancelled before its claim leaves none.
func leaseCancelledBefore[Tx any](s *leaseSuite[Tx]) {
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	req := leaseRequest("k")
	if _, err := s.leases(s.Store).Execute(ctx, req, s.noLease); !errors.Is(err, idempotency.ErrUnavailable) {
		s.Errorf("Execute: %v, want %v", err, idempotency.ErrUnavailable)
	}
	s.wantNoRecord(req.Identity)
}

// A client that goes cancels work, and neither its answer nor the freeing of its
// key.
//
// Covers CTX-01.
func leaseClientGone[Tx any](s *leaseSuite[Tx]) {
	ctx, cancel := context.WithCancel(s.ctx)
	finished, failed := leaseRequest("finished"), leaseRequest("failed")
	_, err := s.leases(s.Store).Execute(ctx, finished, func(ctx context.Context, _ *idempotency.Lease) (idempotency.Response, error) {
		cancel()
		wait(s.suite, ctx.Done(), "the cancellation")
		if cause := context.Cause(ctx); errors.Is(cause, idempotency.ErrLeaseLost) {
			s.Errorf("the cause is %v", cause)
		}
		return answer("finished"), nil
	})
	if err != nil {
		s.Errorf("Execute: %v, want the answer to be kept", err)
	}
	s.answersUnderLease(s.Store, finished, answer("finished"))

	ctx, cancel = context.WithCancel(s.ctx)
	_, err = s.leases(s.Store).Execute(ctx, failed, func(ctx context.Context, _ *idempotency.Lease) (idempotency.Response, error) {
		cancel()
		return idempotency.Response{}, ctx.Err()
	})
	if !errors.Is(err, context.Canceled) {
		s.Errorf("Execute: %v, want the handler's own error", err)
	}
	s.wantNoRecord(failed.Identity)
}

// A claim whose process has died is in flight until its lease has passed. Then
// it is taken over, by the same request only.
//
// Covers CRA-01, CON-12.
func leaseTakeOver[Tx any](s *leaseSuite[Tx]) {
	req := leaseRequest("k")
	other := req
	other.Fingerprint = fingerprint("other payload")
	s.crash(s.Store, req, token(1))
	s.advance(req.Lease - 10*time.Second)
	for _, st := range s.stores() {
		s.refusesLease(st, req, idempotency.ErrInFlight)
		s.refusesLease(st, other, idempotency.ErrMismatch)
	}
	s.advance(11 * time.Second)
	for _, st := range s.stores() {
		s.refusesLease(st, other, idempotency.ErrMismatch)
	}
	s.runsUnderLease(s.last(), req, "second")
	s.fenced(s.Store, req, token(1))
	s.answersUnderLease(s.Store, req, answer("second"))
}

// Of many that want a claim whose lease has passed, one gets it.
//
// Covers CON-10.
func oneTakesOver[Tx any](s *leaseSuite[Tx]) {
	const takers = 16
	req := leaseRequest("k")
	s.crash(s.Store, req, token(0))
	s.advance(2 * req.Lease)
	var wg sync.WaitGroup
	var winner atomic.Int64
	for i := range takers {
		st := s.stores()[i%len(s.stores())]
		wg.Go(func() {
			switch _, err := s.leaser(st).AcquireLease(s.ctx, req, token(byte(i+1))); {
			case err == nil:
				if before := winner.Swap(int64(i + 1)); before != 0 {
					s.Errorf("%d and %d took the claim over", before, i+1)
				}
			case !errors.Is(err, idempotency.ErrInFlight):
				s.Errorf("AcquireLease: %v", err)
			}
		})
	}
	wg.Wait()
	for i := range takers + 1 {
		if int64(i) != winner.Load() {
			s.fenced(s.Store, req, token(byte(i)))
		}
	}
	if err := s.leaser(s.last()).CompleteLease(s.ctx, req, token(byte(winner.Load())), answer("taken over")); err != nil {
		s.Errorf("CompleteLease of the winner, %d: %v", winner.Load(), err)
	}
	s.answersUnderLease(s.Store, req, answer("taken over"))
}

// An attempt that another one has taken the claim from changes nothing, neither
// while that one runs nor afterwards.
//
// Covers CON-10, CON-12, EXP-12.
func fencing[Tx any](s *leaseSuite[Tx]) {
	req := leaseRequest("k")
	s.fenced(s.Store, req, token(1)) // nothing there
	s.crash(s.Store, req, token(1))
	s.advance(2 * req.Lease)
	_, err := s.leases(s.last()).Execute(s.ctx, req, func(context.Context, *idempotency.Lease) (idempotency.Response, error) {
		s.fenced(s.Store, req, token(1))
		s.refusesLease(s.Store, req, idempotency.ErrInFlight)
		return answer("second"), nil
	})
	if err != nil {
		s.Fatalf("Execute: %v", err)
	}
	s.fenced(s.Store, req, token(1))
	s.answersUnderLease(s.Store, req, answer("second"))

	// Nor does its late claim under the old token.
	if res, err := s.leaser(s.Store).AcquireLease(s.ctx, req, token(1)); err != nil || !res.Replayed {
		s.Errorf("AcquireLease: %v, Replayed %v", err, res.Replayed)
	}
}

// A lease that has passed and that nobody has taken over may be completed: its
// answer is better than another run.
func lateCompletion[Tx any](s *leaseSuite[Tx]) {
	req := leaseRequest("k")
	res, err := s.leases(s.Store).Execute(s.ctx, req, func(context.Context, *idempotency.Lease) (idempotency.Response, error) {
		s.advance(2 * req.Lease)
		return answer("late"), nil
	})
	if err != nil || res.Replayed {
		s.Fatalf("Execute: %v, Replayed %v", err, res.Replayed)
	}
	s.answersUnderLease(s.last(), req, answer("late"))
}

// A step whose answer was lost can be made again: an attempt does not mistake
// its own claim for a rival's, and its own completion for a lost lease. What
// comes late changes nothing.
//
// Covers CRA-08, CRA-09.
func stepsMayBeRepeated[Tx any](s *leaseSuite[Tx]) {
	req, l := leaseRequest("k"), s.leaser(s.Store)
	for range 2 {
		s.crash(s.Store, req, token(1))
	}
	s.refusesLease(s.last(), req, idempotency.ErrInFlight)
	for range 2 {
		if err := l.CompleteLease(s.ctx, req, token(1), answer("first")); err != nil {
			s.Errorf("CompleteLease: %v", err)
		}
	}
	for step, err := range map[string]error{
		"ExtendLease":  l.ExtendLease(s.ctx, req, token(1), time.Hour),
		"ReleaseLease": l.ReleaseLease(s.ctx, req, token(1)),
	} {
		if !errors.Is(err, idempotency.ErrLeaseLost) {
			s.Errorf("%s after the completion: %v, want %v", step, err, idempotency.ErrLeaseLost)
		}
	}
	if res, err := l.AcquireLease(s.ctx, req, token(1)); err != nil || !res.Replayed {
		s.Errorf("AcquireLease after the completion: %v, Replayed %v", err, res.Replayed)
	}
	s.answersUnderLease(s.last(), req, answer("first"))
}

// A claim is held for longer than its lease while work runs.
func heartbeat[Tx any](s *leaseSuite[Tx]) {
	req := leaseRequest("k")
	req.Lease = 3 * time.Second
	_, err := s.leases(s.Store).Execute(s.ctx, req, func(ctx context.Context, l *idempotency.Lease) (idempotency.Response, error) {
		until, deadline := s.leaseUntil(req.Identity), l.Deadline()
		for beats := 0; beats < 2; {
			select {
			case <-ctx.Done():
				s.Errorf("work was cancelled: %v", context.Cause(ctx))
				return answer("first"), nil
			case <-time.After(10 * time.Millisecond):
			}
			if now := s.leaseUntil(req.Identity); now.After(until) {
				until = now
				beats++
			}
		}
		s.refusesLease(s.last(), req, idempotency.ErrInFlight)
		if !l.Deadline().After(deadline) {
			s.Error("the deadline has not moved")
		}
		return answer("first"), nil
	})
	if err != nil {
		s.Fatalf("Execute: %v", err)
	}
	s.answersUnderLease(s.last(), req, answer("first"))
}

// Work whose claim was taken over is cancelled with a cause, and its answer is
// an error, whether it returns one or not.
//
// Covers CON-10.
func lostLeaseCancels[Tx any](s *leaseSuite[Tx]) {
	for name, end := range map[string]error{"answers": nil, "fails": errors.New("gave up")} {
		req := leaseRequest(name)
		req.Lease = 5 * time.Second
		_, err := s.leases(s.Store).Execute(s.ctx, req, func(ctx context.Context, l *idempotency.Lease) (idempotency.Response, error) {
			s.advance(2 * req.Lease)
			s.runsUnderLease(s.last(), req, "taken over")
			wait(s.suite, ctx.Done(), "the heartbeat to notice")
			if cause := context.Cause(ctx); !errors.Is(cause, idempotency.ErrLeaseLost) {
				s.Errorf("the cause is %v, want %v", cause, idempotency.ErrLeaseLost)
			}
			if err := l.Extend(s.ctx, time.Minute); !errors.Is(err, idempotency.ErrLeaseLost) {
				s.Errorf("Extend: %v, want %v", err, idempotency.ErrLeaseLost)
			}
			return answer("stale"), end
		})
		if !errors.Is(err, idempotency.ErrOutcomeUnknown) || !errors.Is(err, idempotency.ErrLeaseLost) {
			s.Errorf("%s: Execute: %v, want %v for %v", name, err, idempotency.ErrOutcomeUnknown, idempotency.ErrLeaseLost)
		}
		s.answersUnderLease(s.Store, req, answer("taken over"))
	}
}

// Beyond the ceiling a lease runs out.
func leaseCeiling[Tx any](s *leaseSuite[Tx]) {
	req := leaseRequest("k")
	req.Lease = 100 * time.Millisecond
	_, err := idempotency.Leases(s.leaser(s.Store), 0).Execute(s.ctx, req, func(ctx context.Context, _ *idempotency.Lease) (idempotency.Response, error) {
		wait(s.suite, ctx.Done(), "the lease to end")
		if cause := context.Cause(ctx); !errors.Is(cause, idempotency.ErrLeaseLost) {
			s.Errorf("the cause is %v, want %v", cause, idempotency.ErrLeaseLost)
		}
		s.advance(time.Second)
		s.runsUnderLease(s.last(), req, "taken over")
		return answer("stale"), nil
	})
	if !errors.Is(err, idempotency.ErrOutcomeUnknown) {
		s.Errorf("Execute: %v, want %v", err, idempotency.ErrOutcomeUnknown)
	}
	s.answersUnderLease(s.Store, req, answer("taken over"))
}

// A handler extends its lease by itself, and never shortens it. The claim is kept
// for as long, though answers are not.
func leaseExtend[Tx any](s *leaseSuite[Tx]) {
	req := leaseRequest("k")
	req.Retention = 5 * time.Minute
	var kept *idempotency.Lease
	_, err := idempotency.Leases(s.leaser(s.Store), 0).Execute(s.ctx, req, func(ctx context.Context, l *idempotency.Lease) (idempotency.Response, error) {
		kept = l
		before := s.leaseUntil(req.Identity)
		if err := l.Extend(ctx, time.Hour); err != nil {
			s.Errorf("Extend: %v", err)
		}
		until, deadline := s.leaseUntil(req.Identity), l.Deadline()
		if d := until.Sub(before); d < 58*time.Minute {
			s.Errorf("the lease is %v longer, want an hour in all", d)
		}
		if d := time.Until(deadline); d < 59*time.Minute {
			s.Errorf("the deadline is %v away, want an hour", d)
		}
		if err := l.Extend(ctx, time.Second); err != nil {
			s.Errorf("Extend: %v", err)
		}
		if !s.leaseUntil(req.Identity).Equal(until) || !l.Deadline().Equal(deadline) {
			s.Error("a shorter extension has shortened the lease")
		}
		if l.Extend(ctx, 0) == nil {
			s.Error("an extension by nothing: no error")
		}
		s.advance(30 * time.Minute)
		if n, err := s.last().Sweep(ctx); n != 0 || err != nil {
			s.Errorf("Sweep: %d, %v; the claim is live", n, err)
		}
		s.refusesLease(s.last(), req, idempotency.ErrInFlight)
		return answer("first"), nil
	})
	if err != nil {
		s.Fatalf("Execute: %v", err)
	}
	if err := kept.Extend(s.ctx, time.Hour); err == nil || errors.Is(err, idempotency.ErrLeaseLost) {
		s.Errorf("Extend after the handler's return: %v", err)
	}
	s.answersUnderLease(s.last(), req, answer("first"))
}

// A claim is kept until its retention has passed after its lease; then it is
// swept, or replaced by whatever request comes. An expired answer is replaced
// by a claim.
//
// Covers EXP-12.
func leaseExpiry[Tx any](s *leaseSuite[Tx]) {
	left, req := leaseRequest("left"), leaseRequest("k")
	s.crash(s.Store, left, token(1))
	s.crash(s.Store, req, token(1))
	other := req
	other.Fingerprint = fingerprint("other payload")
	s.advance(req.Lease + req.Retention - 10*time.Second)
	s.refusesLease(s.Store, other, idempotency.ErrMismatch)
	if n, err := s.Store.Sweep(s.ctx); n != 0 || err != nil {
		s.Errorf("Sweep: %d, %v; the claims are still kept", n, err)
	}
	s.advance(11 * time.Second)
	s.runsUnderLease(s.last(), other, "second")
	s.fenced(s.Store, req, token(1))
	if n, err := s.Store.Sweep(s.ctx); n != 1 || err != nil {
		s.Errorf("Sweep: %d, %v; want the claim that is left", n, err)
	}
	s.wantNoRecord(left.Identity)

	s.advance(2 * req.Retention)
	s.runsUnderLease(s.Store, req, "third")
	s.answersUnderLease(s.last(), req, answer("third"))
}

// A key's own time is judged where nothing is found, not where a claim is taken
// over.
//
// Covers EXP-01.
func leaseAgeOfKey[Tx any](s *leaseSuite[Tx]) {
	req := leaseRequest(uuidv7(time.Now().Add(-50 * time.Minute)))
	req.KeyHasTime = true
	s.crash(s.Store, req, token(1))
	req.Retention = 40 * time.Minute // what it is judged by from now on
	s.advance(2 * req.Lease)
	s.runsUnderLease(s.last(), req, "taken over")
	old := req
	old.Key = uuidv7(time.Now().Add(-2 * time.Hour))
	s.refusesLease(s.Store, old, idempotency.ErrExpired)
	s.wantNoRecord(old.Identity)
}

// An operator releases what a dead process has left, and that process, should it
// live, is fenced.
func leaseKeeper[Tx any](s *leaseSuite[Tx]) {
	req := leaseRequest("k")
	s.crash(s.Store, req, token(1))
	if err := s.last().Release(s.ctx, req.Identity); !errors.Is(err, idempotency.ErrInFlight) {
		s.Errorf("Release of a live claim: %v, want %v", err, idempotency.ErrInFlight)
	}
	s.advance(2 * req.Lease)
	if until := s.leaseUntil(req.Identity); !until.Before(time.Now().Add(time.Minute)) {
		s.Errorf("the lease ends at %v, want it to have passed", until)
	}
	if err := s.last().Release(s.ctx, req.Identity); err != nil {
		s.Errorf("Release: %v", err)
	}
	s.wantNoRecord(req.Identity)
	s.fenced(s.Store, req, token(1))
	s.wantNoRecord(req.Identity)
}

// Replicas of which some run an operation in lease mode and others in a
// transaction share its records and respect each other's claims.
func modeChanges[Tx any](s *leaseSuite[Tx]) {
	req := leaseRequest("lease-first")
	other := req
	other.Fingerprint = fingerprint("other payload")
	_, err := s.leases(s.Store).Execute(s.ctx, req, func(context.Context, *idempotency.Lease) (idempotency.Response, error) {
		for _, st := range s.stores() {
			s.refuses(st, req, idempotency.ErrInFlight)
			s.refuses(st, other, idempotency.ErrMismatch)
		}
		return answer("first"), nil
	})
	if err != nil {
		s.Fatalf("Execute: %v", err)
	}
	s.replays(s.last(), req, answer("first"))

	req = leaseRequest("transaction-first")
	_, err = s.Store.Execute(s.ctx, req, func(ctx context.Context, tx Tx) (idempotency.Response, error) {
		s.refusesLease(s.Store, req, idempotency.ErrInFlight)
		if !s.oneWriter && !s.unseen { // the one lets no other store in, the other does not see this
			s.refusesLease(s.last(), req, idempotency.ErrInFlight)
		}
		return s.work(answer("second"))(ctx, tx)
	})
	if err != nil {
		s.Fatalf("Execute: %v", err)
	}
	s.answersUnderLease(s.last(), req, answer("second"))

	req = leaseRequest("crashed")
	other = req
	other.Fingerprint = fingerprint("other payload")
	s.crash(s.Store, req, token(1))
	s.advance(2 * req.Lease)
	s.refuses(s.last(), other, idempotency.ErrMismatch)
	s.executes(s.last(), req, "third")
	s.fenced(s.Store, req, token(1))
	s.replays(s.Store, req, answer("third"))
	s.wantEffects("third", 1)
}

// Many clients send many requests, each several times and to every replica:
// each runs once and has one answer.
//
// Covers CON-02, CON-08.
func leaseConcurrency[Tx any](s *leaseSuite[Tx]) {
	const keys, duplicates = 10, 8
	var runs [keys]atomic.Int64
	var wg sync.WaitGroup
	for i := range keys * duplicates {
		st, key := s.leases(s.stores()[i%len(s.stores())]), i%keys
		wg.Go(func() {
			for s.ctx.Err() == nil {
				res, err := st.Execute(s.ctx, leaseRequest(fmt.Sprint(key)), func(context.Context, *idempotency.Lease) (idempotency.Response, error) {
					runs[key].Add(1)
					return answer(fmt.Sprint(key)), nil
				})
				if errors.Is(err, idempotency.ErrInFlight) {
					runtime.Gosched()
					continue
				}
				if err != nil {
					s.Errorf("key %d: %v", key, err)
				} else {
					s.same(res.Response, answer(fmt.Sprint(key)))
				}
				return
			}
		})
	}
	wg.Wait()
	for key := range keys {
		if n := runs[key].Load(); n != 1 {
			s.Errorf("key %d: %d runs of work, want 1", key, n)
		}
	}
}
