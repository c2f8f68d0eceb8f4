package idempotency_test

import (
	"strings"
	"testing"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// bodyOperation is payOperation with its key in the body.
func bodyOperation(optional bool) idempotency.Operation {
	op := payOperation
	op.Key = idempotency.KeyRule{Body: "/meta/key"}
	op.Optional = optional
	return op
}

// The key comes from the body, whatever headers say, and is checked after the
// body's length and before scope and claim.
func TestKeyInBody(t *testing.T) {
	t.Parallel()
	s := serve(t, bodyOperation(false), answers(201, "done"), idempotency.WithRequestLimit(200))
	send := func(body string, header ...string) reply {
		t.Helper()
		return s.send(t, body, header...)
	}
	first := send(`{"meta":{"key":"k1"},"n":1}`, "Idempotency-Key", "other")
	if first.status != 201 || s.outcome(t) != idempotency.OutcomeExecuted {
		t.Fatalf("first: %+v", first)
	}
	for _, header := range []string{"<none>", "k2", ""} {
		if again := send(`{"n":1,"meta":{"key":"k1"}}`, "Idempotency-Key", header); again.status != 201 || s.outcome(t) != idempotency.OutcomeReplayed {
			t.Errorf("replay: %+v", again)
		}
	}
	for _, test := range []struct {
		name, body string
		header     []string
		status     int
		code       idempotency.Code
	}{
		{"mismatch", `{"meta":{"key":"k1"},"n":2}`, nil, 422, idempotency.CodeMismatch},
		{"missing", `{"n":1}`, nil, 400, idempotency.CodeKeyMissing},
		{"no body", ``, nil, 400, idempotency.CodeKeyMissing},
		{"invalid", `{"meta":{"KEY":"k1"}}`, nil, 400, idempotency.CodeKeyInvalid},
		{"invalid before scope", `{"meta":{"key":1}}`, []string{"X-Api-Key", "<none>"}, 400, idempotency.CodeKeyInvalid},
		{"no scope", `{"meta":{"key":"k1"}}`, []string{"X-Api-Key", "<none>"}, 401, idempotency.CodeScopeMissing},
		{"too large", `{"n":"` + strings.Repeat("x", 200) + `"}`, nil, 413, idempotency.CodeBodyTooLarge},
		{"taken by a lax decoder", `{"meta":{"key":"k9"}} {}`, nil, 400, idempotency.CodeBodyInvalid},
	} {
		got := send(test.body, test.header...)
		if got.status != test.status || got.code(t) != test.code {
			t.Errorf("%s: %+v", test.name, got)
		}
		s.outcome(t)
	}
	if got := send(`{"meta":{"key":"k1"`, "X-Undecodable", "1"); got.status != 400 || got.body != "cannot decode\n" {
		t.Errorf("bad JSON: %+v", got)
	}
	if got := s.outcome(t); got != idempotency.OutcomeInvalid {
		t.Errorf("bad JSON: outcome %s", got)
	}
	if got := send(`{"meta":{}}`, "Idempotency-Key", "k1"); !strings.Contains(got.body, "in the member /meta/key of the body") {
		t.Errorf("missing: %s", got.body)
	}
	if s.runs.Load() != 1 {
		t.Errorf("the handler ran %d times", s.runs.Load())
	}
}

// Without its optional key a request runs unprotected; with one that cannot be
// read it does not run.
func TestOptionalKeyInBody(t *testing.T) {
	t.Parallel()
	s := serve(t, bodyOperation(true), answers(201, "done"))
	for body, want := range map[string]idempotency.Outcome{
		`{}`:                             idempotency.OutcomeUnprotected,
		`{"meta":{"key":null}}`:          idempotency.OutcomeUnprotected,
		``:                               idempotency.OutcomeUnprotected,
		`{"meta":{"key":"k1"}}`:          idempotency.OutcomeExecuted,
		`{"meta":{"key":""}}`:            idempotency.OutcomeInvalid,
		`{"meta":{"Key":"k"}}`:           idempotency.OutcomeInvalid,
		`{"meta":{"key":"k2"}} trailing`: idempotency.OutcomeInvalid,
	} {
		runs := s.runs.Load()
		got := s.send(t, body)
		if outcome := s.outcome(t); outcome != want {
			t.Errorf("%s: %s, %+v", body, outcome, got)
		}
		if ran := s.runs.Load() > runs; ran != (want != idempotency.OutcomeInvalid) {
			t.Errorf("%s: ran %t", body, ran)
		}
	}
}

// A header that looks like the key's is named to those who have sent none in
// the body.
//
// Covers PRO-10.
func TestMissingBodyKeyNamesTheHeader(t *testing.T) {
	t.Parallel()
	op := payOperation
	op.Key = idempotency.KeyRule{Body: "/idempotency_key"}
	s := serve(t, op, answers(201, "done"))
	if got := s.send(t, `{}`); !strings.Contains(got.body, "; Idempotency-Key is a header, where no key is looked for") {
		t.Errorf("%s", got.body)
	}
}
