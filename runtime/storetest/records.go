package storetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// A record is replayed as long as its retention lasts. Then the request is
// executed again, whatever it contains.
//
// Covers EXP-12.
func expiry[Tx any](s *suite[Tx]) {
	req := request("k")
	s.executes(s.Store, req, "first")
	s.advance(req.Retention - time.Minute)
	s.replays(s.Store, req, answer("first"))
	s.advance(2 * time.Minute)

	req.Fingerprint = fingerprint("other payload")
	s.executes(s.Store, req, "second")
	for _, st := range s.stores() {
		s.replays(st, req, answer("second"))
	}
	s.wantEffects("first", 1)
	s.wantEffects("second", 1)
}

// A record may expire while it is being replayed: each retry gets the answer that
// was stored, or that of the one further run.
//
// Covers EXP-12.
func expiryWhileAnswered[Tx any](s *suite[Tx]) {
	const clients = 4
	req := request("k")
	s.executes(s.Store, req, "first")
	replayed := make(chan struct{}, clients)
	var wg sync.WaitGroup
	for i := range clients {
		st := s.stores()[i%len(s.stores())]
		wg.Go(func() {
			for s.ctx.Err() == nil {
				res, err := st.Execute(s.ctx, req, s.work(answer("second")))
				switch {
				case errors.Is(err, idempotency.ErrInFlight):
					runtime.Gosched()
				case err != nil:
					s.Errorf("Execute: %v", err)
					return
				case string(res.Body) != "first":
					s.same(res.Response, answer("second"))
					return
				case !res.Replayed:
					s.Error("the first answer is no replay")
				}
				select {
				case replayed <- struct{}{}:
				default:
				}
			}
			s.Error("the record has not expired")
		})
	}
	for range clients {
		wait(s, replayed, "a replay")
	}
	for s.Advance(s.ctx, 2*req.Retention) != nil && s.ctx.Err() == nil { // it can lose a conflict to the clients
		runtime.Gosched()
	}
	wg.Wait()
	for _, st := range s.stores() {
		s.replays(st, req, answer("second"))
	}
	s.wantEffects("first", 1)
	s.wantEffects("second", 1)
	if n := s.runs.Load(); n < 2 {
		s.Errorf("%d runs of work, want one for each answer", n)
	}
}

// An expired answer is given to nobody, while a claim on its key is held and
// after that has failed.
//
// Covers EXP-12, FPR-15.
func expiryWhileRunning[Tx any](s *suite[Tx]) {
	req := request("k")
	s.executes(s.Store, req, "first")
	s.advance(2 * req.Retention)
	failure := errors.New("insufficient funds")
	_, err := s.Store.Execute(s.ctx, req, func(ctx context.Context, tx Tx) (idempotency.Response, error) {
		other := req
		other.Fingerprint = fingerprint("other payload")
		for _, st := range s.stores() {
			if st != s.Store && s.oneWriter {
				continue // it waits for this handler
			}
			s.refuses(st, req, idempotency.ErrInFlight)
			s.refuses(st, other, idempotency.ErrInFlight)
		}
		return idempotency.Response{}, errors.Join(s.effect(ctx, tx, "failed"), failure)
	})
	if !errors.Is(err, failure) {
		s.Errorf("Execute: %v, want the handler's own error", err)
	}
	s.executes(s.stores()[len(s.stores())-1], req, "second")
	s.replays(s.Store, req, answer("second"))
	s.wantEffects("first", 1)
	s.wantEffects("failed", 0)
	s.wantEffects("second", 1)
}

// Retention counts from the completion, not from the claim, and is exact, also
// where clocks change meanwhile: half a year or ten months from any day on.
//
// Covers EXP-08.
func retentionFromCompletion[Tx any](s *suite[Tx]) {
	for i, st := range s.stores() {
		for _, retention := range []time.Duration{90 * time.Second, 24*time.Hour + time.Millisecond, 182 * 24 * time.Hour, 300 * 24 * time.Hour} {
			s.keptFromCompletion(st, fmt.Sprintf("%d-%v", i, retention), retention)
		}
	}
}

func (s *suite[Tx]) keptFromCompletion(st Store[Tx], key string, retention time.Duration) {
	s.Helper()
	outer, inner := request(key), request(key)
	outer.Retention, inner.Operation = retention, "createRefund"
	_, err := st.Execute(s.ctx, outer, func(ctx context.Context, tx Tx) (idempotency.Response, error) {
		if !s.oneWriter { // where nothing else can be stored meanwhile
			s.executes(st, inner, "inner")
		}
		return s.work(answer("outer"))(ctx, tx)
	})
	if err != nil {
		s.Fatalf("Execute: %v", err)
	}
	rec, err := s.Store.Lookup(s.ctx, outer.Identity)
	if err != nil {
		s.Fatalf("Lookup: %v", err)
	}
	if kept := rec.ExpiresAt.Sub(rec.CreatedAt); (kept - retention).Abs() > time.Millisecond {
		s.Errorf("kept from %v to %v, which is %v, want %v", rec.CreatedAt, rec.ExpiresAt, kept, retention)
	}
	if s.oneWriter {
		return
	}
	within, err := s.Store.Lookup(s.ctx, inner.Identity)
	if err != nil {
		s.Fatalf("Lookup: %v", err)
	}
	if rec.CreatedAt.Before(within.CreatedAt) {
		s.Errorf("created at %v, %v before what its handler has stored", rec.CreatedAt, within.CreatedAt.Sub(rec.CreatedAt))
	}
}

// A UUIDv7 key is judged by its own time where the operation asks for it and
// nothing is stored. A record decides first.
//
// Covers EXP-01.
func ageOfKey[Tx any](s *suite[Tx]) {
	timed := func(age time.Duration) idempotency.Request {
		req := request(uuidv7(time.Now().Add(-age)))
		req.KeyHasTime = true
		return req
	}
	s.refuses(s.Store, timed(2*time.Hour), idempotency.ErrExpired)
	s.refuses(s.Store, timed(-time.Hour), idempotency.ErrKeyInvalid)
	s.executes(s.Store, timed(0), "new")
	s.executes(s.Store, timed(-time.Minute), "slightly ahead")

	req := timed(90 * time.Minute)
	req.Retention = 2 * time.Hour
	s.executes(s.Store, req, "old")
	short := req
	short.Retention = time.Hour
	for _, st := range s.stores() {
		s.replays(st, short, answer("old"))
	}
	s.advance(3 * time.Hour)
	s.refuses(s.Store, short, idempotency.ErrExpired)
	s.wantEffects("old", 1)

	untimed := timed(48 * time.Hour)
	untimed.KeyHasTime = false
	s.executes(s.Store, untimed, "order")
}

// Two operations with opposite options on one store do not touch each other.
//
// Covers FPR-21.
func optionsBelongToOperation[Tx any](s *suite[Tx]) {
	key := uuidv7(time.Now().Add(-2 * time.Hour))
	strict, lax := request(key), request(key)
	strict.Operation, strict.KeyHasTime = "strict", true
	lax.Operation, lax.Retention = "lax", 10*time.Minute
	s.executes(s.Store, lax, "lax")
	s.refuses(s.Store, strict, idempotency.ErrExpired)

	strict.Retention = 24 * time.Hour
	s.executes(s.Store, strict, "strict")
	s.advance(time.Hour)
	s.replays(s.Store, strict, answer("strict"))
	s.executes(s.Store, lax, "lax again")
}

// Sweep deletes expired records and no others, also when several sweepers run.
func sweep[Tx any](s *suite[Tx]) {
	short, long := request("short"), request("long")
	short.Retention, long.Retention = time.Minute, 24*time.Hour
	s.executes(s.Store, long, "long")
	if n, err := s.Store.Sweep(s.ctx); n != 0 || err != nil {
		s.Errorf("Sweep with nothing expired: %d, %v", n, err)
	}

	const expired = 20
	for i := range expired {
		short.Key = fmt.Sprintf("short-%d", i)
		s.executes(s.Store, short, "short")
	}
	s.advance(time.Hour)
	var visible int64 // a store whose records vanish by themselves has none to sweep
	for i := range expired {
		short.Key = fmt.Sprintf("short-%d", i)
		if _, err := s.Store.Lookup(s.ctx, short.Identity); err == nil {
			visible++
		}
	}

	var wg sync.WaitGroup
	var mu sync.Mutex
	var swept int64
	for range 3 {
		for _, st := range s.stores() {
			wg.Go(func() {
				n, err := st.Sweep(s.ctx)
				if err != nil {
					s.Errorf("Sweep: %v", err)
				}
				mu.Lock()
				swept += n
				mu.Unlock()
			})
		}
	}
	wg.Wait()
	if swept != visible {
		s.Errorf("%d records swept, want %d", swept, visible)
	}
	for i := range expired {
		short.Key = fmt.Sprintf("short-%d", i)
		s.wantNoRecord(short.Identity)
	}
	s.replays(s.Store, long, answer("long"))

	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	if _, err := s.Store.Sweep(ctx); err == nil {
		s.Error("Sweep with a cancelled context: no error")
	}
}

// A sweep while a handler runs leaves its claim alone, although an expired
// record of the same key was there.
//
// Covers CON-14.
func sweepSparesClaim[Tx any](s *suite[Tx]) {
	req := request("k")
	s.executes(s.Store, req, "first")
	s.advance(2 * req.Retention)

	swept := make(chan error, 1)
	_, err := s.Store.Execute(s.ctx, req, func(ctx context.Context, tx Tx) (idempotency.Response, error) {
		go func() {
			_, err := s.stores()[len(s.stores())-1].Sweep(s.ctx)
			swept <- err
		}()
		if !s.oneWriter { // there it waits for this handler
			if err := wait(s, swept, "the sweep"); err != nil {
				s.Errorf("Sweep: %v", err)
			}
			s.refuses(s.Store, req, idempotency.ErrInFlight)
		}
		return s.work(answer("second"))(ctx, tx)
	})
	if err != nil {
		s.Fatalf("Execute: %v", err)
	}
	if s.oneWriter {
		if err := wait(s, swept, "the sweep"); err != nil {
			s.Errorf("Sweep: %v", err)
		}
	}
	s.replays(s.Store, req, answer("second"))
	s.wantEffects("second", 1)
}

// A sweep between the steps of a claim changes nothing: an expired key is
// executed once, and the other answers are its replay or in flight.
//
// Covers CON-14, EXP-12, STO-18.
func sweepBesideExecute[Tx any](s *suite[Tx]) {
	const keys = 10
	for i := range keys {
		s.executes(s.Store, request(fmt.Sprint(i)), "first")
	}
	s.advance(2 * time.Hour)
	var wg sync.WaitGroup
	for _, st := range s.stores() {
		wg.Go(func() {
			for range keys {
				if _, err := st.Sweep(s.ctx); err != nil {
					s.Errorf("Sweep: %v", err)
				}
			}
		})
		for i := range keys {
			for range 2 {
				wg.Go(func() { s.untilAnswered(st, request(fmt.Sprint(i)), "second-"+fmt.Sprint(i)) })
			}
		}
	}
	wg.Wait()
	s.wantEffects("first", keys)
	for i := range keys {
		label := "second-" + fmt.Sprint(i)
		s.replays(s.Store, request(fmt.Sprint(i)), answer(label))
		s.wantEffects(label, 1)
	}
}

// Lookup returns all that was stored.
func lookup[Tx any](s *suite[Tx]) {
	req := request("k")
	s.wantNoRecord(req.Identity)
	s.executes(s.Store, req, "first")
	for _, st := range s.stores() {
		rec, err := st.Lookup(s.ctx, req.Identity)
		if err != nil {
			s.Fatalf("Lookup: %v", err)
		}
		s.same(rec.Response, answer("first"))
		if rec.Identity != req.Identity {
			s.Errorf("identity %+v, want %+v", rec.Identity, req.Identity)
		}
		if string(rec.Fingerprint) != string(req.Fingerprint[:]) {
			s.Errorf("fingerprint %x, want %x", rec.Fingerprint, req.Fingerprint)
		}
		if age := time.Since(rec.CreatedAt); age.Abs() > patience {
			s.Errorf("created at %v, which is %v ago", rec.CreatedAt, age)
		}
		if kept := rec.ExpiresAt.Sub(rec.CreatedAt); (kept - req.Retention).Abs() > time.Millisecond {
			s.Errorf("kept for %v, want %v", kept, req.Retention)
		}
	}
	other := req.Identity
	other.Scope = "other"
	s.wantNoRecord(other)
}

// Release frees a stored key and nothing else; it refuses while a claim is held.
//
// Covers CON-16, CRA-09.
func release[Tx any](s *suite[Tx]) {
	req, other := request("k"), request("other")
	if err := s.Store.Release(s.ctx, req.Identity); !errors.Is(err, idempotency.ErrNotFound) {
		s.Errorf("Release of nothing: %v, want %v", err, idempotency.ErrNotFound)
	}
	s.executes(s.Store, other, "other")
	_, err := s.Store.Execute(s.ctx, req, func(ctx context.Context, tx Tx) (idempotency.Response, error) {
		for _, st := range s.stores() {
			if st != s.Store && s.oneWriter {
				continue // it cannot tell whose transaction it waits for
			}
			if err := st.Release(s.ctx, req.Identity); !errors.Is(err, idempotency.ErrInFlight) {
				s.Errorf("Release of a claim: %v, want %v", err, idempotency.ErrInFlight)
			}
		}
		return s.work(answer("first"))(ctx, tx)
	})
	if err != nil {
		s.Fatalf("Execute: %v", err)
	}
	if err := s.Store.Release(s.ctx, req.Identity); err != nil {
		s.Errorf("Release: %v", err)
	}
	s.wantNoRecord(req.Identity)
	s.executes(s.Store, req, "second")
	s.replays(s.Store, other, answer("other"))
}
