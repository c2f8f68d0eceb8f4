package storetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// A first request executes; every retry is replayed and leaves no effect.
//
// Covers RSP-13, CRA-04.
func firstThenReplay[Tx any](s *suite[Tx]) {
	req := request("k")
	s.executes(s.Store, req, "first")
	for range 3 {
		s.replays(s.Store, req, answer("first"))
	}
	s.wantEffects("first", 1)
}

// Status, headers and body come back as they were, whatever they are: failures
// of the business included.
//
// Covers RSP-05, RSP-07, RSP-09, RSP-10, RSP-14, RSP-16, RSP-17, ERR-03, ERR-05.
func replayIsByteForByte[Tx any](s *suite[Tx]) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for name, resp := range map[string]idempotency.Response{
		"empty":         {Status: http.StatusNoContent, Header: http.Header{}, Body: []byte{}},
		"nil":           {Status: http.StatusAccepted},
		"NUL":           {Status: http.StatusOK, Body: []byte("a\x00b\x00")},
		"invalid UTF-8": {Status: http.StatusOK, Body: []byte("\xff\xfe\xc3\x28")},
		"every byte":    {Status: http.StatusOK, Body: every},
		"odd JSON":      {Status: http.StatusOK, Body: []byte("{\"b\" : 1.0, \"a\":\"\\u0000\", \"b\":1e0}\n")},
		"redirect":      {Status: http.StatusSeeOther, Header: http.Header{"Location": {"../payments/1"}}},
		"not modified":  {Status: http.StatusNotModified, Header: http.Header{"Etag": {`W/"1"`}}},
		"declined":      {Status: http.StatusPaymentRequired, Body: []byte("declined")},
		"failure":       {Status: http.StatusInternalServerError, Body: []byte("failed")},
		"last status":   {Status: 599},
		"headers": {Status: http.StatusOK, Header: http.Header{
			"Content-Type": {`text/plain; charset="utf-8"`},
			"X-Repeated":   {"one", "two, three", "", "one"},
			"X-Odd":        {"caf\xe9", "\xff\xfe", "a: b: c", "tab\there", `"quoted\"`, "löwe"},
			"X-Long":       {strings.Repeat("v", 8192)},
		}},
	} {
		req := request(strings.ReplaceAll(name, " ", "-"))
		res, err := s.Store.Execute(s.ctx, req, func(context.Context, Tx) (idempotency.Response, error) {
			return resp, nil
		})
		if err != nil {
			s.Errorf("%s: Execute: %v", name, err)
			continue
		}
		s.Logf("%s", name)
		s.same(res.Response, resp)
		s.replays(s.Store, req, resp)
	}
}

// An answer of a MiB, or of as many bytes as the store takes, is replayed. One
// byte more is refused, rolled back, and leaves the key free.
//
// Covers RSP-08.
func largestAnswer[Tx any](h Harness[Tx]) func(*suite[Tx]) {
	return func(s *suite[Tx]) {
		largest := h.MaxAnswer
		if largest == 0 {
			largest = 1 << 20
		}
		body := make([]byte, largest+1)
		random := rand.NewChaCha8([32]byte{})
		_, _ = random.Read(body) // never fails
		req := request("k")
		if h.MaxAnswer != 0 {
			_, err := s.Store.Execute(s.ctx, req, func(ctx context.Context, tx Tx) (idempotency.Response, error) {
				return idempotency.Response{Status: http.StatusCreated, Body: body}, s.effect(ctx, tx, "too large")
			})
			if want := (&idempotency.Error{Code: idempotency.CodeResponseTooLarge}); !errors.Is(err, want) {
				s.Errorf("%d bytes: %v, want %v", len(body), err, want)
			}
			s.wantNoRecord(req.Identity)
			s.wantEffects("too large", 0)
		}
		resp := idempotency.Response{Status: http.StatusCreated, Body: body[:largest]}
		res, err := s.Store.Execute(s.ctx, req, func(ctx context.Context, tx Tx) (idempotency.Response, error) {
			return resp, s.effect(ctx, tx, "largest")
		})
		if err != nil {
			s.Fatalf("%d bytes: %v", largest, err)
		}
		s.same(res.Response, resp)
		s.replays(s.Store, req, resp)
		s.wantEffects("largest", 1)
	}
}

// Nobody who changes an answer in memory changes the record.
func answersAreCopies[Tx any](s *suite[Tx]) {
	req := request("k")
	spoil := func(resp idempotency.Response) {
		resp.Body[0] = 'X'
		resp.Header["Content-Type"][0] = "changed"
		resp.Header.Set("X-Added", "by the caller")
	}
	given := answer("first")
	res, err := s.Store.Execute(s.ctx, req, s.work(given))
	if err != nil {
		s.Fatalf("Execute: %v", err)
	}
	spoil(res.Response)
	spoil(given)
	for range 2 {
		res, err := s.Store.Execute(s.ctx, req, s.never)
		if err != nil {
			s.Fatalf("Execute: %v", err)
		}
		s.same(res.Response, answer("first"))
		spoil(res.Response)
	}
	rec, err := s.Store.Lookup(s.ctx, req.Identity)
	if err != nil {
		s.Fatalf("Lookup: %v", err)
	}
	spoil(rec.Response)
	rec.Fingerprint[1]++
	s.replays(s.Store, req, answer("first"))
}

// The fingerprint is compared wherever a record is found. One that was
// written under another version and cannot be computed again is a mismatch.
//
// Covers FPR-01, FPR-15, FPR-17.
func mismatch[Tx any](s *suite[Tx]) {
	req := request("k")
	s.executes(s.Store, req, "first")
	for _, st := range s.stores() {
		other := req
		other.Fingerprint = fingerprint("other payload")
		s.refuses(st, other, idempotency.ErrMismatch)

		newer := req
		newer.Fingerprint[0]++
		s.refuses(st, newer, idempotency.ErrMismatch)

		s.replays(st, req, answer("first"))
	}
	s.wantEffects("first", 1)
}

// A duplicate is refused while the first attempt runs, whatever it contains,
// and replayed afterwards.
//
// Covers CON-01, CON-08, STO-20.
func inFlight[Tx any](s *suite[Tx]) {
	req := request("k")
	other := req
	other.Fingerprint = fingerprint("other payload")

	late := make(chan error, 1)
	res, err := s.Store.Execute(s.ctx, req, func(ctx context.Context, tx Tx) (idempotency.Response, error) {
		s.refuses(s.Store, req, idempotency.ErrInFlight)
		s.refuses(s.Store, other, idempotency.ErrInFlight)
		switch {
		case s.Replica == nil:
			close(late)
		case s.oneWriter: // waits for this handler, so it cannot be awaited here
			go func() {
				res, err := s.Replica.Execute(s.ctx, req, s.never)
				if err == nil && !res.Replayed {
					err = errors.New("answered, but not replayed")
				}
				late <- err
			}()
		default:
			s.refuses(s.Replica, req, idempotency.ErrInFlight)
			s.refuses(s.Replica, other, idempotency.ErrInFlight)
			close(late)
		}
		return s.work(answer("first"))(ctx, tx)
	})
	if err != nil || res.Replayed {
		s.Fatalf("Execute: Replayed %v, error %v", res.Replayed, err)
	}
	if err := wait(s, late, "the duplicate"); err != nil && !errors.Is(err, idempotency.ErrInFlight) {
		s.Errorf("duplicate on the replica: %v", err)
	}
	for _, st := range s.stores() {
		s.replays(st, req, answer("first"))
		s.refuses(st, other, idempotency.ErrMismatch)
	}
	s.wantEffects("first", 1)
}

// What one replica has committed, the other replays.
//
// Covers CON-08.
func replicaSharesRecords[Tx any](s *suite[Tx]) {
	if s.Replica == nil {
		s.Skip("the store has no replicas")
	}
	s.executes(s.Store, request("a"), "a")
	s.replays(s.Replica, request("a"), answer("a"))
	s.executes(s.Replica, request("b"), "b")
	s.replays(s.Store, request("b"), answer("b"))
	s.wantEffects("a", 1)
	s.wantEffects("b", 1)
}

// Requests that differ in scope, operation or key by as little as one byte
// are different requests.
//
// Covers SEC-01, SEC-11, FPR-04, STO-09.
func identityIsExact[Tx any](s *suite[Tx]) {
	ids := []idempotency.Identity{
		{Scope: "tenant", Operation: "createPayment", Key: "bot-a"},
		{Scope: "tenant", Operation: "createPayment", Key: "Bot-A"},
		{Scope: "tenant", Operation: "createPayment", Key: "bot-a "},
		{Scope: "tenant", Operation: "createPayment", Key: " bot-a"},
		{Scope: "tenant", Operation: "createPayment", Key: "bot-a."},
		{Scope: "tenant", Operation: "createPayment", Key: "bot-b"},
		{Scope: "tenant", Operation: "createPayment", Key: "bot%a"},
		{Scope: "tenant", Operation: "createPayment", Key: "bot_a"},
		{Scope: "tenant", Operation: "createRefund", Key: "bot-a"},
		{Scope: "tenant", Operation: "createpayment", Key: "bot-a"},
		{Scope: "Tenant", Operation: "createPayment", Key: "bot-a"},
		{Scope: "tenant ", Operation: "createPayment", Key: "bot-a"},
		{Scope: "ténant", Operation: "createPayment", Key: "bot-a"},
		{Scope: "te\u0301nant", Operation: "createPayment", Key: "bot-a"},
		{Scope: "", Operation: "createPayment", Key: "bot-a"},
		{Scope: "tenantcreate", Operation: "Payment", Key: "bot-a"},
		{Scope: "tenant", Operation: "createPaymentbot-", Key: "a"},
		{Scope: "", Operation: "", Key: "tenantcreatePaymentbot-a"},
	}
	req := request("")
	for _, id := range ids {
		req.Identity = id
		s.executes(s.Store, req, answerOf(id))
	}
	for _, id := range ids {
		req.Identity = id
		s.replays(s.Store, req, answer(answerOf(id)))
	}
}

func answerOf(id idempotency.Identity) string {
	return strings.Join([]string{id.Scope, id.Operation, id.Key}, "|")
}

// A scope, an operation or a key of bytes that are no text, or that some
// databases do not take in one, is kept as it is; or it is refused each time, and
// nothing is done.
//
// Covers SEC-01.
func identityOfAnyBytes[Tx any](s *suite[Tx]) {
	req := request("")
	for _, odd := range []string{"a\x00b", "\x00", "\xff", "\xfe", "\xc3\x28", "\xed\xa0\x80"} {
		for _, id := range []idempotency.Identity{
			{Scope: odd, Operation: "createPayment", Key: "k"},
			{Scope: "tenant", Operation: odd, Key: "k"},
			{Scope: "tenant", Operation: "createPayment", Key: odd},
		} {
			req.Identity = id
			label := strconv.Quote(answerOf(id))
			res, err := s.Store.Execute(s.ctx, req, s.work(answer(label)))
			if err == nil {
				s.same(res.Response, answer(label))
				s.replays(s.Store, req, answer(label))
				s.wantEffects(label, 1)
				continue
			}
			for range 2 {
				if errors.Is(err, idempotency.ErrMismatch) || errors.Is(err, idempotency.ErrInFlight) || errors.Is(err, idempotency.ErrOutcomeUnknown) {
					s.Errorf("%s: %v, want it kept or refused", label, err)
				}
				if _, err = s.Store.Execute(s.ctx, req, s.work(answer(label))); err == nil {
					s.Errorf("%s: refused, and then executed", label)
				}
			}
			s.wantEffects(label, 0)
		}
	}
}

// The longest key works together with the longest operation and a long scope.
//
// Covers PRO-08.
func longestIdentity[Tx any](s *suite[Tx]) {
	req := request(strings.Repeat("~", 255))
	req.Scope = strings.Repeat("s", 1024)
	req.Operation = "POST /" + strings.Repeat("o", 255)
	s.executes(s.Store, req, "first")
	s.replays(s.Store, req, answer("first"))
	rec, err := s.Store.Lookup(s.ctx, req.Identity)
	if err != nil || rec.Identity != req.Identity {
		s.Errorf("Lookup: %v, identity kept whole: %v", err, rec.Identity == req.Identity)
	}
}

// A handler that executes its own request again is refused at once. One that
// executes another operation gets an independent record, or a refusal where
// the store has one writer: never a deadlock.
//
// Covers CON-15.
func nestedExecute[Tx any](s *suite[Tx]) {
	outer, inner := request("k"), request("k")
	inner.Operation = "createRefund"
	res, err := s.Store.Execute(s.ctx, outer, func(ctx context.Context, tx Tx) (idempotency.Response, error) {
		if _, err := s.Store.Execute(ctx, outer, s.never); !errors.Is(err, idempotency.ErrInFlight) {
			s.Errorf("nested Execute of the same request: %v, want %v", err, idempotency.ErrInFlight)
		}
		if s.oneWriter {
			if _, err := s.Store.Execute(ctx, inner, s.never); err == nil {
				s.Error("nested Execute of another operation: no error")
			}
		} else if _, err := s.Store.Execute(ctx, inner, s.work(answer("inner"))); err != nil {
			s.Errorf("nested Execute of another operation: %v", err)
		}
		return s.work(answer("outer"))(ctx, tx)
	})
	if err != nil || res.Replayed {
		s.Fatalf("Execute: Replayed %v, error %v", res.Replayed, err)
	}
	s.replays(s.Store, outer, answer("outer"))
	s.wantEffects("outer", 1)
	if s.oneWriter {
		s.wantNoRecord(inner.Identity)
		return
	}
	s.replays(s.Store, inner, answer("inner"))
	s.wantEffects("inner", 1)
}
