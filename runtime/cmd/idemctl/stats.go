package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

func statsFlags(*invocation, *flag.FlagSet) {}

// countsJSON is [idempotency.Counts] for scripts.
type countsJSON struct {
	Operation string    `json:"operation,omitempty"`
	Answers   int64     `json:"answers"`
	Claims    int64     `json:"claims"`
	Passed    int64     `json:"passed"`
	Expired   int64     `json:"expired"`
	Bytes     int64     `json:"bytes"`
	Oldest    time.Time `json:"oldest,omitzero"`
	Newest    time.Time `json:"newest,omitzero"`
}

func toJSON(operation string, c idempotency.Counts) countsJSON {
	return countsJSON{operation, c.Answers, c.Claims, c.Passed, c.Expired, c.Bytes, c.Oldest.UTC(), c.Newest.UTC()}
}

func stats(ctx context.Context, inv *invocation) error {
	all, err := inv.records.Stats(ctx)
	if err != nil {
		return err
	}
	operations := slices.Sorted(maps.Keys(all.Operations))
	if inv.json {
		j := struct {
			countsJSON
			Operations []countsJSON `json:"operations"`
		}{toJSON("", all.Counts), []countsJSON{}}
		for _, o := range operations {
			j.Operations = append(j.Operations, toJSON(o, all.Operations[o]))
		}
		return printJSON(inv.stdout, j)
	}
	table := tabwriter.NewWriter(inv.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "OPERATION\tANSWERS\tCLAIMS\tPASSED\tEXPIRED\tBYTES\tOLDEST\tNEWEST")
	line := func(name string, c idempotency.Counts) {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%s\t%s\n", name, c.Answers, c.Claims, c.Passed, c.Expired, c.Bytes, timeText(c.Oldest), timeText(c.Newest))
	}
	for _, o := range operations {
		line(shown(o), all.Operations[o])
	}
	line("all", all.Counts)
	return table.Flush()
}
