package redisstore

import (
	"context"
	"time"

	"github.com/idemgen/idemgen/runtime/internal/heartbeat"
)

// hold begins the heartbeat of a claim that was made after since. The context
// it returns is that of work; the caller must stop the heartbeat.
func (a *attempt) hold(ctx context.Context, since time.Time) (context.Context, *heartbeat.Heartbeat) {
	return heartbeat.Start(ctx, heartbeat.Claim{Since: since, Lease: a.cfg.lease, Ceiling: a.cfg.ceiling, Extend: a.extend})
}

// extend makes the claim last for another lease, and reports whether it is
// still held.
func (a *attempt) extend(ctx context.Context) (held bool, err error) {
	return extendScript.Run(ctx, a.client, []string{a.key}, a.token, a.cfg.lease.Milliseconds()).Bool()
}
