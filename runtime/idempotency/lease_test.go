package idempotency_test

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
)

// shaky is a store whose steps fail as a test says; a nil function leaves a step
// as it is.
type shaky struct {
	*memstore.Store
	acquire, extend, complete, release func() error
	acquired                           func() error // answers a claim that was made
	released                           func(error)  // is told the store's answer
}

func (s *shaky) AcquireLease(ctx context.Context, req idempotency.Request, token idempotency.LeaseToken) (idempotency.Result, error) {
	if s.acquire != nil {
		if err := s.acquire(); err != nil {
			return idempotency.Result{}, err
		}
	}
	res, err := s.Store.AcquireLease(ctx, req, token)
	if err == nil && s.acquired != nil {
		err = s.acquired()
	}
	return res, err
}

func (s *shaky) ExtendLease(ctx context.Context, req idempotency.Request, token idempotency.LeaseToken, d time.Duration) error {
	if s.extend != nil {
		if err := s.extend(); err != nil {
			return err
		}
	}
	return s.Store.ExtendLease(ctx, req, token, d)
}

func (s *shaky) CompleteLease(ctx context.Context, req idempotency.Request, token idempotency.LeaseToken, resp idempotency.Response) error {
	if s.complete != nil {
		if err := s.complete(); err != nil {
			return err
		}
	}
	return s.Store.CompleteLease(ctx, req, token, resp)
}

func (s *shaky) ReleaseLease(ctx context.Context, req idempotency.Request, token idempotency.LeaseToken) error {
	if s.release != nil {
		if err := s.release(); err != nil {
			return err
		}
	}
	err := s.Store.ReleaseLease(ctx, req, token)
	if s.released != nil {
		s.released(err)
	}
	return err
}

// times returns a step that fails n times.
func times(n int64, err error) func() error {
	var calls atomic.Int64
	return func() error {
		if calls.Add(1) <= n {
			return err
		}
		return nil
	}
}

func leased(lease time.Duration) idempotency.Request {
	return idempotency.Request{
		Identity:    idempotency.Identity{Scope: "tenant", Operation: "refund", Key: "k"},
		Fingerprint: idempotency.FingerprintOf([]byte("refund 5")),
		Retention:   time.Hour,
		Lease:       lease,
	}
}

var refunded = idempotency.Response{Status: http.StatusCreated, Body: []byte("refunded")}

func refund(context.Context, *idempotency.Lease) (idempotency.Response, error) { return refunded, nil }

// What a store cannot do for a moment is done again: claims are extended and
// completed, and keys freed.
func TestLeaseOutlastsAShakyStore(t *testing.T) {
	t.Parallel()
	store := &shaky{Store: memstore.New(), extend: times(2, idempotency.ErrUnavailable), complete: times(2, idempotency.ErrUnavailable), release: times(2, idempotency.ErrUnavailable)}
	leases := idempotency.Leases(store, time.Minute)
	req := leased(3 * time.Second)
	failure := errors.New("failed")
	if _, err := leases.Execute(t.Context(), req, func(context.Context, *idempotency.Lease) (idempotency.Response, error) {
		return idempotency.Response{}, failure
	}); err != failure { //nolint:errorlint // as it was
		t.Errorf("Execute: %v, want the handler's error", err)
	}
	res, err := leases.Execute(t.Context(), req, func(ctx context.Context, l *idempotency.Lease) (idempotency.Response, error) {
		for first := l.Deadline(); !l.Deadline().After(first); {
			select {
			case <-ctx.Done():
				t.Errorf("cancelled: %v", context.Cause(ctx))
				return refunded, nil
			case <-time.After(time.Millisecond):
			}
		}
		return refunded, nil
	})
	if err != nil || res.Replayed {
		t.Fatalf("Execute: %v, Replayed %v", err, res.Replayed)
	}
	if res, err = leases.Execute(t.Context(), req, refund); err != nil || !res.Replayed {
		t.Errorf("Execute: %v, Replayed %v", err, res.Replayed)
	}
}

// A process that dies leaves its key claimed until the lease has passed, so an
// extension has an end, and one that is refused leaves the lease as it was.
func TestExtensionsAreBounded(t *testing.T) {
	t.Parallel()
	_, err := idempotency.Leases(memstore.New(), time.Minute).Execute(t.Context(), leased(time.Minute), func(ctx context.Context, l *idempotency.Lease) (idempotency.Response, error) {
		before := l.Deadline()
		for _, d := range []time.Duration{math.MinInt64, -1, 0, 24*time.Hour + 1, math.MaxInt64} {
			if err := l.Extend(ctx, d); err == nil || errors.Is(err, idempotency.ErrLeaseLost) || errors.Is(err, idempotency.ErrUnavailable) {
				t.Errorf("Extend by %v: %v", d, err)
			}
		}
		if after := l.Deadline(); !after.Equal(before) {
			t.Errorf("the lease ends at %v, and ended at %v", after, before)
		}
		if err := l.Extend(ctx, 24*time.Hour); err != nil {
			t.Errorf("Extend by a day: %v", err)
		}
		return refunded, ctx.Err()
	})
	if err != nil {
		t.Errorf("Execute: %v", err)
	}
}

// A store that extends nothing lets the lease run out: work is cancelled when it
// ends, not later, and what it answers is stored if the claim is still its own.
func TestLeaseThatIsNotExtendedRunsOut(t *testing.T) {
	t.Parallel()
	store := &shaky{Store: memstore.New(), extend: times(1<<40, idempotency.ErrUnavailable)}
	var cause error
	_, err := idempotency.Leases(store, time.Minute).Execute(t.Context(), leased(300*time.Millisecond), func(ctx context.Context, l *idempotency.Lease) (idempotency.Response, error) {
		if err := l.Extend(ctx, time.Hour); !errors.Is(err, idempotency.ErrUnavailable) || ctx.Err() != nil {
			t.Errorf("Extend: %v, cancelled: %v", err, context.Cause(ctx))
		}
		<-ctx.Done()
		cause = context.Cause(ctx)
		if !time.Now().After(l.Deadline()) {
			t.Error("cancelled before its end")
		}
		return refunded, nil
	})
	if !errors.Is(cause, idempotency.ErrLeaseLost) || !strings.Contains(cause.Error(), "unavailable") {
		t.Errorf("the cause is %v, want %v and why", cause, idempotency.ErrLeaseLost)
	}
	if err != nil {
		t.Errorf("Execute: %v, want the answer to be kept", err)
	}
}

// A lease that ends although no extension has failed says so, as where the store
// has answered too late.
func TestLeaseThatIsExtendedTooLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &shaky{Store: memstore.New(), extend: func() error {
			time.Sleep(time.Minute)
			return nil
		}}
		_, err := idempotency.Leases(store, time.Hour).Execute(t.Context(), leased(3*time.Second), func(ctx context.Context, _ *idempotency.Lease) (idempotency.Response, error) {
			<-ctx.Done()
			if cause := context.Cause(ctx); !errors.Is(cause, idempotency.ErrLeaseLost) || !strings.HasSuffix(cause.Error(), "held up") {
				t.Errorf("the cause is %v", cause)
			}
			return refunded, nil
		})
		if err != nil {
			t.Errorf("Execute: %v, want the answer to be kept", err)
		}
	})
}

// deaf is a store that frees keys, and misses the first answer.
type deaf struct {
	*memstore.Store
	lost bool
}

func (s *deaf) ReleaseLease(ctx context.Context, req idempotency.Request, token idempotency.LeaseToken) error {
	err := s.Store.ReleaseLease(ctx, req, token)
	if !s.lost {
		s.lost = true
		return idempotency.ErrUnavailable
	}
	return err
}

// A key that was freed, with the answer lost, is no lost lease: the handler's own
// error comes back.
//
// Covers CRA-08.
func TestLostAnswerToARelease(t *testing.T) {
	t.Parallel()
	leases, req := idempotency.Leases(&deaf{Store: memstore.New()}, time.Minute), leased(time.Minute)
	failure := errors.New("failed")
	if _, err := leases.Execute(t.Context(), req, func(context.Context, *idempotency.Lease) (idempotency.Response, error) {
		return idempotency.Response{}, failure
	}); err != failure { //nolint:errorlint // as it was
		t.Errorf("Execute: %v, want the handler's error", err)
	}
	if res, err := leases.Execute(t.Context(), req, refund); err != nil || res.Replayed {
		t.Errorf("Execute: %v, Replayed %v; want the key to be free", err, res.Replayed)
	}
}

// A claim that was made and got no answer is freed in the background, though
// the store stays out of reach for a moment and the caller has gone. Its answer
// does not wait for that.
func TestLostAnswerToAClaim(t *testing.T) {
	t.Parallel()
	store := &shaky{Store: memstore.New()}
	ctx, leave := context.WithCancel(t.Context())
	store.acquired = func() error {
		leave()
		return idempotency.ErrUnavailable
	}
	answered, tries := make(chan struct{}), make(chan struct{}, 3)
	store.release = func() error {
		<-answered
		tries <- struct{}{}
		if len(tries) < cap(tries) {
			return idempotency.ErrUnavailable
		}
		return nil
	}
	released := make(chan error)
	store.released = func(err error) { released <- err }
	req := leased(time.Hour)
	_, err := idempotency.Leases(store, time.Minute).Execute(ctx, req, func(context.Context, *idempotency.Lease) (idempotency.Response, error) {
		t.Error("work ran")
		return refunded, nil
	})
	if !errors.Is(err, idempotency.ErrUnavailable) {
		t.Errorf("Execute: %v, want %v", err, idempotency.ErrUnavailable)
	}
	if _, err := store.Lookup(t.Context(), req.Identity); err != nil {
		t.Errorf("Lookup: %v, want the claim", err)
	}
	close(answered)
	if err := <-released; err != nil {
		t.Errorf("ReleaseLease: %v", err)
	}
	if res, err := idempotency.Leases(store.Store, time.Minute).Execute(t.Context(), req, refund); err != nil || res.Replayed {
		t.Errorf("Execute: %v, Replayed %v; want the key to be free", err, res.Replayed)
	}
}

// Claims that are refused, and a lost one that another attempt has taken over
// since, release nothing of others.
func TestLostClaimFreesItsOwnAlone(t *testing.T) {
	t.Parallel()
	store := &shaky{Store: memstore.New()}
	leases, req := idempotency.Leases(store, time.Minute), leased(time.Hour)
	released := make(chan error, 1)
	if _, err := leases.Execute(t.Context(), req, func(ctx context.Context, _ *idempotency.Lease) (idempotency.Response, error) {
		store.release = func() error { t.Error("a refused claim was released"); return nil }
		if _, err := leases.Execute(ctx, req, refund); !errors.Is(err, idempotency.ErrInFlight) {
			t.Errorf("Execute: %v, want %v", err, idempotency.ErrInFlight)
		}
		store.release, store.acquire = nil, func() error { return idempotency.ErrUnavailable } // nothing is claimed
		store.released = func(err error) { released <- err }
		if _, err := leases.Execute(ctx, req, refund); !errors.Is(err, idempotency.ErrUnavailable) {
			t.Errorf("Execute: %v, want %v", err, idempotency.ErrUnavailable)
		}
		if err := <-released; !errors.Is(err, idempotency.ErrLeaseLost) {
			t.Errorf("ReleaseLease: %v, want %v", err, idempotency.ErrLeaseLost)
		}
		return refunded, nil
	}); err != nil {
		t.Errorf("Execute: %v", err)
	}
}

// An answer that cannot be stored leaves the claim: the effects have happened.
//
// Covers CRA-09.
func TestFailedCompletionLeavesTheClaim(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk is full")
	store := &shaky{Store: memstore.New(), complete: func() error { return broken }}
	store.release = func() error { t.Error("the claim was released"); return nil }
	leases, req := idempotency.Leases(store, time.Minute), leased(time.Minute)
	_, err := leases.Execute(t.Context(), req, refund)
	var refusal *idempotency.Error
	if !errors.As(err, &refusal) || refusal.Code != idempotency.CodeOutcomeUnknown || !errors.Is(err, broken) {
		t.Fatalf("Execute: %v", err)
	}
	if refusal.RetryAfter < 50*time.Second || refusal.RetryAfter > time.Minute {
		t.Errorf("retry after %v, want what is left of the lease", refusal.RetryAfter)
	}
	if _, err := leases.Execute(t.Context(), req, refund); !errors.Is(err, idempotency.ErrInFlight) {
		t.Errorf("Execute: %v, want %v", err, idempotency.ErrInFlight)
	}
}

// A claim whose answer comes after its lease has ended runs nothing.
func TestClaimSlowerThanItsLease(t *testing.T) {
	t.Parallel()
	store := &shaky{Store: memstore.New()}
	store.acquire = func() error { time.Sleep(2 * time.Millisecond); return nil }
	req := leased(time.Millisecond)
	_, err := idempotency.Leases(store, 0).Execute(t.Context(), req, func(context.Context, *idempotency.Lease) (idempotency.Response, error) {
		t.Error("work ran")
		return refunded, nil
	})
	if !errors.Is(err, idempotency.ErrUnavailable) {
		t.Errorf("Execute: %v, want %v", err, idempotency.ErrUnavailable)
	}
	if _, err := store.Lookup(t.Context(), req.Identity); !errors.Is(err, idempotency.ErrNotFound) {
		t.Errorf("Lookup: %v, want the key to be free", err)
	}
}

// Do runs in lease mode too, and a request without a lease is refused.
func TestDoUnderALease(t *testing.T) {
	t.Parallel()
	leases, req := idempotency.Leases(memstore.New(), time.Minute), leased(time.Minute)
	var derived []string
	for i, fails := range []bool{true, false, false} {
		_, replayed, err := idempotency.Do(t.Context(), leases, req, func(ctx context.Context, l *idempotency.Lease) (string, error) {
			key, err := idempotency.DeriveUUID(ctx, "provider: refund")
			derived = append(derived, key)
			if fails {
				err = errShip
			}
			return l.Token().String(), err
		})
		if (err != nil) != fails || replayed != (i == 2) {
			t.Errorf("delivery %d: replayed %v, %v", i, replayed, err)
		}
	}
	if len(derived) != 2 || derived[0] == "" || derived[0] != derived[1] {
		t.Errorf("derived keys %q, want the same in both runs", derived)
	}
	req.Key, req.Lease = "other", 0
	if _, err := leases.Execute(t.Context(), req, refund); err == nil || !strings.Contains(err.Error(), "lease") {
		t.Errorf("Execute without a lease: %v", err)
	}
}

func TestLeaseTokens(t *testing.T) {
	t.Parallel()
	var zero idempotency.LeaseToken
	if !zero.IsZero() || zero.String() != "" {
		t.Errorf("the zero token is %q", zero)
	}
	seen := make(map[string]bool)
	for range 3 {
		_, _ = idempotency.Leases(memstore.New(), 0).Execute(t.Context(), leased(time.Minute), func(_ context.Context, l *idempotency.Lease) (idempotency.Response, error) {
			if s := l.Token().String(); len(s) != 32 || seen[s] || l.Token().IsZero() {
				t.Errorf("token %q", s)
			} else {
				seen[s] = true
			}
			return refunded, nil
		})
	}
}

// end is how a handler ends.
type end struct {
	status int
	err    error
}

// serveLease serves an operation in lease mode as generated code does.
func serveLease(t *testing.T, store idempotency.LeaseStore[struct{}], op idempotency.Operation, h func(context.Context, *idempotency.Lease) end, opts ...idempotency.Option) *server {
	t.Helper()
	s := &server{events: make(chan idempotency.Event, 100)}
	opts = append([]idempotency.Option{idempotency.WithObserver(func(_ context.Context, e idempotency.Event) { s.events <- e })}, opts...)
	edge := idempotency.NewEdge(store, idempotency.ScopeByHeader("X-Api-Key"), opts...)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		edge.ServeHTTP(w, r, &op, func(w http.ResponseWriter, r *http.Request) {
			answer, err := edge.Leases().Run(r.Context(), &op, func(ctx context.Context, lease *idempotency.Lease, _ *idempotency.Call) (idempotency.Visit, error) {
				s.runs.Add(1)
				end := h(ctx, lease)
				return func(w http.ResponseWriter) error { w.WriteHeader(end.status); return nil }, end.err
			})
			if err != nil {
				http.Error(w, "own: "+err.Error(), http.StatusTeapot)
				return
			}
			if err := answer.WriteTo(w); err != nil {
				t.Log("writing the answer:", err)
			}
		})
	}))
	t.Cleanup(s.Close)
	return s
}

// What a client and the observer see of lease mode.
//
// Covers CON-10.
func TestLeaseModeOverHTTP(t *testing.T) {
	t.Parallel()
	op := payOperation
	op.Lease, op.Optional = time.Minute, true
	store := &shaky{Store: memstore.New()}
	var next func(context.Context, *idempotency.Lease) end
	s := serveLease(t, store, op, func(ctx context.Context, l *idempotency.Lease) end { return next(ctx, l) })
	send := func(key string) reply {
		return s.send(t, "{}", "Idempotency-Key", key)
	}
	expect := func(r reply, status int, outcome idempotency.Outcome) {
		t.Helper()
		if got := s.outcome(t); r.status != status || got != outcome {
			t.Errorf("status %d, outcome %s; want %d, %s: %s", r.status, got, status, outcome, r.body)
		}
	}

	next = func(_ context.Context, l *idempotency.Lease) end {
		if left := time.Until(l.Deadline()); left < 50*time.Second || left > time.Minute {
			t.Errorf("the lease lasts for %v", left)
		}
		r := s.send(t, "{}", "Idempotency-Key", "k")
		expect(r, 409, idempotency.OutcomeInFlight)
		r = s.send(t, `{"other":1}`, "Idempotency-Key", "k")
		expect(r, 422, idempotency.OutcomeMismatch)
		return end{status: 201}
	}
	expect(send("k"), 201, idempotency.OutcomeExecuted)
	r := send("k")
	expect(r, 201, idempotency.OutcomeReplayed)
	if r.header.Get("Idempotent-Replayed") != "true" {
		t.Error("the replay is not marked")
	}

	for _, released := range []int{429, 503} {
		next = func(context.Context, *idempotency.Lease) end { return end{status: released} }
		expect(send("freed"), released, idempotency.OutcomeReleased)
	}
	next = func(context.Context, *idempotency.Lease) end { return end{err: errors.New("failed")} }
	expect(send("freed"), http.StatusTeapot, idempotency.OutcomeReleased)
	next = func(context.Context, *idempotency.Lease) end { return end{status: 201} }
	expect(send("freed"), 201, idempotency.OutcomeExecuted)

	next = func(ctx context.Context, l *idempotency.Lease) end {
		if !l.Token().IsZero() || !l.Deadline().IsZero() || l.Extend(ctx, time.Hour) != nil {
			t.Error("a request without a key holds a lease")
		}
		return end{status: 201}
	}
	expect(send("<none>"), 201, idempotency.OutcomeUnprotected)

	// An answer whose lease was lost is dropped, whatever it is.
	for key, ended := range map[string]func() end{
		"lost":          func() end { return end{status: 201} },
		"lost-released": func() end { return end{status: 429} },
		"lost-failed":   func() end { return end{err: errors.New("failed")} },
	} {
		lost := func() error { return idempotency.ErrLeaseLost }
		next = func(ctx context.Context, l *idempotency.Lease) end {
			store.extend, store.complete, store.release = lost, lost, lost
			if err := l.Extend(ctx, time.Hour); !errors.Is(err, idempotency.ErrLeaseLost) {
				t.Errorf("Extend: %v", err)
			}
			if cause := context.Cause(ctx); !errors.Is(cause, idempotency.ErrLeaseLost) {
				t.Errorf("the cause is %v", cause)
			}
			return ended()
		}
		r := send(key)
		expect(r, 503, idempotency.OutcomeOutcomeUnknown)
		if code := r.code(t); code != idempotency.CodeOutcomeUnknown || r.header.Get("Retry-After") == "" {
			t.Errorf("code %s, Retry-After %q", code, r.header.Get("Retry-After"))
		}
		store.extend, store.complete, store.release = nil, nil, nil
	}
}

// A duplicate that may wait gets the answer of the lease that it waited for.
func TestWaitingForALease(t *testing.T) {
	t.Parallel()
	op := payOperation
	op.Lease, op.WaitUpTo = time.Minute, time.Minute
	running, finish := make(chan struct{}), make(chan struct{})
	s := serveLease(t, memstore.New(), op, func(context.Context, *idempotency.Lease) end {
		close(running)
		<-finish
		return end{status: 201}
	})
	replies := make(chan reply, 2)
	send := func() { replies <- s.send(t, "{}", "Idempotency-Key", "k") }
	go send()
	<-running
	go send()
	close(finish)
	for range 2 {
		if r := <-replies; r.status != 201 {
			t.Errorf("status %d: %s", r.status, r.body)
		}
	}
	if s.runs.Load() != 1 {
		t.Errorf("%d runs", s.runs.Load())
	}
}

// Only a store that offers leases has an edge for them.
func TestEdgeWithoutLeases(t *testing.T) {
	t.Parallel()
	var plain struct{ idempotency.Store[struct{}] }
	plain.Store = memstore.New()
	if idempotency.NewEdge[struct{}](plain, idempotency.Unscoped).Leases() != nil {
		t.Error("a store without leases has an edge for them")
	}
}
