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

// A claim that an operator gives up while work runs: either the store refuses,
// since the claim ends with the transaction, or the attempt keeps nothing.
func releaseClaim[Tx any](s *suite[Tx]) {
	req := request("k")
	if err := s.lister(s.Store).ReleaseClaim(s.ctx, req.Identity); !errors.Is(err, idempotency.ErrNotFound) {
		s.Errorf("ReleaseClaim of nothing: %v, want %v", err, idempotency.ErrNotFound)
	}
	var released error
	_, err := s.Store.Execute(s.ctx, req, func(ctx context.Context, tx Tx) (idempotency.Response, error) {
		st := s.stores()[len(s.stores())-1]
		if s.oneWriter { // which lets no other store in
			st = s.Store
		}
		released = s.lister(st).ReleaseClaim(s.ctx, req.Identity)
		return s.work(answer("first"))(ctx, tx)
	})
	switch {
	case errors.Is(released, idempotency.ErrInFlight) && err == nil:
		s.wantEffects("first", 1)
	case released == nil && errors.Is(err, idempotency.ErrLeaseLost):
		s.wantEffects("first", 0)
		s.executes(s.Store, req, "first")
	default:
		s.Fatalf("ReleaseClaim during work: %v; then Execute: %v", released, err)
	}
	for _, st := range s.stores() {
		if err := s.lister(st).ReleaseClaim(s.ctx, req.Identity); !errors.Is(err, idempotency.ErrNotFound) {
			s.Errorf("ReleaseClaim of an answer: %v, want %v", err, idempotency.ErrNotFound)
		}
	}
	s.replays(s.Store, req, answer("first"))
}

// Claims of leases are listed and counted by what they are worth, and an
// operator can give one up whose holder lives: the holder is fenced.
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

	req = leaseRequest("held")
	s.crash(s.Store, req, token(2))
	if err := s.lister(s.last()).ReleaseClaim(s.ctx, req.Identity); err != nil {
		s.Fatalf("ReleaseClaim: %v", err)
	}
	s.wantNoRecord(req.Identity)
	if err := s.lister(s.last()).ReleaseClaim(s.ctx, req.Identity); !errors.Is(err, idempotency.ErrNotFound) {
		s.Errorf("ReleaseClaim once more: %v, want %v", err, idempotency.ErrNotFound)
	}
	s.fenced(s.Store, req, token(2))
	s.runsUnderLease(s.last(), req, "second")
	s.fenced(s.Store, req, token(2))
	s.answersUnderLease(s.Store, req, answer("second"))
}
