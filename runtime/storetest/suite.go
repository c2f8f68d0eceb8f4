package storetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// suite is the state of one check.
type suite[Tx any] struct {
	*testing.T
	Fixture[Tx]
	oneWriter bool
	unseen    bool
	ctx       context.Context // ends a check that hangs
	runs      atomic.Int64    // how often s.work has run
}

// patience is how long a check may take before it counts as hanging.
const patience = time.Minute

func open[Tx any](t *testing.T, h Harness[Tx]) *suite[Tx] {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	f := h.Open(t)
	if f.Store == nil || f.Advance == nil {
		t.Fatal("Fixture.Store or Fixture.Advance is nil: every fixture needs both")
	}
	return &suite[Tx]{T: t, Fixture: f, oneWriter: h.OneWriter, unseen: h.Unseen, ctx: ctx}
}

// stores returns the store and, where there is one, its replica.
func (s *suite[Tx]) stores() []Store[Tx] {
	if s.Replica == nil {
		return []Store[Tx]{s.Store}
	}
	return []Store[Tx]{s.Store, s.Replica}
}

// lister returns what lists the records of st.
func (s *suite[Tx]) lister(st Store[Tx]) idempotency.Lister {
	s.Helper()
	l, ok := st.(idempotency.Lister)
	if !ok {
		s.Skipf("%T is no idempotency.Lister", st)
	}
	return l
}

// request is a request to the operation "createPayment" of scope "tenant"
// whose answer is kept for an hour.
func request(key string) idempotency.Request {
	return idempotency.Request{
		Identity:    idempotency.Identity{Scope: "tenant", Operation: "createPayment", Key: key},
		Fingerprint: fingerprint("payload"),
		Retention:   time.Hour,
	}
}

// fingerprint is one of version 1 for a request with this content.
func fingerprint(content string) idempotency.Fingerprint {
	f := idempotency.Fingerprint{1}
	sum := sha256.Sum256([]byte(content))
	copy(f[1:], sum[:])
	return f
}

// uuidv7 makes a key of the given time (RFC 9562 section 5.7).
func uuidv7(at time.Time) string {
	ms := fmt.Sprintf("%012x", at.UnixMilli())
	return ms[:8] + "-" + ms[8:] + "-7abc-8def-0123456789ab"
}

// answer is a 201 with this body.
func answer(body string) idempotency.Response {
	return idempotency.Response{
		Status: http.StatusCreated,
		Header: http.Header{"Content-Type": {"text/plain"}},
		Body:   []byte(body),
	}
}

// effect makes an effect where the store carries any.
func (s *suite[Tx]) effect(ctx context.Context, tx Tx, label string) error {
	if s.Effect == nil {
		return nil
	}
	return s.Effect(ctx, tx, label)
}

// work makes one effect labelled with the answer's body and answers.
func (s *suite[Tx]) work(resp idempotency.Response) idempotency.Work[Tx] {
	return func(ctx context.Context, tx Tx) (idempotency.Response, error) {
		s.runs.Add(1)
		return resp, s.effect(ctx, tx, string(resp.Body))
	}
}

// never is work that must not run.
func (s *suite[Tx]) never(context.Context, Tx) (idempotency.Response, error) {
	s.Error("work ran; it must not")
	return idempotency.Response{}, errors.New("work ran")
}

// executes runs req on st and expects work to run and body to be answered.
func (s *suite[Tx]) executes(st Store[Tx], req idempotency.Request, body string) {
	s.Helper()
	before := s.runs.Load()
	res, err := st.Execute(s.ctx, req, s.work(answer(body)))
	if err != nil {
		s.Fatalf("Execute: %v", err)
	}
	if res.Replayed || s.runs.Load() != before+1 {
		s.Fatalf("Replayed %v after %d runs of work, want one run", res.Replayed, s.runs.Load()-before)
	}
	s.same(res.Response, answer(body))
}

// replays runs req on st and expects resp to be replayed.
func (s *suite[Tx]) replays(st Store[Tx], req idempotency.Request, resp idempotency.Response) {
	s.Helper()
	res, err := st.Execute(s.ctx, req, s.never)
	if err != nil {
		s.Fatalf("Execute: %v, want a replay", err)
	}
	if !res.Replayed {
		s.Fatal("Replayed is false, want true")
	}
	s.same(res.Response, resp)
}

// refuses runs req on st and expects the error want without a run of work.
func (s *suite[Tx]) refuses(st Store[Tx], req idempotency.Request, want error) {
	s.Helper()
	if _, err := st.Execute(s.ctx, req, s.never); !errors.Is(err, want) {
		s.Fatalf("Execute: %v, want %v", err, want)
	}
}

// same compares two answers; nil and empty headers and bodies are the same.
func (s *suite[Tx]) same(got, want idempotency.Response) {
	s.Helper()
	if got.Status != want.Status {
		s.Errorf("status %d, want %d", got.Status, want.Status)
	}
	if !maps.EqualFunc(got.Header, want.Header, slices.Equal) {
		s.Errorf("header %q, want %q", got.Header, want.Header)
	}
	if !bytes.Equal(got.Body, want.Body) {
		s.Errorf("body %s, want %s", brief(got.Body), brief(want.Body))
	}
}

func brief(b []byte) string {
	if len(b) <= 64 {
		return fmt.Sprintf("%q", b)
	}
	return fmt.Sprintf("of %d bytes with SHA-256 %x", len(b), sha256.Sum256(b))
}

// wantEffects expects n committed effects with this label.
func (s *suite[Tx]) wantEffects(label string, n int) {
	s.Helper()
	if s.Effects == nil {
		return
	}
	got, err := s.Effects(s.ctx, label)
	if err != nil {
		s.Fatalf("count effects: %v", err)
	}
	if got != n {
		s.Errorf("%d committed effects %q, want %d", got, label, n)
	}
}

// wantNoRecord expects nothing to be stored under id.
func (s *suite[Tx]) wantNoRecord(id idempotency.Identity) {
	s.Helper()
	if rec, err := s.Store.Lookup(s.ctx, id); !errors.Is(err, idempotency.ErrNotFound) {
		s.Errorf("Lookup: status %d, error %v; want %v", rec.Response.Status, err, idempotency.ErrNotFound)
	}
}

// advance lets d pass.
func (s *suite[Tx]) advance(d time.Duration) {
	s.Helper()
	if err := s.Advance(s.ctx, d); err != nil {
		s.Fatalf("advance the time: %v", err)
	}
}

// wait waits for c to be closed or to deliver.
func wait[T, Tx any](s *suite[Tx], c <-chan T, what string) T {
	s.Helper()
	select {
	case v := <-c:
		return v
	case <-s.ctx.Done():
		s.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}
