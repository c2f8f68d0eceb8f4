package main

import (
	"context"
	"flag"
	"fmt"
	"time"
)

func sweepFlags(inv *invocation, f *flag.FlagSet) {
	f.BoolVar(&inv.dryRun, "dry-run", false, "")
	inv.timeout = 0 // unless the flag is given
}

// progress is how often a sweep says that it is at work.
const progress = 5 * time.Second

func sweep(ctx context.Context, inv *invocation) error {
	if err := inv.none("sweep"); err != nil {
		return err
	}
	if inv.dryRun {
		stats, err := inv.records.Stats(ctx)
		if err != nil {
			return err
		}
		return inv.swept("expired", "would be deleted", stats.Expired)
	}
	quiet := inv.sayProgress(ctx)
	n, err := inv.records.Sweep(ctx)
	quiet()
	if err != nil && n > 0 {
		fmt.Fprintf(inv.stderr, "idemctl: %s deleted before this:\n", count(n))
	}
	if err != nil {
		return err
	}
	return inv.swept("deleted", "deleted", n)
}

// swept says how many records a sweep deletes.
func (inv *invocation) swept(field, done string, n int64) error {
	if inv.json {
		return printJSON(inv.stdout, map[string]int64{field: n})
	}
	_, err := fmt.Fprintf(inv.stdout, "%s %s\n", count(n), done)
	return err
}

// sayProgress says from time to time that the sweep goes on, until the function
// that it returns is called.
func (inv *invocation) sayProgress(ctx context.Context) (quiet func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		began := time.Now()
		ticker := time.NewTicker(progress)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				fmt.Fprintf(inv.stderr, "idemctl: sweeping for %v; an interrupt ends it after the batch\n", time.Since(began).Round(time.Second))
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
