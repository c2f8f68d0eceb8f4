package idempotency_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
)

// lockable is a codec whose key can be taken away.
type lockable struct{ locked atomic.Bool }

func (l *lockable) Encode(_ context.Context, _, answer []byte) (idempotency.Encoded, error) {
	if l.locked.Load() {
		return idempotency.Encoded{}, errors.New("secret of the codec")
	}
	return idempotency.Encoded{Format: 31, KeyID: "secret id", Data: answer}, nil
}

func (l *lockable) Decode(_ context.Context, _ []byte, e idempotency.Encoded) ([]byte, error) {
	if l.locked.Load() {
		return nil, errors.New("secret of the codec")
	}
	return e.Data, nil
}

func (*lockable) ReadsPlain() bool { return true }

// Over HTTP a stored answer that cannot be read is a 503 that neither says that
// nothing happened nor runs the handler, and is to be sent again. One that cannot
// be stored is a 503 that says that nothing was kept. Neither names keys.
//
// Covers RSP-14.
func TestCodecOverHTTP(t *testing.T) {
	t.Parallel()
	codec := new(lockable)
	s := serveOn(t, memstore.New(memstore.WithCodec(codec)), payOperation, answers(201, `{"id":1}`))
	expect := func(step, key string, status int, code idempotency.Code, outcome idempotency.Outcome, runs int64) {
		t.Helper()
		r := s.send(t, `{}`, "Idempotency-Key", key)
		if r.status != status || code != "" && r.code(t) != code || code == "" && r.body != `{"id":1}` {
			t.Errorf("%s: %+v", step, r)
		}
		if strings.Contains(r.body, "secret") {
			t.Errorf("%s: %s tells a secret", step, r.body)
		}
		if o := s.outcome(t); o != outcome || s.runs.Load() != runs {
			t.Errorf("%s: outcome %s after %d runs, want %s after %d", step, o, s.runs.Load(), outcome, runs)
		}
	}
	expect("first", "k1", 201, "", idempotency.OutcomeExecuted, 1)
	codec.locked.Store(true)
	expect("unreadable", "k1", 503, idempotency.CodeOutcomeUnknown, idempotency.OutcomeOutcomeUnknown, 1)
	expect("cannot be stored", "k2", 503, idempotency.CodeUnavailable, idempotency.OutcomeUnavailable, 2)
	codec.locked.Store(false)
	expect("readable", "k1", 201, "", idempotency.OutcomeReplayed, 2)
	expect("again", "k2", 201, "", idempotency.OutcomeExecuted, 3)
}
