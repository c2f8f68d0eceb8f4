package idempotency

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"
)

// RunSweeper sweeps keeper again and again until ctx ends: the first time
// within interval, at a moment that differs between replicas that start
// together, and then every interval. An hour is a good interval. All replicas
// may run it: the store lets one sweep at a time.
//
// What was deleted and what failed goes to logger, at levels debug and error;
// nil logs nothing. A failure ends only that sweep. RunSweeper panics when
// interval is not positive.
func RunSweeper(ctx context.Context, keeper Keeper, interval time.Duration, logger *slog.Logger) {
	if interval <= 0 {
		panic("idempotency: the sweeper's interval is not positive")
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	timer := time.NewTimer(rand.N(interval))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		switch n, err := keeper.Sweep(ctx); {
		case ctx.Err() != nil:
			return
		case err != nil:
			logger.ErrorContext(ctx, "idempotency records were not swept", slog.Int64("deleted", n), slog.Any("error", err))
		default:
			logger.DebugContext(ctx, "swept idempotency records", slog.Int64("deleted", n))
		}
		timer.Reset(interval)
	}
}
