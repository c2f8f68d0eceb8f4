package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// Store keeps records in Redis and gives work a [*Tx]. It is safe for concurrent
// use and has nothing to close: it ends with its client.
type Store struct {
	client   redis.UniversalClient
	cfg      config
	cluster  atomic.Bool // as the servers say; settled by New
	commands table
	sealed   *redis.Client
}

var (
	_ idempotency.Store[*Tx] = (*Store)(nil)
	_ idempotency.Keeper     = (*Store)(nil)
	_ idempotency.Lister     = (*Store)(nil)
)

// Execute implements [idempotency.Store]. A first request makes two round trips:
// the claim, and the completion together with what work has queued. A replay
// makes one, and with [WithReplicas] two.
//
// If a queued command fails, nothing is kept, the key is free, and Execute
// returns an [*idempotency.CommitError] that wraps the server's error. If
// the claim was lost while work ran, nothing is kept either: the error matches
// [idempotency.ErrUnavailable] and [idempotency.ErrLeaseLost], and another
// attempt may be at work. An error that matches [idempotency.ErrOutcomeUnknown]
// and [idempotency.ErrLeaseLost] says that an answer of the server was lost, and
// that the record, if there was one, is gone: it expired or was released.
//
// Work gets a child of ctx that is cancelled when the claim is lost or has
// reached its ceiling, see [WithLease]: the cause matches
// [idempotency.ErrLeaseLost]. It never runs twice.
func (s *Store) Execute(ctx context.Context, req idempotency.Request, work idempotency.Work[*Tx]) (idempotency.Result, error) {
	if err := check(ctx, req); err != nil {
		return idempotency.Result{}, err
	}
	a, err := s.attempt(req.Identity)
	if err != nil {
		return idempotency.Result{}, err
	}
	since := time.Now()
	found, now, err := a.claim(ctx, req)
	switch {
	case err != nil:
		return idempotency.Result{}, err
	case found != nil:
		res, err := found.answer(ctx, s.cfg.codec, req)
		if err == nil {
			err = s.confirm(ctx, a.key, found)
		}
		switch {
		case errors.Is(err, errGone):
			return s.Execute(ctx, req, work)
		case err != nil:
			return idempotency.Result{}, err
		}
		return res, nil
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
	if err := req.CheckAge(now); err != nil {
		return idempotency.Result{}, err
	}
	working, beat := a.hold(ctx, since)
	defer beat.Stop()
	tx := s.newTx(a.tag, true)
	resp, err := tx.run(working, work)
	if err != nil {
		return idempotency.Result{}, err
	}
	if err := beat.Err(); err != nil {
		return idempotency.Result{}, unavailable("the request took longer than a claim may be held; nothing was kept", err)
	}
	header, body, err := idempotency.EncodeAnswer(ctx, s.cfg.codec, req, resp)
	if err != nil {
		return idempotency.Result{}, err
	}
	settled, err = s.complete(ctx, completion{
		key: a.key, token: a.token, origin: claimed,
		fingerprint: req.Fingerprint[:], retention: req.Retention,
		status: resp.Status, header: header, body: body,
		queued: tx.queued,
	})
	if err != nil {
		return idempotency.Result{}, err
	}
	return idempotency.Result{Response: resp}, nil
}

// Transact implements [idempotency.Store]: what work has queued is applied in
// one round trip, all or nothing, and once even if the client sends it again.
// On a Redis Cluster all commands must share the slot of the first one's key.
// The server is asked for nothing before work has run.
func (s *Store) Transact(ctx context.Context, work idempotency.Work[*Tx]) (idempotency.Response, error) {
	if err := cancelled(ctx); err != nil {
		return idempotency.Response{}, err
	}
	token := newToken()
	tx := s.newTx(token, false)
	resp, err := tx.run(ctx, work)
	if err != nil || len(tx.queued.names) == 0 {
		return resp, err
	}
	_, err = s.complete(ctx, completion{
		key: s.cfg.prefix + "{" + tx.tag + "}:once:" + token, token: token, origin: unclaimed,
		retention: s.cfg.finishTimeout + onceRetention, status: resp.Status,
		queued: tx.queued,
	})
	if err != nil {
		return idempotency.Response{}, err
	}
	return resp, nil
}

// onceRetention is for how long a transaction without a key is remembered, on
// top of the time in which it may be sent again.
const onceRetention = time.Minute

// newTx returns an empty transaction.
func (s *Store) newTx(tag string, chosen bool) *Tx {
	return &Tx{
		commands: s.commands, prefix: s.cfg.prefix, cluster: s.cluster.Load(), sealed: s.sealed,
		tag: tag, chosen: chosen,
	}
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
		return idempotency.Response{}, fmt.Errorf("redisstore: the answer's status is %d; nothing is kept", resp.Status)
	}
	return resp, nil
}

// maxRetention is what Redis takes as a time to live on every clock.
const maxRetention = 100 * 365 * 24 * time.Hour

// check refuses requests that cannot be served.
func check(ctx context.Context, req idempotency.Request) error {
	if req.Retention <= 0 || req.Retention > maxRetention {
		return fmt.Errorf("redisstore: %s: the retention is %v; it must be positive and at most 100 years", req.Operation, req.Retention)
	}
	return cancelled(ctx)
}

func cancelled(ctx context.Context) error {
	if ctx.Err() != nil {
		return unavailable("the request was cancelled before its handler ran", context.Cause(ctx))
	}
	return nil
}
