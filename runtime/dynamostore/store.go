package dynamostore

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// Store keeps records in a DynamoDB table and gives work a [*Tx]. It is safe for
// concurrent use and has nothing to close.
type Store struct {
	client *dynamodb.Client
	table  string
	cfg    config
}

var (
	_ idempotency.Store[*Tx] = (*Store)(nil)
	_ idempotency.Keeper     = (*Store)(nil)
	_ idempotency.Lister     = (*Store)(nil)
)

// Execute implements [idempotency.Store]. A first request makes two round trips:
// the claim, and the completion together with what work has queued. A replay
// makes one.
//
// If DynamoDB refuses a queued write, nothing is kept, the key is free, and
// Execute returns a [*RefusedError] in an [*idempotency.CommitError]. If the
// claim was lost while work ran, nothing is kept either: the error matches
// [idempotency.ErrUnavailable] and [idempotency.ErrLeaseLost], and another attempt
// may be at work. An error that matches [idempotency.ErrOutcomeUnknown] and
// [idempotency.ErrLeaseLost] says that an answer of DynamoDB was lost, and that
// the record, if there was one, is gone. An answer of more than 350 KB is an
// [*idempotency.Error] of code response_too_large.
//
// Work gets a child of ctx that is cancelled when the claim is lost or has
// reached its ceiling, see [WithLease]: the cause matches
// [idempotency.ErrLeaseLost]. It never runs twice.
func (s *Store) Execute(ctx context.Context, req idempotency.Request, work idempotency.Work[*Tx]) (idempotency.Result, error) {
	if err := check(ctx, req); err != nil {
		return idempotency.Result{}, err
	}
	a := s.attempt(req.Identity)
	since := time.Now()
	found, err := a.claim(ctx)
	switch {
	case err != nil:
		return idempotency.Result{}, err
	case found != nil:
		return found.answer(ctx, s.cfg.codec, req)
	}

	settled := false // the claim is over, or nobody knows
	defer func() {
		if !settled {
			a.abandon(ctx)
		}
	}()
	if err := cancelled(ctx); err != nil {
		return idempotency.Result{}, err
	}
	if err := req.CheckAge(time.Now()); err != nil {
		return idempotency.Result{}, err
	}
	working, beat := a.hold(ctx, since)
	defer beat.Stop()
	tx := &Tx{table: s.table}
	resp, err := tx.run(working, work)
	if err != nil {
		return idempotency.Result{}, err
	}
	// A heartbeat beside the completion would be a conflict.
	beat.Stop()
	if err := beat.Err(); err != nil {
		return idempotency.Result{}, unavailable("the request took longer than a claim may be held; nothing was kept", err)
	}
	c, err := a.completion(ctx, req, resp, tx.writes)
	if err != nil {
		return idempotency.Result{}, err
	}
	settled, err = s.complete(ctx, c)
	if err != nil {
		return idempotency.Result{}, err
	}
	return idempotency.Result{Response: resp}, nil
}

// Transact implements [idempotency.Store]: what work has queued is written in
// one round trip, all or nothing. DynamoDB recognises it for 10 min when it is
// sent again; an emulator that does not may write it twice. The service is asked
// for nothing before work has run.
func (s *Store) Transact(ctx context.Context, work idempotency.Work[*Tx]) (idempotency.Response, error) {
	if err := cancelled(ctx); err != nil {
		return idempotency.Response{}, err
	}
	tx := &Tx{table: s.table}
	resp, err := tx.run(ctx, work)
	if err != nil || len(tx.writes) == 0 {
		return resp, err
	}
	c := completion{token: rand.Text(), writes: tx.writes}
	if err := checkTotal(c.writes); err != nil {
		return idempotency.Response{}, err
	}
	if _, err := s.complete(ctx, c); err != nil {
		return idempotency.Response{}, err
	}
	return resp, nil
}

// run runs work and returns its answer, if that and what was queued may be kept.
func (t *Tx) run(ctx context.Context, work idempotency.Work[*Tx]) (resp idempotency.Response, err error) {
	defer func() { // also when work panics
		if refused := t.finish(); err == nil && refused != nil {
			resp, err = idempotency.Response{}, refused
		}
	}()
	resp, err = work(ctx, t)
	if err != nil {
		return idempotency.Response{}, err
	}
	if resp.Status < 100 || resp.Status > 999 {
		return idempotency.Response{}, fmt.Errorf("dynamostore: the answer's status is %d; nothing is kept", resp.Status)
	}
	return resp, nil
}

// maxRetention keeps times within what everybody can count.
const maxRetention = 100 * 365 * 24 * time.Hour

// maxIdentity is the most bytes that scope, operation and key may have, so that
// the largest answer fits into the same item.
const maxIdentity = maxItem - maxAnswer - (2 << 10)

// check refuses requests that cannot be served.
func check(ctx context.Context, req idempotency.Request) error {
	size := 0
	for _, s := range []string{req.Scope, req.Operation, req.Key} {
		if !utf8.ValidString(s) { // the client would change it
			return fmt.Errorf("dynamostore: %.64q: scope, operation and key are stored as strings, and one of them is not valid UTF-8", req.Operation)
		}
		size += len(s)
	}
	if size > maxIdentity {
		return fmt.Errorf("dynamostore: %.64q: scope, operation and key have %d bytes, and %d can be stored", req.Operation, size, maxIdentity)
	}
	if req.Retention <= 0 || req.Retention > maxRetention {
		return fmt.Errorf("dynamostore: %s: the retention is %v; it must be positive and at most 100 years", req.Operation, req.Retention)
	}
	return cancelled(ctx)
}

func cancelled(ctx context.Context) error {
	if ctx.Err() != nil {
		return unavailable("the request was cancelled before its handler ran", context.Cause(ctx))
	}
	return nil
}
