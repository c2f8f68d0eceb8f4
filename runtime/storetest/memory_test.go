package storetest_test

import (
	"context"
	"errors"
	"iter"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
	"github.com/idemgen/idemgen/runtime/storetest"
)

// memory is a store that lists its records and has leases. Its flaw is what it
// breaks of that: see [memoryFlaws].
type memory struct {
	*memstore.Store
	flaw string
	now  func() time.Time

	mu      sync.Mutex
	holders map[idempotency.Identity]idempotency.LeaseToken // who has claimed last
}

func (m *memory) is(flaw string) bool { return m.flaw == flaw }

// holder is who has claimed id last, and whether anybody has.
func (m *memory) holder(id idempotency.Identity) (token idempotency.LeaseToken, claimed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	token, claimed = m.holders[id]
	return token, claimed
}

// entry is what is listed of id.
func (m *memory) entry(id idempotency.Identity) (e idempotency.Entry) {
	for e = range m.Store.List(context.Background(), idempotency.Filter{ID: id.ID()}) {
	}
	return e
}

// List implements [idempotency.Lister].
func (m *memory) List(ctx context.Context, filter idempotency.Filter) iter.Seq2[idempotency.Entry, error] {
	if m.is("lists what is not asked for") {
		filter.Scope = ""
	}
	return func(yield func(idempotency.Entry, error) bool) {
		for e, err := range m.Store.List(ctx, filter) {
			if m.is("lists claims as answers") {
				e.LeaseUntil = time.Time{}
			}
			if !yield(e, err) || m.is("lists records twice") && err == nil && !yield(e, err) {
				return
			}
		}
	}
}

// Stats implements [idempotency.Lister].
func (m *memory) Stats(ctx context.Context) (idempotency.Stats, error) {
	stats, err := m.Store.Stats(ctx)
	if m.is("counts what has expired as answers") {
		stats.Answers, stats.Expired = stats.Answers+stats.Expired, 0
	}
	return stats, err
}

// ReleaseEntry implements [idempotency.Lister].
func (m *memory) ReleaseEntry(ctx context.Context, e idempotency.Entry) error {
	for now := range m.Store.List(ctx, idempotency.Filter{ID: e.ID()}) {
		switch {
		case m.is("ignores the version"):
			e.Version = now.Version
		case m.is("ignores the state") && now.State == idempotency.StateClaim:
			e.State = now.State
		}
	}
	err := m.Store.ReleaseEntry(ctx, e)
	if m.is("does not tell what was released") {
		return nil
	}
	return err
}

// Release implements [idempotency.Keeper].
func (m *memory) Release(ctx context.Context, id idempotency.Identity) error {
	if m.is("releases live claims") {
		return m.Store.ReleaseEntry(ctx, m.entry(id))
	}
	return m.Store.Release(ctx, id)
}

// Sweep implements [idempotency.Keeper].
func (m *memory) Sweep(ctx context.Context) (int64, error) {
	var n int64
	if m.is("sweeps claims whose lease has passed") {
		for e := range m.Store.List(ctx, idempotency.Filter{State: idempotency.StatePassed}) {
			if m.Store.ReleaseEntry(ctx, e) == nil {
				n++
			}
		}
	}
	swept, err := m.Store.Sweep(ctx)
	return n + swept, err
}

// Execute implements [idempotency.Store].
func (m *memory) Execute(ctx context.Context, req idempotency.Request, work idempotency.Work[struct{}]) (idempotency.Result, error) {
	res, err := m.Store.Execute(ctx, req, work)
	if m.is("executes beside leases") && errors.Is(err, idempotency.ErrInFlight) {
		resp, err := m.Transact(ctx, work)
		return idempotency.Result{Response: resp}, err
	}
	return res, err
}

// AcquireLease implements [idempotency.Leaser].
func (m *memory) AcquireLease(ctx context.Context, req idempotency.Request, token idempotency.LeaseToken) (idempotency.Result, error) {
	before, claimed := m.holder(req.Identity)
	switch {
	case m.is("claims for nobody"):
		ctx = context.WithoutCancel(ctx)
	case m.is("takes its own claim for a rival's") && claimed && before == token:
		return idempotency.Result{}, idempotency.ErrInFlight
	case m.is("judges the key's age at a take-over"):
		if err := req.CheckAge(m.now()); err != nil {
			return idempotency.Result{}, err
		}
	}
	res, err := m.Store.AcquireLease(ctx, req, token)
	switch {
	case m.is("claims twice") && errors.Is(err, idempotency.ErrInFlight):
		err = nil
	case m.is("takes over for another request") && errors.Is(err, idempotency.ErrMismatch) && m.entry(req.Identity).State == idempotency.StatePassed:
		if err = m.Store.Release(ctx, req.Identity); err == nil {
			res, err = m.Store.AcquireLease(ctx, req, token)
		}
	}
	if err == nil && !res.Replayed {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.holders[req.Identity] = token
	}
	return res, err
}

// ExtendLease implements [idempotency.Leaser].
func (m *memory) ExtendLease(ctx context.Context, req idempotency.Request, token idempotency.LeaseToken, d time.Duration) error {
	if m.is("extends nothing") {
		return idempotency.ErrLeaseLost
	}
	return m.Store.ExtendLease(ctx, req, token, d)
}

// CompleteLease implements [idempotency.Leaser].
func (m *memory) CompleteLease(ctx context.Context, req idempotency.Request, token idempotency.LeaseToken, resp idempotency.Response) error {
	switch {
	case m.is("stores no answers"):
		return m.Store.ReleaseLease(ctx, req, token)
	case m.is("stores text"):
		resp.Body = []byte(string([]rune(string(resp.Body))))
	case m.is("completes for whoever asks"):
		if holder, claimed := m.holder(req.Identity); claimed {
			token = holder
		}
	case m.is("refuses what is late") && m.entry(req.Identity).State == idempotency.StatePassed:
		return idempotency.ErrLeaseLost
	}
	return m.Store.CompleteLease(ctx, req, token, resp)
}

// ReleaseLease implements [idempotency.Leaser].
func (m *memory) ReleaseLease(ctx context.Context, req idempotency.Request, token idempotency.LeaseToken) error {
	if m.is("frees nothing") {
		return nil
	}
	return m.Store.ReleaseLease(ctx, req, token)
}

func memoryHarness(flaw string) storetest.Harness[struct{}] {
	return storetest.Harness[struct{}]{
		Open: func(*testing.T) storetest.Fixture[struct{}] {
			var ahead atomic.Int64
			now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
			return storetest.Fixture[struct{}]{
				Store: &memory{
					Store: memstore.New(memstore.WithClock(now)), flaw: flaw, now: now,
					holders: map[idempotency.Identity]idempotency.LeaseToken{},
				},
				Advance: func(_ context.Context, d time.Duration) error { ahead.Add(int64(d)); return nil },
			}
		},
	}
}

func TestMemory(t *testing.T) {
	t.Parallel()
	storetest.Run(t, memoryHarness(os.Getenv(envFlaw)))
}

func TestMemoryLeases(t *testing.T) {
	t.Parallel()
	storetest.RunLeases(t, memoryHarness(os.Getenv(envFlaw)))
}
