package idempotency_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
)

// The operations of another service, as generated code declares them.
type (
	chargeOp struct{} // takes any key
	refundOp struct{} // takes UUIDs
	orderOp  struct{} // takes UUIDv7
	faxOp    struct{} // takes 26 bytes, too few for a UUID
	telexOp  struct{} // takes 25
)

var (
	chargeOperation = idempotency.Operation{ID: "charge"}
	refundOperation = idempotency.Operation{ID: "refund", Key: idempotency.KeyRule{Format: idempotency.KeyUUID}}
	orderOperation  = idempotency.Operation{ID: "order", Key: idempotency.KeyRule{Format: idempotency.KeyUUIDv7}}
	faxOperation    = idempotency.Operation{ID: "fax", Key: idempotency.KeyRule{MaxLength: 26}}
	telexOperation  = idempotency.Operation{ID: "telex", Key: idempotency.KeyRule{MaxLength: 25}}
)

func (chargeOp) Operation() *idempotency.Operation { return &chargeOperation }
func (refundOp) Operation() *idempotency.Operation { return &refundOperation }
func (orderOp) Operation() *idempotency.Operation  { return &orderOperation }
func (faxOp) Operation() *idempotency.Operation    { return &faxOperation }
func (telexOp) Operation() *idempotency.Operation  { return &telexOperation }

// message is a delivery that Do runs.
func message(scope, operation, key, content string) idempotency.Request {
	return idempotency.Request{
		Identity:    idempotency.Identity{Scope: scope, Operation: operation, Key: key},
		Fingerprint: idempotency.FingerprintOf([]byte(content)),
		Retention:   time.Hour,
	}
}

// within calls fn with the context of a running call.
func within(t *testing.T, req idempotency.Request, fn func(ctx context.Context)) {
	t.Helper()
	_, _, err := idempotency.Do(t.Context(), memstore.New(), req, func(ctx context.Context, _ struct{}) (bool, error) {
		fn(ctx)
		return true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// derived returns a key that Derive must give.
func derived[Op idempotency.OpType](t *testing.T, ctx context.Context, step string) string {
	t.Helper()
	key, err := idempotency.Derive[Op](ctx, step)
	if err != nil || key.IsZero() {
		t.Errorf("step %q: %q, %v", step, key, err)
	}
	return key.String()
}

// derivedUUID returns a key that DeriveUUID must give.
func derivedUUID(t *testing.T, ctx context.Context, step string) string {
	t.Helper()
	key, err := idempotency.DeriveUUID(ctx, step)
	if err != nil || key == "" {
		t.Errorf("step %q: %q, %v", step, key, err)
	}
	return key
}

// Keys that were derived once are derived for good: a call that crashed under
// one release is repeated under another. Those of messages were computed by
// another program, from what the comments in derive.go say.
func TestDerivedKeysAreFrozen(t *testing.T) {
	t.Parallel()
	var got [5]string
	req := message("tenant-1", "ship", "message-17", `{"order":17}`)
	within(t, req, func(ctx context.Context) {
		got[0] = derived[chargeOp](t, ctx, "charge")
		got[1] = derived[faxOp](t, ctx, "charge")
		got[2] = derivedUUID(t, ctx, "charge")
	})
	s := serve(t, payOperation, func(ctx context.Context, _ *idempotency.Call) (idempotency.Visit, error) {
		got[3] = derived[chargeOp](t, ctx, "charge")
		got[4] = derivedUUID(t, ctx, "charge")
		return func(w http.ResponseWriter) error { w.WriteHeader(204); return nil }, nil
	})
	if r := s.send(t, `{"order":17}`); r.status != 204 {
		t.Fatalf("%+v", r)
	}
	want := [5]string{
		"c460afb9-09c2-8b39-8d82-185dc7a92cfc",
		"A5BWTXFDFNI7AA6Q2FJKX5274I",
		"fadafce0-cc48-82a7-bb14-decbbb4355f3",
		"e48b0d3c-5bfd-8da7-a6f6-358d03612df0",
		"a4189fe2-de04-8038-8e5d-ff67ab9f67a3",
	}
	if got != want {
		t.Errorf("derived\n%q, want\n%q", got, want)
	}
	if f := hex.EncodeToString(req.Fingerprint[:]); f != "01747ef8088e06f74a0a67aa6f54edecc9dc1e0451278b77f73beaaeade99eaa18" {
		t.Errorf("a message's fingerprint is %s", f)
	}
}

var uuidv8 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// A derived key has the form that its operation takes.
func TestDerivedKeyFitsItsOperation(t *testing.T) {
	t.Parallel()
	within(t, message("s", "o", "k", "m"), func(ctx context.Context) {
		for _, key := range []string{derived[chargeOp](t, ctx, "step"), derived[refundOp](t, ctx, "step"), derivedUUID(t, ctx, "step")} {
			if !uuidv8.MatchString(key) {
				t.Errorf("%q is no UUIDv8", key)
			}
		}
		if key := derived[faxOp](t, ctx, "step"); !regexp.MustCompile(`^[A-Z2-7]{26}$`).MatchString(key) {
			t.Errorf("%q is not a short key", key)
		}
	})
}

// Whatever differs between two calls, two steps or two operations, the keys
// do. Framing keeps apart what runs together as text.
// Covers SEC-01, CLI-02, CLI-13.
func TestDerivedKeysDiffer(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	add := func(key, of string) {
		if other, twice := seen[key]; twice {
			t.Errorf("%s and %s share the key %s", of, other, key)
		}
		seen[key] = of
	}
	steps := []string{"charge", "charge ", "Charge", "charge:1", "charge:11", "1", "k1"}
	for _, req := range []idempotency.Request{
		message("tenant-1", "ship", "1", "m"),
		message("tenant-2", "ship", "1", "m"), // another caller's key 1
		message("tenant-1", "send", "1", "m"),
		message("tenant-1", "ship", "2", "m"),
		message("tenant-1", "ship", "1", "n"), // the key is used again, after its retention
		message("tenant-1s", "hip", "1", "m"),
		message("tenant-", "1ship", "1", "m"),
		message("tenant-1", "shi", "p1", "m"),
		message("tenant-1", "ship1", "1", "m"),
	} {
		within(t, req, func(ctx context.Context) {
			for _, step := range steps {
				of := fmt.Sprintf("%v, %s", req.Identity, step)
				add(derived[chargeOp](t, ctx, step), of+", charge")
				add(derived[refundOp](t, ctx, step), of+", refund")
				add(derived[faxOp](t, ctx, step), of+", fax")
				add(derivedUUID(t, ctx, step), of)
			}
		})
	}
	if want := 9 * len(steps) * 4; len(seen) != want {
		t.Errorf("%d keys, want %d", len(seen), want)
	}
}

// rerunning runs work again, as a store does after a deadlock.
type rerunning struct{ *memstore.Store }

func (s rerunning) Execute(ctx context.Context, req idempotency.Request, work idempotency.Work[struct{}]) (idempotency.Result, error) {
	return s.Store.Execute(ctx, req, func(ctx context.Context, tx struct{}) (idempotency.Response, error) {
		if _, err := work(ctx, tx); err != nil {
			return idempotency.Response{}, err
		}
		return work(ctx, tx) // the first run has been rolled back
	})
}

// provider is another service: it charges once for a key.
type provider map[string]int

func (p provider) charge(t *testing.T, key string) {
	t.Helper()
	if key == "" {
		t.Error("a charge without a key")
	}
	p[key]++
}

// However often a handler runs for one request, and however its retries spell
// it, the provider sees one key.
// Covers ERR-08.
func TestDeriveAgain(t *testing.T) {
	t.Parallel()
	t.Run("after a deadlock", func(t *testing.T) {
		t.Parallel()
		charges := provider{}
		if _, _, err := idempotency.Do(t.Context(), rerunning{memstore.New()}, message("s", "o", "k", "m"), func(ctx context.Context, _ struct{}) (bool, error) {
			charges.charge(t, derived[chargeOp](t, ctx, "charge"))
			return true, nil
		}); err != nil {
			t.Error(err)
		}
		if n := charges[single(t, charges)]; n != 2 {
			t.Errorf("the function ran %d times, want 2", n)
		}
	})
	t.Run("in retries, and by another process", func(t *testing.T) {
		t.Parallel()
		charges := provider{}
		crashing := true
		h := func(ctx context.Context, _ *idempotency.Call) (idempotency.Visit, error) {
			charges.charge(t, derived[chargeOp](t, ctx, "charge"))
			if crashing {
				return nil, errors.New("the connection broke")
			}
			return func(w http.ResponseWriter) error { w.WriteHeader(204); return nil }, nil
		}
		s := serveOn(t, rerunning{memstore.New()}, payOperation, h)
		s.send(t, `{"order":17}`, "Idempotency-Key", "k1")
		s.send(t, ` { "order" : 17.0 } `, "Idempotency-Key", `"k1"`)
		other := serve(t, payOperation, h)
		crashing = false
		if r := other.send(t, `{"order":17}`, "Idempotency-Key", "k1", "User-Agent", "other"); r.status != 204 {
			t.Errorf("%+v", r)
		}
		if n := charges[single(t, charges)]; n != 3 {
			t.Errorf("the handler ran %d times, want 3", n)
		}
	})
}

// single returns the only key that a provider has seen.
func single(t *testing.T, charges provider) (key string) {
	t.Helper()
	if len(charges) != 1 {
		t.Errorf("the provider saw the keys %v, want one", charges)
	}
	for key = range charges {
	}
	return key
}

// Inside Do inside a handler it is Do's call that counts.
func TestDeriveInNestedCall(t *testing.T) {
	t.Parallel()
	var alone, nested, outer string
	inner := message("s", "inner", "k", "m")
	within(t, inner, func(ctx context.Context) { alone = derivedUUID(t, ctx, "step") })
	within(t, message("s", "outer", "k", "m"), func(ctx context.Context) {
		outer = derivedUUID(t, ctx, "step")
		if _, _, err := idempotency.Do(ctx, memstore.New(), inner, func(ctx context.Context, _ struct{}) (bool, error) {
			nested = derivedUUID(t, ctx, "step")
			return true, nil
		}); err != nil {
			t.Error(err)
		}
	})
	if nested != alone || nested == outer {
		t.Errorf("alone %s, nested %s, outer %s", alone, nested, outer)
	}
}

// Where no key can be derived there is an error, and no key.
// Covers PRO-04.
func TestDeriveRefusals(t *testing.T) {
	t.Parallel()
	refused := func(t *testing.T, what, key string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) || key != "" {
			t.Errorf("%s: %q, %v; want %v", what, key, err, want)
		}
	}
	both := func(t *testing.T, what string, ctx context.Context, step string, want error) {
		t.Helper()
		key, err := idempotency.Derive[chargeOp](ctx, step)
		refused(t, what, key.String(), err, want)
		text, err := idempotency.DeriveUUID(ctx, step)
		refused(t, what, text, err, want)
	}
	both(t, "outside a call", t.Context(), "step", idempotency.ErrNoCall)
	within(t, message("s", "o", "k", "m"), func(ctx context.Context) {
		both(t, "no step", ctx, "", idempotency.ErrKeyInvalid)
		uuidv7, err := idempotency.Derive[orderOp](ctx, "step")
		refused(t, "UUIDv7", uuidv7.String(), err, idempotency.ErrKeyInvalid)
		tooShort, err := idempotency.Derive[telexOp](ctx, "step")
		refused(t, "25 bytes", tooShort.String(), err, idempotency.ErrKeyInvalid)
	})
	optional := payOperation
	optional.Optional = true
	s := serve(t, optional, func(ctx context.Context, _ *idempotency.Call) (idempotency.Visit, error) {
		both(t, "no key", ctx, "step", &idempotency.Error{Code: idempotency.CodeKeyMissing})
		return func(w http.ResponseWriter) error { w.WriteHeader(204); return nil }, nil
	})
	if r := s.send(t, `{}`, "Idempotency-Key", "<none>"); r.status != 204 {
		t.Errorf("%+v", r)
	}
}

// For any call and any steps: a valid key, the same again, another one for
// another step, and another one when a byte moves from one part to the next.
func FuzzDerive(f *testing.F) {
	f.Add("tenant-1", "ship", "message-17", "m", "charge", "refund")
	f.Add("s", "o", "k", "", "a", "aa")
	f.Add("ü", "POST /x", "0190163d-8694-739b-aea5-966c26f8ad91", "{}", "\x00", "\xff")
	f.Fuzz(func(t *testing.T, scope, operation, key, content, step, other string) {
		derive := func(req idempotency.Request, step string) (text string) {
			_, _, err := idempotency.Do(t.Context(), memstore.New(), req, func(ctx context.Context, _ struct{}) (bool, error) {
				text = derivedUUID(t, ctx, step)
				if typed := derived[chargeOp](t, ctx, step); typed == text || !uuidv8.MatchString(typed) {
					t.Errorf("Derive gives %q, DeriveUUID %q", typed, text)
				}
				return true, nil
			})
			if err != nil {
				return "" // not a request
			}
			return text
		}
		if step == "" || other == "" {
			return
		}
		req := message(scope, operation, key, content)
		text := derive(req, step)
		if text == "" {
			return
		}
		if !uuidv8.MatchString(text) {
			t.Errorf("%q is no UUIDv8", text)
		}
		if again := derive(req, step); again != text {
			t.Errorf("first %s, then %s", text, again)
		}
		if step != other && derive(req, other) == text {
			t.Errorf("the steps %q and %q share %s", step, other, text)
		}
		moved := req
		last := len(operation) - 1
		moved.Operation, moved.Key = operation[:last], operation[last:]+key
		if derive(moved, step) == text {
			t.Errorf("%v and %v share %s", req.Identity, moved.Identity, text)
		}
	})
}
