package pgxstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// run runs work and judges whether its answer may be committed. If not, or if
// work panics, the transaction is rolled back and the attempt is over.
func (a *attempt) run(ctx context.Context, work idempotency.Work[pgx.Tx]) (idempotency.Response, error) {
	g := &guard{conn: a.conn.Conn()}
	ready := false
	defer func() {
		switch {
		case ready:
		case g.finish():
			a.rollback()
		default:
			g.abandon(a.done)
		}
	}()
	resp, err := work(ctx, &tx{guard: g})
	if err := g.verdict(err); err != nil {
		return idempotency.Response{}, err
	}
	ready = true
	return resp, nil
}

// complete stores resp and commits: one round trip. The attempt is over then.
func (a *attempt) complete(ctx context.Context, req idempotency.Request, resp idempotency.Response) (idempotency.Result, error) {
	if resp.Status < 100 || resp.Status > 999 {
		a.rollback()
		return idempotency.Result{}, fmt.Errorf("pgxstore: %s: the answer's status is %d; nothing is kept", req.Operation, resp.Status)
	}
	header, body, err := a.encode(ctx, req, resp)
	if err != nil {
		return idempotency.Result{}, err
	}
	statements := append(a.storing(req, resp.Status, header, body), a.sql.commit.with())
	done, tag, err := pipeline(a.pc, a.finishBy(), statements...)
	a.rollback() // what is left of the transaction, if anything is
	switch {
	case err == nil && tag == "COMMIT":
		a.recent.add(a.lock)
		return idempotency.Result{Response: resp}, nil
	case err == nil:
		return idempotency.Result{}, fmt.Errorf("pgxstore: the server answered COMMIT with %s: nothing is kept", tag)
	case isUnsure(err):
		return a.resolve(ctx, req, resp, err)
	case errors.Is(err, errDropped) && tag == "COMMIT":
		return idempotency.Result{}, &idempotency.Error{
			Code: idempotency.CodeTransactionEnded,
			Err:  fmt.Errorf("pgxstore: %s: its effects are committed, and a retry makes them again: %w", req.Operation, err),
		}
	case isConflict(err), isUnprepared(err):
		return idempotency.Result{}, &conflict{err}
	case done == len(statements)-1:
		return idempotency.Result{}, commitError(err)
	case state(err) == stateUnique:
		return idempotency.Result{}, &conflict{err} // another attempt has completed first
	case state(err) == stateNotNull:
		return idempotency.Result{}, errEnded
	}
	return idempotency.Result{}, unavailable("the answer could not be stored", err)
}

// errDropped says that the record's INSERT was carried out and stored nothing.
var errDropped = errors.New("the record was not stored: a trigger or a rule of the table drops it; remove that")

// storing returns the statements that store an answer, in place of a record that
// is over.
func (a *attempt) storing(req idempotency.Request, status int, header, body []byte) []bound {
	id := a.id[:]
	statements := make([]bound, 0, 3)
	if a.record != nil {
		statements = append(statements, a.sql.remove.with(id))
	}
	return append(statements,
		a.sql.insert.with(id, encodeInterval(req.Retention), a.began[:], encodeInt2(status),
			[]byte(req.Scope), []byte(req.Operation), []byte(req.Key), req.Fingerprint[:], header, nonNil(body)))
}

// encode returns what is stored of resp. If that fails, or the codec panics, the
// transaction is rolled back and the attempt is over.
func (a *attempt) encode(ctx context.Context, req idempotency.Request, resp idempotency.Response) (header, body []byte, err error) {
	encoded := false
	defer func() {
		if !encoded {
			a.rollback()
		}
	}()
	header, body, err = idempotency.EncodeAnswer(ctx, a.cfg.codec, req, resp)
	encoded = err == nil
	return header, body, err
}

// commit ends a transaction that has no claim.
func (a *attempt) commit() error {
	_, tag, err := pipeline(a.pc, a.finishBy(), a.sql.commit.with())
	a.rollback()
	switch {
	case err == nil && tag == "COMMIT":
		return nil
	case err == nil:
		return fmt.Errorf("pgxstore: the server answered COMMIT with %s: nothing is kept", tag)
	case isUnsure(err):
		return outcomeUnknown(err)
	case isConflict(err), isUnprepared(err):
		return (&conflict{err}).final()
	}
	return commitError(err)
}

// commitError is that of a COMMIT which the server refuses, such as for a
// deferred constraint of work's tables.
func commitError(err error) error {
	return &idempotency.CommitError{Err: fmt.Errorf("pgxstore: commit: %w", err)}
}

// resolvePause is the time between two looks at a COMMIT's fate.
const resolvePause = 50 * time.Millisecond

// resolve finds out what became of a COMMIT whose answer was lost, by claiming
// again on other connections. The lost transaction holds its claim to its end,
// so whoever gets the claim and finds no record knows that it was rolled back.
func (s *Store) resolve(ctx context.Context, req idempotency.Request, resp idempotency.Response, lost error) (idempotency.Result, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.resolveTimeout)
	defer cancel()
	for {
		a, err := s.claimed(ctx, req.Identity)
		if err == nil {
			a.rollback()
			switch {
			case a.live():
				if err := a.record.answers(req); err != nil {
					return idempotency.Result{}, err
				}
				stored, err := a.record.response(ctx, s.cfg.codec)
				// Another attempt can only have answered if ours was rolled back;
				// where its answer is the same, nobody can tell them apart.
				return idempotency.Result{Response: stored, Replayed: !stored.Equal(resp)}, err
			case a.held:
				return idempotency.Result{}, unavailable("the connection was lost in COMMIT, and the transaction was rolled back", lost)
			}
		}
		if sleep(ctx, resolvePause) != nil {
			return idempotency.Result{}, outcomeUnknown(lost)
		}
	}
}

func outcomeUnknown(err error) error {
	return &idempotency.Error{
		Code:   idempotency.CodeOutcomeUnknown,
		Detail: "the connection was lost in COMMIT, and it is not known whether the effects were kept",
		Err:    err,
	}
}

// nonNil makes an empty body empty, where nil would be NULL.
func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
