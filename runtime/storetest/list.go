package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// list collects what st lists.
func (s *suite[Tx]) list(st Store[Tx], filter idempotency.Filter) []idempotency.Entry {
	s.Helper()
	var entries []idempotency.Entry
	for e, err := range s.lister(st).List(s.ctx, filter) {
		if err != nil {
			s.Fatalf("List: %v", err)
		}
		entries = append(entries, e)
	}
	return entries
}

// wantListed expects filter to select the records of these keys and no others.
func (s *suite[Tx]) wantListed(filter idempotency.Filter, keys ...string) {
	s.Helper()
	for _, st := range s.stores() {
		got := []string{}
		for _, e := range s.list(st, filter) {
			got = append(got, e.Key)
		}
		slices.Sort(got)
		slices.Sort(keys)
		if !slices.Equal(got, keys) {
			s.Errorf("List with %+v: keys %q, want %q", filter, got, keys)
		}
	}
}

// Records are listed with all that a filter can select them by, and without
// their contents.
func list[Tx any](s *suite[Tx]) {
	s.wantListed(idempotency.Filter{})

	one, two, three, brief := request("one"), request("two"), request(uuidv7(time.Now())), request("brief")
	two.Scope = "tenant\n\x1b[31m' OR \"1\"=\"1"
	three.Operation = "createRefund"
	brief.Retention = time.Minute
	for _, req := range []idempotency.Request{one, two, three, brief} {
		s.executes(s.Store, req, "answer")
	}
	s.wantListed(idempotency.Filter{}, "one", "two", three.Key, "brief")
	s.wantListed(idempotency.Filter{Scope: "tenant"}, "one", three.Key, "brief")
	s.wantListed(idempotency.Filter{Scope: two.Scope}, "two")
	s.wantListed(idempotency.Filter{Operation: "createRefund"}, three.Key)
	s.wantListed(idempotency.Filter{Scope: two.Scope, Operation: "createRefund"})
	s.wantListed(idempotency.Filter{State: idempotency.StateAnswer}, "one", "two", three.Key, "brief")
	s.wantListed(idempotency.Filter{State: idempotency.StateClaim})
	s.wantListed(idempotency.Filter{ID: two.ID()}, "two")
	s.wantListed(idempotency.Filter{ID: three.ID()}, three.Key)
	s.wantListed(idempotency.Filter{ID: two.ID(), Scope: "tenant"})
	s.wantListed(idempotency.Filter{ID: request("none").ID()})

	for _, e := range s.list(s.Store, idempotency.Filter{ID: one.ID()}) {
		if e.Identity != one.Identity || e.State != idempotency.StateAnswer || e.Status != answer("").Status || e.Bytes == 0 || !e.LeaseUntil.IsZero() {
			s.Errorf("the entry is %+v", e)
		}
		if age := time.Since(e.CreatedAt); age.Abs() > patience {
			s.Errorf("created at %v, which is %v ago", e.CreatedAt, age)
		}
		if kept := e.ExpiresAt.Sub(e.CreatedAt); (kept - one.Retention).Abs() > time.Millisecond {
			s.Errorf("kept for %v, want %v", kept, one.Retention)
		}
	}

	s.advance(2 * brief.Retention)
	expired := []string{}
	if _, err := s.Store.Lookup(s.ctx, brief.Identity); err == nil { // it has not vanished by itself
		expired = []string{"brief"}
	}
	s.wantListed(idempotency.Filter{State: idempotency.StateExpired}, expired...)
	s.wantListed(idempotency.Filter{State: idempotency.StateAnswer}, "one", "two", three.Key)

	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	errs := 0
	for e, err := range s.lister(s.Store).List(ctx, idempotency.Filter{}) {
		if errs++; err == nil || errs > 1 {
			s.Errorf("List with a cancelled context yields %+v, %v", e, err)
		}
	}
	if errs == 0 {
		s.Error("List with a cancelled context yields no error")
	}
}

// A list of several pages yields each record once, while others come and go.
// It holds nothing that requests need, since they are served from within.
func listBesideWrites[Tx any](s *suite[Tx]) {
	const records, writers = 600, 8
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := w; i < records; i += writers {
				if _, err := s.Store.Execute(s.ctx, request(fmt.Sprintf("kept-%d", i)), s.work(answer("kept"))); err != nil {
					s.Errorf("Execute: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	if s.Failed() {
		return
	}
	for range 2 {
		s.executes(s.Store, request(fmt.Sprintf("released-%d", s.runs.Load())), "released")
	}

	seen := map[string]int{}
	i := 0
	for e, err := range s.lister(s.Store).List(s.ctx, idempotency.Filter{}) {
		if err != nil {
			s.Fatalf("List: %v", err)
		}
		seen[e.Key]++
		if i++; i%100 == 1 {
			for _, st := range s.stores() {
				s.executes(st, request(fmt.Sprintf("new-%d-%d", i, s.runs.Load())), "new")
			}
		}
		if strings.HasPrefix(e.Key, "released") {
			if err := s.Store.Release(s.ctx, e.Identity); err != nil {
				s.Errorf("Release of what is listed: %v", err)
			}
		}
	}
	for key, n := range seen {
		if n != 1 {
			s.Errorf("%s was listed %d times", key, n)
		}
	}
	for i := range records {
		if key := fmt.Sprintf("kept-%d", i); seen[key] != 1 {
			s.Errorf("%s was listed %d times, want once", key, seen[key])
		}
	}

	some := 0
	for _, err := range s.lister(s.Store).List(s.ctx, idempotency.Filter{}) {
		if err != nil {
			s.Fatalf("List: %v", err)
		}
		if some++; some == 3 {
			break
		}
	}
	s.executes(s.Store, request("after"), "after")
}

// Stats are the counts of what is listed.
func stats[Tx any](s *suite[Tx]) {
	compare := func() {
		s.Helper()
		var want idempotency.Stats
		for _, e := range s.list(s.Store, idempotency.Filter{}) {
			want.Add(e.Operation, e.Counts())
		}
		for _, st := range s.stores() {
			got, err := s.lister(st).Stats(s.ctx)
			if err != nil {
				s.Fatalf("Stats: %v", err)
			}
			same := func(a, b idempotency.Counts) bool {
				oldest, newest := a.Oldest.Equal(b.Oldest), a.Newest.Equal(b.Newest)
				a.Oldest, a.Newest, b.Oldest, b.Newest = time.Time{}, time.Time{}, time.Time{}, time.Time{}
				return a == b && oldest && newest
			}
			if !same(got.Counts, want.Counts) || !maps.EqualFunc(got.Operations, want.Operations, same) {
				s.Errorf("Stats: %+v, want %+v", got, want)
			}
		}
	}
	compare()
	for i := range 3 {
		s.executes(s.Store, request(fmt.Sprint(i)), "payment")
	}
	refund := request("refund")
	refund.Operation, refund.Retention = "createRefund", time.Minute
	s.executes(s.Store, refund, "refund")
	got, err := s.lister(s.Store).Stats(s.ctx)
	if err != nil || got.Answers != 4 || got.Operations["createPayment"].Answers != 3 || got.Operations["createRefund"].Answers != 1 ||
		got.Claims+got.Passed+got.Expired != 0 || got.Bytes <= got.Operations["createPayment"].Bytes {
		s.Errorf("Stats: %+v, %v", got, err)
	}
	compare()
	s.advance(2 * refund.Retention)
	compare()
}

// entry returns what st lists of id, and whether there is such a record.
func (s *suite[Tx]) entry(st Store[Tx], id idempotency.Identity) (e idempotency.Entry, is bool) {
	s.Helper()
	for _, e = range s.list(st, idempotency.Filter{ID: id.ID()}) {
		is = true
	}
	return e, is
}

// wantRelease releases what e lists, and expects the error want.
func (s *suite[Tx]) wantRelease(st Store[Tx], e idempotency.Entry, want error) {
	s.Helper()
	if err := s.lister(st).ReleaseEntry(s.ctx, e); !errors.Is(err, want) {
		s.Errorf("ReleaseEntry of %+v: %v, want %v", e, err, want)
	}
}

// An operator releases what was listed, and nothing that has come since.
func releaseEntry[Tx any](s *suite[Tx]) {
	req := request("k")
	st := s.stores()[len(s.stores())-1]
	none := idempotency.Entry{Identity: req.Identity} // lists no record
	s.wantRelease(st, none, idempotency.ErrNotFound)
	for i := range 10 { // which some stores do within a millisecond
		s.executes(s.Store, req, fmt.Sprint(i))
		before, is := s.entry(st, req.Identity)
		if !is {
			s.Fatal("the answer is not listed")
		}
		s.wantRelease(st, none, idempotency.ErrChanged)
		if err := s.Store.Release(s.ctx, req.Identity); err != nil {
			s.Fatalf("Release: %v", err)
		}
		s.wantRelease(st, before, idempotency.ErrNotFound)
		s.executes(s.Store, req, "again")
		s.wantRelease(st, before, idempotency.ErrChanged)
		s.replays(s.Store, req, answer("again"))
		now, _ := s.entry(st, req.Identity)
		s.wantRelease(st, now, nil)
		s.wantNoRecord(req.Identity)
		s.wantRelease(st, now, idempotency.ErrNotFound)
	}

	// While work runs either the claim is a record, or nothing is there to be
	// released.
	if s.oneWriter { // which lets no other store in
		st = s.Store
	}
	var claim idempotency.Entry
	var isRecord bool
	_, err := s.Store.Execute(s.ctx, req, func(ctx context.Context, tx Tx) (idempotency.Response, error) {
		s.wantRelease(st, none, idempotency.ErrInFlight)
		if !s.oneWriter {
			claim, isRecord = s.entry(st, req.Identity)
		}
		if isRecord {
			passed := claim
			passed.State = idempotency.StatePassed // when it was listed
			s.wantRelease(st, passed, idempotency.ErrInFlight)
		}
		return s.work(answer("completed"))(ctx, tx)
	})
	if err != nil {
		s.Fatalf("Execute: %v", err)
	}
	s.replays(s.Store, req, answer("completed"))
	if !isRecord {
		return
	}
	s.wantRelease(st, claim, idempotency.ErrChanged)
	s.replays(s.Store, req, answer("completed"))

	// The attempt whose claim was released keeps nothing.
	req = request("released")
	_, err = s.Store.Execute(s.ctx, req, func(ctx context.Context, tx Tx) (idempotency.Response, error) {
		claim, _ = s.entry(st, req.Identity)
		s.wantRelease(st, claim, nil)
		_, err := st.Execute(ctx, req, func(ctx context.Context, tx Tx) (idempotency.Response, error) {
			s.wantRelease(st, claim, idempotency.ErrInFlight)
			return s.work(answer("second"))(ctx, tx)
		})
		if err != nil {
			s.Errorf("Execute after the release: %v", err)
		}
		return s.work(answer("first"))(ctx, tx)
	})
	if !errors.Is(err, idempotency.ErrLeaseLost) {
		s.Errorf("Execute: %v, want %v", err, idempotency.ErrLeaseLost)
	}
	s.wantEffects("first", 0)
	s.wantRelease(st, claim, idempotency.ErrChanged)
	s.replays(s.Store, req, answer("second"))
}

// Claims of leases are listed and counted by what they are worth.
func leaseListed[Tx any](s *leaseSuite[Tx]) {
	req := leaseRequest("k")
	s.crash(s.Store, req, token(1))
	s.executes(s.Store, request("answered"), "answer")
	listed := func(state idempotency.State) {
		s.Helper()
		s.wantListed(idempotency.Filter{State: state, ID: req.ID()}, "k")
		for _, e := range s.list(s.last(), idempotency.Filter{ID: req.ID()}) {
			if e.Status != 0 || e.Bytes != 0 || e.LeaseUntil.IsZero() || !e.ExpiresAt.After(e.LeaseUntil) {
				s.Errorf("the claim's entry is %+v", e)
			}
		}
		got, err := s.lister(s.last()).Stats(s.ctx)
		want := idempotency.Entry{State: state}.Counts()
		if state != idempotency.StateExpired {
			want.Answers++
		} else {
			want.Expired++
		}
		if err != nil || got.Claims != want.Claims || got.Passed != want.Passed || got.Answers != want.Answers || got.Expired != want.Expired {
			s.Errorf("Stats: %+v, %v, want %+v", got, err, want)
		}
	}
	listed(idempotency.StateClaim)
	s.advance(2 * req.Lease)
	listed(idempotency.StatePassed)
	s.advance(req.Retention)
	listed(idempotency.StateExpired)
}

// What an operator has seen of a lease is released, though it was extended or has
// passed meanwhile; not if it was taken for passed and is live, nor what has come
// in its place. The holder of a claim that was released is fenced.
func leaseReleaseEntry[Tx any](s *leaseSuite[Tx]) {
	st := s.last()
	listed := func(req idempotency.Request, state idempotency.State) idempotency.Entry {
		s.Helper()
		e, is := s.entry(st, req.Identity)
		if !is || e.State != state {
			s.Fatalf("%v, %+v is listed, want %v", is, e, state)
		}
		return e
	}
	claims := func(key string) (req idempotency.Request, claim idempotency.Entry) {
		s.Helper()
		req = leaseRequest(key)
		s.crash(s.Store, req, token(1))
		return req, listed(req, idempotency.StateClaim)
	}
	completes := func(req idempotency.Request, t idempotency.LeaseToken) {
		s.Helper()
		if err := s.leaser(s.Store).CompleteLease(s.ctx, req, t, answer(req.Key)); err != nil {
			s.Errorf("CompleteLease: %v", err)
		}
	}
	extends := func(req idempotency.Request) {
		s.Helper()
		if err := s.leaser(s.Store).ExtendLease(s.ctx, req, token(1), 2*req.Lease); err != nil {
			s.Errorf("ExtendLease: %v", err)
		}
	}
	released := func(req idempotency.Request, e idempotency.Entry) {
		s.Helper()
		s.wantRelease(st, e, nil)
		s.wantNoRecord(req.Identity)
		s.wantRelease(st, e, idempotency.ErrNotFound)
		s.fenced(s.Store, req, token(1))
		s.runsUnderLease(st, req, "second")
		s.wantRelease(st, e, idempotency.ErrChanged)
		s.fenced(s.Store, req, token(1))
		s.answersUnderLease(s.Store, req, answer("second"))
	}

	released(claims("held"))

	req, claim := claims("extended")
	extends(req)
	released(req, claim)

	req, claim = claims("passed since")
	s.advance(2 * req.Lease)
	released(req, claim)

	req, _ = claims("passed")
	s.advance(2 * req.Lease)
	released(req, listed(req, idempotency.StatePassed))

	req, claim = claims("completed")
	completes(req, token(1))
	s.wantRelease(st, claim, idempotency.ErrChanged)
	s.answersUnderLease(s.Store, req, answer(req.Key))

	req, _ = claims("extended after it passed")
	s.advance(2 * req.Lease)
	passed := listed(req, idempotency.StatePassed)
	extends(req)
	s.wantRelease(st, passed, idempotency.ErrInFlight)
	completes(req, token(1))
	s.wantRelease(st, passed, idempotency.ErrChanged)
	s.answersUnderLease(s.Store, req, answer(req.Key))

	req, claim = claims("taken over")
	s.advance(2 * req.Lease)
	passed = listed(req, idempotency.StatePassed)
	s.crash(s.Store, req, token(2))
	for _, e := range []idempotency.Entry{claim, passed} {
		s.wantRelease(st, e, idempotency.ErrInFlight)
	}
	s.advance(2 * req.Lease)
	for _, e := range []idempotency.Entry{claim, passed} {
		s.wantRelease(st, e, idempotency.ErrChanged)
	}
	completes(req, token(2))
	for _, e := range []idempotency.Entry{claim, passed} {
		s.wantRelease(st, e, idempotency.ErrChanged)
	}
	s.answersUnderLease(s.Store, req, answer(req.Key))

	before := listed(req, idempotency.StateAnswer)
	if err := st.Release(s.ctx, req.Identity); err != nil {
		s.Errorf("Release: %v", err)
	}
	s.crash(s.Store, req, token(3))
	s.wantRelease(st, before, idempotency.ErrInFlight)
	completes(req, token(3))
	s.wantRelease(st, before, idempotency.ErrChanged)
	s.answersUnderLease(s.Store, req, answer(req.Key))
	released(req, listed(req, idempotency.StateAnswer))
}
