package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
)

type receipt struct{ ID int }

// A message that comes twice has its effect once, and the second delivery gets
// the first one's value.
func TestDo(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	runs := 0
	deliver := func(key, body string) (receipt, bool, error) {
		return idempotency.Do(t.Context(), store, idempotency.Request{
			Identity:    idempotency.Identity{Scope: "queue", Operation: "ship", Key: key},
			Fingerprint: idempotency.FingerprintOf([]byte(body)),
			Retention:   time.Hour,
		}, func(context.Context, struct{}) (receipt, error) {
			runs++
			if body == "fail" {
				return receipt{}, errShip
			}
			return receipt{ID: runs}, nil
		})
	}
	if _, _, err := deliver("m1", "fail"); err != errShip { //nolint:errorlint // as it was, not wrapped
		t.Errorf("the function's error comes back as %v", err)
	}
	if v, replayed, err := deliver("m1", "a"); v.ID != 2 || replayed || err != nil {
		t.Error(v, replayed, err)
	}
	if v, replayed, err := deliver("m1", "a"); v.ID != 2 || !replayed || err != nil {
		t.Error(v, replayed, err)
	}
	if _, _, err := deliver("m1", "b"); !errors.Is(err, idempotency.ErrMismatch) {
		t.Error(err)
	}
	if v, replayed, err := deliver("m2", "a"); v.ID != 3 || replayed || err != nil {
		t.Error(v, replayed, err)
	}
}

var errShip = errors.New("no carrier")

// A consumer says for each error whether the message may come again.
func ExampleDo() {
	store := memstore.New() // in a service: the database that holds what fn changes
	deliver := func(id, body string) {
		parcel, replayed, err := idempotency.Do(context.Background(), store, idempotency.Request{
			Identity:    idempotency.Identity{Scope: "acme", Operation: "ship", Key: id},
			Fingerprint: idempotency.FingerprintOf([]byte(body)),
			Retention:   8 * 24 * time.Hour, // the queue drops what is older than 7 days
		}, func(context.Context, struct{}) (string, error) {
			return "parcel for " + body, nil
		})
		var refusal *idempotency.Error
		switch {
		case err == nil:
			fmt.Printf("acknowledge: %s (replayed: %t)\n", parcel, replayed)
		case errors.As(err, &refusal) && !refusal.Code.Retryable():
			fmt.Println("set aside:", refusal.Code)
		default:
			fmt.Println("put back:", err)
		}
	}
	deliver("order-17", "ann")
	deliver("order-17", "ann")
	deliver("order-17", "bob")
	// Output:
	// acknowledge: parcel for ann (replayed: false)
	// acknowledge: parcel for ann (replayed: true)
	// set aside: mismatch
}

// A request that would share a record with others, or could not be kept, is
// refused before anything runs.
// Covers SEC-02.
func TestDoRefusals(t *testing.T) {
	t.Parallel()
	good := idempotency.Request{
		Identity:    idempotency.Identity{Scope: "s", Operation: "o", Key: "k"},
		Fingerprint: idempotency.FingerprintOf(nil),
		Retention:   time.Hour,
	}
	for name, spoil := range map[string]func(*idempotency.Request){
		"scope":       func(r *idempotency.Request) { r.Scope = "" },
		"scope bytes": func(r *idempotency.Request) { r.Scope = "\xff" },
		"operation":   func(r *idempotency.Request) { r.Operation = "" },
		"NUL":         func(r *idempotency.Request) { r.Operation = "ship\x00" },
		"key":         func(r *idempotency.Request) { r.Key = "" },
		"blank key":   func(r *idempotency.Request) { r.Key = " " },
		"retention":   func(r *idempotency.Request) { r.Retention = 0 },
		"fingerprint": func(r *idempotency.Request) { r.Fingerprint = idempotency.Fingerprint{} },
	} {
		req := good
		spoil(&req)
		if _, _, err := idempotency.Do(t.Context(), memstore.New(), req, func(context.Context, struct{}) (int, error) {
			t.Errorf("%s: the function ran", name)
			return 0, nil
		}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A value that JSON cannot hold is an error and stores nothing; a stored value
// of another shape is an error and not a wrong value.
func TestDoValues(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	req := idempotency.Request{
		Identity:    idempotency.Identity{Scope: "s", Operation: "o", Key: "k"},
		Fingerprint: idempotency.FingerprintOf([]byte("m")),
		Retention:   time.Hour,
	}
	if _, _, err := idempotency.Do(t.Context(), store, req, func(context.Context, struct{}) (chan int, error) { return nil, nil }); err == nil {
		t.Error("a channel was stored")
	}
	if _, replayed, err := idempotency.Do(t.Context(), store, req, func(context.Context, struct{}) (string, error) { return "text", nil }); err != nil || replayed {
		t.Error(replayed, err)
	}
	if v, _, err := idempotency.Do(t.Context(), store, req, func(context.Context, struct{}) (int, error) { return 1, nil }); err == nil {
		t.Errorf("a stored string came back as %d", v)
	}
}

// The parts of a fingerprint are framed: moving a byte from one to the next
// changes it.
func TestFingerprintOf(t *testing.T) {
	t.Parallel()
	a := idempotency.FingerprintOf([]byte("ab"), []byte("c"))
	if a == idempotency.FingerprintOf([]byte("a"), []byte("bc")) || a == idempotency.FingerprintOf([]byte("abc")) {
		t.Error("two lists of parts share a fingerprint")
	}
	if a != idempotency.FingerprintOf([]byte("ab"), []byte("c")) {
		t.Error("the fingerprint is not stable")
	}
}

// settling is a store that loses the connection in COMMIT and then finds the
// record: work has run, and its answer comes back as a replay.
type settling struct {
	idempotency.Store[struct{}]
	stored string
	rerun  bool // whether work may run again, once it has run
}

func (s *settling) Execute(ctx context.Context, req idempotency.Request, work idempotency.Work[struct{}]) (idempotency.Result, error) {
	_, err := work(ctx, struct{}{})
	s.rerun = req.MayRerun()
	return idempotency.Result{Response: idempotency.Response{Status: 200, Body: []byte(s.stored)}, Replayed: true}, err
}

// What is stored is the value, and nothing of what a run has left behind is in it.
func TestDoSettles(t *testing.T) {
	t.Parallel()
	store := &settling{stored: `{"b":2}`}
	v, replayed, err := idempotency.Do(t.Context(), store, message("queue", "ship", "m", "a"), func(context.Context, struct{}) (map[string]int, error) {
		return map[string]int{"a": 1}, nil
	})
	if len(v) != 1 || v["b"] != 2 || !replayed || err != nil {
		t.Error(v, replayed, err)
	}
	if !store.rerun {
		t.Error("work may not run again")
	}
}

// A function that makes an effect elsewhere says so to the store.
func TestDoNoRerun(t *testing.T) {
	t.Parallel()
	store := &settling{stored: "0"}
	if _, _, err := idempotency.Do(t.Context(), store, message("queue", "ship", "m", "a"), func(ctx context.Context, _ struct{}) (int, error) {
		idempotency.NoRerun(ctx)
		return 0, nil
	}); err != nil || store.rerun {
		t.Errorf("work may run again: %t, %v", store.rerun, err)
	}
}
