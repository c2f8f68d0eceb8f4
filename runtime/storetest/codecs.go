package storetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// CodecFixture is data of its own, and the means to open stores on it.
type CodecFixture[Tx any] struct {
	// Open opens a store with this codec, or with none where it is nil. It is
	// called several times.
	Open func(c idempotency.Codec) Store[Tx]
	// Effect and Effects are as in [Fixture].
	Effect  func(ctx context.Context, tx Tx, label string) error
	Effects func(ctx context.Context, label string) (int, error)
}

// RunCodecs runs every check of stores with a codec as a parallel subtest of t;
// open is called for each. What a codec does to answers is for its own tests: to
// see that a store keeps every answer with it, give it to [Run] as well.
func RunCodecs[Tx any](t *testing.T, open func(t *testing.T) CodecFixture[Tx]) {
	for _, c := range []struct {
		name  string
		check func(*codecSuite[Tx])
	}{
		{"PlainStaysReadable", plainStaysReadable[Tx]},
		{"NeedsItsCodec", needsItsCodec[Tx]},
		{"Rotation", rotation[Tx]},
		{"EncodingFails", encodingFails[Tx]},
		{"EncodingIsNotCancelled", encodingIsNotCancelled[Tx]},
		{"UnderLease", underLease[Tx]},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			t.Cleanup(cancel)
			f := open(t)
			c.check(&codecSuite[Tx]{
				suite: &suite[Tx]{T: t, ctx: ctx, Fixture: Fixture[Tx]{Effect: f.Effect, Effects: f.Effects}},
				open:  f.Open,
			})
		})
	}
}

// codecSuite is the state of one check of stores with codecs.
type codecSuite[Tx any] struct {
	*suite[Tx]
	open func(idempotency.Codec) Store[Tx]
}

// testFormat is one of those for codecs of others.
const testFormat = 31

// testCodec turns answers over and puts their binding before them. It writes
// with its first key and reads with all.
type testCodec struct {
	keys         []string
	refusesPlain bool
	fail         func(ctx context.Context) error // what Encode returns, if anything
}

func (c *testCodec) Encode(ctx context.Context, binding, answer []byte) (idempotency.Encoded, error) {
	if c.fail != nil {
		if err := c.fail(ctx); err != nil {
			return idempotency.Encoded{}, err
		}
	}
	data := append(binary.AppendUvarint(nil, uint64(len(binding))), binding...)
	turned := slices.Clone(answer)
	slices.Reverse(turned)
	return idempotency.Encoded{Format: testFormat, KeyID: c.keys[0], Data: append(data, turned...)}, nil
}

func (c *testCodec) Decode(_ context.Context, binding []byte, e idempotency.Encoded) ([]byte, error) {
	if e.Format != testFormat || !slices.Contains(c.keys, e.KeyID) {
		return nil, fmt.Errorf("format %d, key %q", e.Format, e.KeyID)
	}
	length, n := binary.Uvarint(e.Data)
	if n <= 0 || length > uint64(len(e.Data)-n) {
		return nil, errors.New("cut short")
	}
	bound, answer := e.Data[n:n+int(length)], slices.Clone(e.Data[n+int(length):])
	if !bytes.Equal(bound, binding) {
		return nil, fmt.Errorf("bound to %q, and read as that of %q", bound, binding)
	}
	slices.Reverse(answer)
	return answer, nil
}

func (c *testCodec) ReadsPlain() bool { return !c.refusesPlain }

// unreadable runs req on st, expects the answer to be there and not to be
// readable, and Lookup to say why.
func (s *codecSuite[Tx]) unreadable(st Store[Tx], req idempotency.Request, format byte, keyID string) {
	s.Helper()
	s.refuses(st, req, idempotency.ErrOutcomeUnknown)
	rec, err := st.Lookup(s.ctx, req.Identity)
	var unreadable *idempotency.UnreadableError
	if !errors.As(err, &unreadable) || unreadable.Format != format || unreadable.KeyID != keyID {
		s.Errorf("Lookup: %v, want an answer of format %d and key %q that cannot be read", err, format, keyID)
	}
	if rec.Identity != req.Identity || !bytes.Equal(rec.Fingerprint, req.Fingerprint[:]) || rec.Response.Status != http.StatusCreated ||
		rec.ExpiresAt.Sub(rec.CreatedAt) != req.Retention {
		s.Errorf("Lookup: %+v, want everything but header and body", rec)
	}
	if len(rec.Response.Header)+len(rec.Response.Body) != 0 {
		s.Errorf("Lookup: header %q and body %s", rec.Response.Header, brief(rec.Response.Body))
	}
}

// Answers that were stored before there was a codec are replayed, unless the
// codec refuses them. Another request under their key is a mismatch all the same.
func plainStaysReadable[Tx any](s *codecSuite[Tx]) {
	req := request("k")
	s.executes(s.open(nil), req, "plain")
	encoding := s.open(&testCodec{keys: []string{"1"}})
	s.replays(encoding, req, answer("plain"))
	if rec, err := encoding.Lookup(s.ctx, req.Identity); err != nil {
		s.Errorf("Lookup: %v", err)
	} else {
		s.same(rec.Response, answer("plain"))
	}
	other := req
	other.Fingerprint = fingerprint("other payload")
	s.refuses(encoding, other, idempotency.ErrMismatch)
	s.unreadable(s.open(&testCodec{keys: []string{"1"}, refusesPlain: true}), req, 0, "")
	s.wantEffects("plain", 1)
}

// An answer that was stored with a codec is not replayed without it, its request
// is not executed again, and an operator can see why and release the key.
func needsItsCodec[Tx any](s *codecSuite[Tx]) {
	req := request("k")
	encoding, plain := s.open(&testCodec{keys: []string{"1"}}), s.open(nil)
	s.executes(encoding, req, "encoded")
	s.replays(encoding, req, answer("encoded"))
	if rec, err := encoding.Lookup(s.ctx, req.Identity); err != nil {
		s.Errorf("Lookup: %v", err)
	} else {
		s.same(rec.Response, answer("encoded"))
	}
	s.unreadable(plain, req, testFormat, "1")
	other := req
	other.Fingerprint = fingerprint("other payload")
	s.refuses(plain, other, idempotency.ErrMismatch)
	s.wantEffects("encoded", 1)
	if err := plain.Release(s.ctx, req.Identity); err != nil {
		s.Fatalf("Release: %v", err)
	}
	s.executes(plain, req, "again")
	s.replays(encoding, req, answer("again"))
}

// While keys are rotated, replicas that write with the old one and with the new
// one replay each other's answers. Who lacks a key is told which.
func rotation[Tx any](s *codecSuite[Tx]) {
	before := s.open(&testCodec{keys: []string{"old"}})
	prepared := s.open(&testCodec{keys: []string{"old", "new"}})
	rotated := s.open(&testCodec{keys: []string{"new", "old"}})
	after := s.open(&testCodec{keys: []string{"new"}})
	var both sync.WaitGroup
	for _, st := range []Store[Tx]{prepared, rotated} {
		both.Go(func() {
			for i := range 5 {
				body := fmt.Sprint("answer ", i)
				for { // whoever is first runs
					res, err := st.Execute(s.ctx, request(fmt.Sprint(i)), func(ctx context.Context, tx Tx) (idempotency.Response, error) {
						return answer(body), s.effect(ctx, tx, body)
					})
					if errors.Is(err, idempotency.ErrInFlight) {
						time.Sleep(time.Millisecond)
						continue
					}
					if err != nil {
						s.Errorf("Execute: %v", err)
					}
					s.same(res.Response, answer(body))
					break
				}
			}
		})
	}
	both.Wait()
	for i := range 5 {
		s.wantEffects(fmt.Sprint("answer ", i), 1)
	}
	s.executes(prepared, request("by the old"), "old")
	s.executes(rotated, request("by the new"), "new")
	for _, st := range []Store[Tx]{prepared, rotated} {
		s.replays(st, request("by the old"), answer("old"))
		s.replays(st, request("by the new"), answer("new"))
	}
	s.unreadable(before, request("by the new"), testFormat, "new")
	s.unreadable(after, request("by the old"), testFormat, "old")
}

// An answer that cannot be encoded is rolled back with its effects, and the key
// is free.
func encodingFails[Tx any](s *codecSuite[Tx]) {
	req := request("k")
	c := &testCodec{keys: []string{"1"}}
	st := s.open(c)
	s.Store = st // for wantNoRecord
	failure := errors.New("no key")
	c.fail = func(context.Context) error { return failure }
	if _, err := st.Execute(s.ctx, req, s.work(answer("failed"))); !errors.Is(err, idempotency.ErrUnavailable) || !errors.Is(err, failure) {
		s.Errorf("Execute: %v, want %v because of %v", err, idempotency.ErrUnavailable, failure)
	}
	s.wantNoRecord(req.Identity)
	c.fail = func(context.Context) error { panic(failure) }
	func() {
		defer func() {
			if got := recover(); got != failure { //nolint:errorlint // the same value
				s.Errorf("recovered %v, want the codec's panic", got)
			}
		}()
		_, err := st.Execute(s.ctx, req, s.work(answer("failed")))
		s.Errorf("Execute returned %v, want the codec's panic", err)
	}()
	s.wantNoRecord(req.Identity)
	s.wantEffects("failed", 0)
	c.fail = nil
	s.executes(st, req, "first")
	s.replays(st, req, answer("first"))
	s.wantEffects("first", 1)
}

// A caller who goes away does not keep an answer from being encoded, and a codec
// that hangs is not waited for without end.
func encodingIsNotCancelled[Tx any](s *codecSuite[Tx]) {
	req := request("k")
	st := s.open(&testCodec{keys: []string{"1"}, fail: func(ctx context.Context) error {
		if _, ends := ctx.Deadline(); !ends {
			s.Error("the codec has no deadline")
		}
		return ctx.Err()
	}})
	ctx, leave := context.WithCancel(s.ctx)
	defer leave()
	_, err := st.Execute(ctx, req, func(ctx context.Context, tx Tx) (idempotency.Response, error) {
		err := s.effect(ctx, tx, "first")
		leave()
		return answer("first"), err
	})
	if err != nil {
		s.Fatalf("Execute: %v", err)
	}
	s.replays(st, req, answer("first"))
	s.wantEffects("first", 1)
}

// Under a lease an answer that cannot be encoded is tried again, since the
// request was carried out. Claims have nothing to decode.
func underLease[Tx any](s *codecSuite[Tx]) {
	c := &testCodec{keys: []string{"1"}}
	st := s.open(c)
	leaser, ok := st.(idempotency.Leaser)
	if !ok {
		s.Skipf("%T offers no leases", st)
	}
	tries := 0
	c.fail = func(context.Context) error {
		if tries++; tries < 3 {
			return errors.New("no key yet")
		}
		return nil
	}
	req := leaseRequest("k")
	_, err := idempotency.Leases(leaser, patience).Execute(s.ctx, req, func(context.Context, *idempotency.Lease) (idempotency.Response, error) {
		if rec, err := st.Lookup(s.ctx, req.Identity); err != nil || rec.LeaseUntil.IsZero() {
			s.Errorf("Lookup of a claim: %+v, %v", rec, err)
		}
		return answer("encoded"), nil
	})
	if err != nil || tries != 3 {
		s.Fatalf("Execute: %v after %d tries to encode, want 3", err, tries)
	}
	s.replays(st, req, answer("encoded"))
	if _, err := idempotency.Leases(s.open(nil).(idempotency.Leaser), patience).Execute(s.ctx, req, func(context.Context, *idempotency.Lease) (idempotency.Response, error) { //nolint:forcetypeassert // see above
		s.Error("work ran; it must not")
		return idempotency.Response{}, nil
	}); !errors.Is(err, idempotency.ErrOutcomeUnknown) {
		s.Errorf("Execute without the codec: %v, want %v", err, idempotency.ErrOutcomeUnknown)
	}
	s.unreadable(s.open(nil), req, testFormat, "1")
}
