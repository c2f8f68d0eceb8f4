package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/idemgen/idemgen/runtime/dynamostore"
	"github.com/idemgen/idemgen/runtime/redisstore"
)

func sweepFlags(inv *invocation, f *flag.FlagSet) {
	f.BoolVar(&inv.dryRun, "dry-run", false, "")
	inv.timeout = 0 // unless the flag is given
}

// progress is how often a sweep says that it is at work.
const progress = 5 * time.Second

func sweep(ctx context.Context, inv *invocation) error {
	field, done, work := "deleted", "deleted", inv.sweepRecords
	if inv.dryRun {
		field, done, work = "expired", "would be deleted", inv.countExpired
	}
	switch inv.records.(type) {
	case *redisstore.Store, *dynamostore.Store:
		fmt.Fprintln(inv.stderr, "idemctl: this store deletes records by itself when their time to live is over; there is nothing to sweep")
		return inv.swept(field, done, 0)
	}
	n, err := work(ctx)
	if err != nil {
		return err
	}
	return inv.swept(field, done, n)
}

func (inv *invocation) countExpired(ctx context.Context) (int64, error) {
	stats, err := inv.records.Stats(ctx)
	return stats.Expired, err
}

func (inv *invocation) sweepRecords(ctx context.Context) (int64, error) {
	quiet := inv.sayProgress(ctx)
	n, err := inv.records.Sweep(ctx)
	quiet()
	if err != nil && n > 0 {
		err = fmt.Errorf("%s deleted before this: %w", count(n), err)
	}
	return n, err
}

// swept says how many records a sweep deletes.
func (inv *invocation) swept(field, done string, n int64) error {
	if inv.json {
		return printJSON(inv.stdout, map[string]int64{field: n})
	}
	_, err := fmt.Fprintf(inv.stdout, "%s %s\n", count(n), done)
	return err
}

// sayProgress tells a terminal from time to time that the sweep goes on, until the
// function that it returns is called.
func (inv *invocation) sayProgress(ctx context.Context) (quiet func()) {
	if !isTerminal(inv.stderr) {
		return func() {}
	}
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

// isTerminal reports whether somebody can read along.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
