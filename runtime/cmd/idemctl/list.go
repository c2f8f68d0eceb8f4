package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"text/tabwriter"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

func listFlags(inv *invocation, f *flag.FlagSet) {
	selectors(inv, f)
	f.Func("state", "", func(text string) error {
		if inv.state.UnmarshalText([]byte(text)) != nil {
			return errors.New("use any, answer, claim, passed or expired")
		}
		return nil
	})
	inv.limit = 100
	f.Func("limit", "", func(text string) (err error) {
		if inv.limit, err = strconv.ParseUint(text, 10, 64); err != nil {
			return errors.New("use a number of records, or 0 for all")
		}
		return nil
	})
	f.BoolVar(&inv.keys, "keys", false, "")
}

// selectors are the flags that a filter is made of.
func selectors(inv *invocation, f *flag.FlagSet) {
	f.StringVar(&inv.id.Scope, "scope", "", "")
	f.StringVar(&inv.id.Operation, "operation", "", "")
}

// list prints records as they come, so that a long list needs no memory; in a
// table, a screenful at a time has its columns aligned.
func list(ctx context.Context, inv *invocation) error {
	filter := idempotency.Filter{Scope: inv.id.Scope, Operation: inv.id.Operation, State: inv.state}
	const screenful = 100
	table := tabwriter.NewWriter(inv.stdout, 0, 0, 2, ' ', 0)
	if !inv.json {
		fmt.Fprintln(table, "ID\tSTATE\tSTATUS\tBYTES\tCREATED\tEXPIRES\tLEASE UNTIL\tOPERATION\tKEY\tSCOPE")
	}
	n, more := uint64(0), false
	for e, err := range inv.records.List(ctx, filter) {
		if err != nil {
			_ = table.Flush() // what has come is printed
			return err
		}
		if more = n == inv.limit && n > 0; more {
			break
		}
		n++
		if inv.json {
			if err := printJSON(inv.stdout, inv.entryJSON(e)); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", idText(e.Identity), e.State, statusText(e.Status),
			e.Bytes, timeText(e.CreatedAt), timeText(e.ExpiresAt), timeText(e.LeaseUntil), shown(e.Operation), inv.keyText(e.Key), shown(e.Scope))
		if n%screenful == 0 {
			if err := table.Flush(); err != nil {
				return err
			}
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if more {
		fmt.Fprintf(inv.stderr, "idemctl: there are more; -limit 0 lists all\n")
	}
	return nil
}
