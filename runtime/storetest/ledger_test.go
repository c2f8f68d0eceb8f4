package storetest_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/storetest"
)

// ledger is a database of lines, as a third party may have one, with room for
// records.
type ledger struct {
	mu      sync.Mutex
	ahead   time.Duration // of the clock
	lines   map[string]int
	records map[idempotency.Identity]idempotency.Record
	claims  map[idempotency.Identity]bool
}

func newLedger() *ledger {
	return &ledger{
		lines:   map[string]int{},
		records: map[idempotency.Identity]idempotency.Record{},
		claims:  map[idempotency.Identity]bool{},
	}
}

func (l *ledger) now() time.Time { return time.Now().Add(l.ahead) }

func (l *ledger) advance(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ahead += d
}

func (l *ledger) count(line string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines[line]
}

// ledgerTx gathers lines until the commit.
type ledgerTx struct {
	lines []string
	over  error // why no more are taken
}

var errEnded = errors.New("ledger: the transaction has ended")

func (tx *ledgerTx) write(line string) error {
	if tx.over != nil {
		return tx.over
	}
	tx.lines = append(tx.lines, line)
	return nil
}

// rollback is what a handler should leave to the store.
func (tx *ledgerTx) rollback() { tx.lines, tx.over = nil, errEnded }

// errConflict is a transaction that lost to another.
var errConflict = errors.New("ledger: conflict")

// ledgerStore is a store on a ledger. Its flaw is the guarantee that it breaks:
// see [flaws].
type ledgerStore struct {
	*ledger
	flaw string

	cut atomic.Bool

	// What flawed stores keep in their process.
	claimsHere    map[idempotency.Identity]bool
	retentionHere time.Duration
	replaying     sync.Mutex
}

var _ storetest.Store[*ledgerTx] = (*ledgerStore)(nil)

func newLedgerStore(l *ledger, flaw string) *ledgerStore {
	return &ledgerStore{ledger: l, flaw: flaw, claimsHere: map[idempotency.Identity]bool{}}
}

// Guarantees implements [storetest.Store].
func (s *ledgerStore) Guarantees() idempotency.Guarantees {
	g := idempotency.Guarantees{
		Atomic:   idempotency.AtomicQueued,
		Fenced:   idempotency.FencedByTransaction,
		Survives: idempotency.SurvivesProcess,
	}
	switch s.flaw {
	case "promises more than there is":
		g.Atomic, g.Fenced, g.Survives = "everything", "everything", "everything"
	case "says that nothing is atomic":
		g.Atomic = idempotency.AtomicNothing
	case "says that nothing survives":
		g.Survives = idempotency.SurvivesNothing
	case "hides from the compiler what survives":
		g.Survives = idempotency.SurvivesFailover
	}
	return g
}

func (s *ledgerStore) is(flaw string) bool { return s.flaw == flaw }

// reach returns an error if the ledger cannot be reached.
func (s *ledgerStore) reach(ctx context.Context) error {
	switch {
	case s.cut.Load() && !s.is("runs without its server"):
		return &idempotency.Error{Code: idempotency.CodeUnavailable, Detail: "the ledger cannot be reached"}
	case ctx.Err() != nil && !s.is("runs a cancelled request"):
		return &idempotency.Error{Code: idempotency.CodeUnavailable, Detail: "the request was cancelled", Err: ctx.Err()}
	}
	return nil
}

// identity is what records are found by.
func (s *ledgerStore) identity(id idempotency.Identity) idempotency.Identity {
	switch s.flaw {
	case "forgets the scope":
		id.Scope = ""
	case "forgets the operation":
		id.Operation = ""
	case "folds the case of keys":
		id.Key = strings.ToLower(id.Key)
	case "trims keys":
		id.Key = strings.TrimSpace(id.Key)
	case "replaces what is no text":
		id.Key = strings.ToValidUTF8(id.Key, "\uFFFD")
	case "cuts long scopes":
		id.Scope = id.Scope[:min(len(id.Scope), 255)]
	case "joins without lengths":
		id = idempotency.Identity{Key: id.Scope + id.Operation + id.Key}
	}
	return id
}

// claimOf is what claims are found by.
func (s *ledgerStore) claimOf(id idempotency.Identity) idempotency.Identity {
	id = s.identity(id)
	if s.is("claims keys for all operations") {
		id.Operation = ""
	}
	return id
}

func (s *ledgerStore) claimed() map[idempotency.Identity]bool {
	if s.is("keeps claims in its process") {
		return s.claimsHere
	}
	return s.claims
}

// Execute implements [idempotency.Store].
func (s *ledgerStore) Execute(ctx context.Context, req idempotency.Request, work idempotency.Work[*ledgerTx]) (idempotency.Result, error) {
	if err := s.reach(ctx); err != nil {
		return idempotency.Result{}, err
	}
	if s.is("replays to one at a time") {
		if !s.replaying.TryLock() {
			return idempotency.Result{}, idempotency.ErrInFlight
		}
		defer s.replaying.Unlock()
		time.Sleep(time.Millisecond) // as long as a round trip
	}
	began, found, err := s.claim(req)
	if err != nil || found != nil {
		return s.replay(found), err
	}
	kept := false
	defer func() {
		if !kept && !s.is("keeps claims that failed") { // also where work panics
			s.unclaim(req)
		}
	}()
	for run := 1; ; run++ {
		tx := &ledgerTx{}
		resp, err := s.run(ctx, tx, work)
		switch {
		case errors.Is(err, errConflict) && s.again(req, run):
			continue
		case errors.Is(err, errConflict):
			return idempotency.Result{}, &idempotency.Error{Code: idempotency.CodeUnavailable, Err: err}
		case err != nil && s.is("wraps the error of work"):
			return idempotency.Result{}, fmt.Errorf("ledger: %w", err)
		case err != nil && s.is("commits failed work"):
			s.write(tx)
			return idempotency.Result{}, err
		case err != nil:
			return idempotency.Result{}, err
		}
		kept = true
		return s.complete(ctx, req, tx, resp, began)
	}
}

// again reports whether work may run again.
func (s *ledgerStore) again(req idempotency.Request, run int) bool {
	switch s.flaw {
	case "never runs work again":
		return false
	case "runs work again although it must not":
		return run < 3
	case "runs work again too often":
		return run < 10 && req.MayRerun()
	}
	return run < 3 && req.MayRerun()
}

func (s *ledgerStore) run(ctx context.Context, tx *ledgerTx, work idempotency.Work[*ledgerTx]) (resp idempotency.Response, err error) {
	if s.is("swallows panics") {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v", p)
			}
		}()
	}
	resp, err = work(ctx, tx)
	if errors.Is(err, errConflict) && s.is("keeps what a lost run wrote") {
		s.write(tx)
	}
	return resp, err
}

// claim returns the record of req, or holds the claim if there is none.
func (s *ledgerStore) claim(req idempotency.Request) (began time.Time, found *idempotency.Record, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, now := s.identity(req.Identity), s.now()
	if s.is("keeps the first operation's retention") {
		s.retentionHere = cmp.Or(s.retentionHere, req.Retention)
		req.Retention = s.retentionHere
	}
	if s.is("judges the key's age before the record") {
		if err := req.CheckAge(now); err != nil {
			return now, nil, err
		}
	}
	rec, stored := s.records[id]
	held := s.claimed()[s.claimOf(req.Identity)] && !s.is("claims twice")
	live := now.Before(rec.ExpiresAt) || s.is("replays expired answers") || held && s.is("replays expired answers meanwhile")
	switch {
	case stored && live && !req.Matches(rec.Fingerprint) && !s.is("compares no fingerprints"):
		return now, nil, idempotency.ErrMismatch
	case stored && live:
		return now, &rec, nil
	case held:
		return now, nil, idempotency.ErrInFlight
	}
	if !s.is("does not judge the key's age") && !s.is("judges the key's age before the record") {
		if err := req.CheckAge(now); err != nil {
			return now, nil, err
		}
	}
	s.claimed()[s.claimOf(req.Identity)] = true
	return now, nil, nil
}

func (s *ledgerStore) unclaim(req idempotency.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.claimed(), s.claimOf(req.Identity))
}

// write commits the lines of tx.
func (s *ledgerStore) write(tx *ledgerTx) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, line := range tx.lines {
		s.lines[line]++
	}
}

// complete commits the lines of tx and the answer together.
func (s *ledgerStore) complete(ctx context.Context, req idempotency.Request, tx *ledgerTx, resp idempotency.Response, began time.Time) (idempotency.Result, error) {
	defer s.unclaim(req)
	if tx.over != nil && !s.is("stores an answer without its effects") {
		return idempotency.Result{}, tx.over
	}
	if ctx.Err() != nil && s.is("loses answers of clients that are gone") {
		s.write(tx)
		return idempotency.Result{}, ctx.Err()
	}
	if !s.is("takes late effects") {
		defer func() { tx.over = errEnded }()
	}
	s.write(tx)
	s.mu.Lock()
	defer s.mu.Unlock()
	rec := idempotency.Record{
		Identity: s.identity(req.Identity), Fingerprint: slices.Clone(req.Fingerprint[:]),
		Response: s.copied(resp), CreatedAt: s.now(), ExpiresAt: s.now().Add(req.Retention),
	}
	switch {
	case s.is("counts the retention from the claim"):
		rec.CreatedAt, rec.ExpiresAt = began, began.Add(req.Retention)
	case s.is("keeps records for a day"):
		rec.ExpiresAt = rec.CreatedAt.Add(24 * time.Hour)
	case s.is("cuts long answers"):
		rec.Response.Body = rec.Response.Body[:min(len(resp.Body), 65535)]
	case s.is("stores text"):
		rec.Response.Body = bytes.ToValidUTF8(rec.Response.Body, []byte("?"))
	case s.is("joins header lines"):
		for name, lines := range rec.Response.Header {
			rec.Response.Header[name] = []string{strings.Join(lines, ", ")}
		}
	case s.is("stores only successes") && resp.Status >= 400:
		return idempotency.Result{Response: resp}, nil
	case s.is("stores no answers"):
		return idempotency.Result{Response: resp}, nil
	}
	s.records[s.identity(req.Identity)] = rec
	return idempotency.Result{Response: resp}, nil
}

func (s *ledgerStore) replay(rec *idempotency.Record) idempotency.Result {
	if rec == nil {
		return idempotency.Result{}
	}
	return idempotency.Result{Response: s.copied(rec.Response), Replayed: !s.is("does not mark replays")}
}

// copied returns what nobody else can change.
func (s *ledgerStore) copied(resp idempotency.Response) idempotency.Response {
	if s.is("shares answers") {
		return resp
	}
	header := http.Header{}
	for name, lines := range resp.Header {
		header[name] = slices.Clone(lines)
	}
	return idempotency.Response{Status: resp.Status, Header: header, Body: bytes.Clone(resp.Body)}
}

// Transact implements [idempotency.Store].
func (s *ledgerStore) Transact(ctx context.Context, work idempotency.Work[*ledgerTx]) (idempotency.Response, error) {
	if err := s.reach(ctx); err != nil {
		return idempotency.Response{}, err
	}
	tx := &ledgerTx{}
	resp, err := work(ctx, tx)
	switch {
	case errors.Is(err, errConflict):
		return resp, &idempotency.Error{Code: idempotency.CodeUnavailable, Err: err}
	case err == nil, s.is("commits plain work that failed"):
		s.write(tx)
	}
	return resp, err
}

// Sweep implements [idempotency.Keeper].
func (s *ledgerStore) Sweep(ctx context.Context) (n int64, err error) {
	if err := s.reach(ctx); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.is("sweeps claims") {
		clear(s.claims)
	}
	maps.DeleteFunc(s.records, func(_ idempotency.Identity, rec idempotency.Record) bool {
		over := !s.now().Before(rec.ExpiresAt) && !s.is("sweeps nothing") || s.is("sweeps live records")
		if over {
			n++
		}
		return over
	})
	return n, nil
}

// Lookup implements [idempotency.Keeper].
func (s *ledgerStore) Lookup(ctx context.Context, id idempotency.Identity) (idempotency.Record, error) {
	if err := s.reach(ctx); err != nil && !s.is("finds nothing without its server") {
		return idempotency.Record{}, err
	} else if err != nil {
		return idempotency.Record{}, idempotency.ErrNotFound
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	rec, found := s.records[s.identity(id)]
	if !found {
		return rec, idempotency.ErrNotFound
	}
	rec.Response, rec.Fingerprint = s.copied(rec.Response), slices.Clone(rec.Fingerprint)
	if s.is("does not tell the fingerprint") {
		rec.Fingerprint = nil
	}
	return rec, nil
}

// Release implements [idempotency.Keeper].
func (s *ledgerStore) Release(ctx context.Context, id idempotency.Identity) error {
	if err := s.reach(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	claim := s.claimOf(id)
	id = s.identity(id)
	_, found := s.records[id]
	switch {
	case s.claims[claim] && !s.is("releases claims"):
		return idempotency.ErrInFlight
	case s.is("releases claims"):
		delete(s.claims, claim)
	case !found && !s.is("releases what is not there"):
		return idempotency.ErrNotFound
	case s.is("releases nothing"):
		return nil
	}
	delete(s.records, id)
	return nil
}

// envFlaw names the flaw of the stores of this process.
const envFlaw = "STORETEST_FLAW"

// harness says how the suite reaches stores on a ledger.
func harness(flaw string) storetest.Harness[*ledgerTx] {
	return storetest.Harness[*ledgerTx]{
		Open: func(*testing.T) storetest.Fixture[*ledgerTx] {
			l := newLedger()
			s, replica := newLedgerStore(l, flaw), newLedgerStore(l, flaw)
			if s.is("keeps records in its process") {
				replica.ledger = newLedger()
			}
			if s.is("has no clock to be moved") {
				return storetest.Fixture[*ledgerTx]{Store: s}
			}
			return storetest.Fixture[*ledgerTx]{
				Store:   s,
				Replica: replica,
				Effect:  func(_ context.Context, tx *ledgerTx, label string) error { return tx.write(label) },
				Effects: func(_ context.Context, label string) (int, error) { return l.count(label), nil },
				Advance: func(_ context.Context, d time.Duration) error { l.advance(d); return nil },
				Cut:     func() { s.cut.Store(true) },
			}
		},
		Faults: map[string]func(context.Context, *ledgerTx) error{
			"rollback": func(_ context.Context, tx *ledgerTx) error { tx.rollback(); return nil },
		},
		Conflict: func(context.Context, *ledgerTx) error { return errConflict },
	}
}

// A store of a third party passes.
func TestLedger(t *testing.T) {
	t.Parallel()
	storetest.Run(t, harness(os.Getenv(envFlaw)))
}
