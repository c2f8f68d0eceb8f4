package main

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/idemgen/idemgen/generator"
)

func explainFlags(inv *invocation, flags *flag.FlagSet) {
	flags.StringVar(&inv.config, "config", "idemgen.yaml", "")
}

// explain prints what a code means or, without one, the table of all
// operations.
func explain(_ context.Context, inv *invocation) int {
	switch len(inv.args) {
	case 0:
		return explainOperations(inv)
	case 1:
		explanation, err := generator.Explain(inv.args[0])
		if err != nil {
			return inv.failf("%v", err)
		}
		fmt.Fprint(inv.stdout, explanation.Text())
		return exitDone
	default:
		return inv.failf("one code at a time, not %s", strings.Join(inv.args, " "))
	}
}

func explainOperations(inv *invocation) int {
	config, err := loadConfig(inv.config)
	if err != nil {
		return inv.fail(err)
	}
	operations, err := generator.Operations(config)
	if err != nil {
		return inv.fail(err)
	}
	table := tabwriter.NewWriter(inv.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "operation\troute\tmarked\tpolicy\twhy")
	for _, op := range operations {
		name, route := shown(op.OperationID), shown(op.Route())
		if op.Policy == nil {
			fmt.Fprintf(table, "%s\t%s\tno\t\t\n", name, route)
			continue
		}
		for i, s := range op.Policy.Settings {
			marked := "yes"
			if i > 0 {
				name, route, marked = "", "", ""
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s: %s\t%s\n", name, route, marked, s.Name, shown(s.Value), s.Why())
		}
	}
	if err := table.Flush(); err != nil {
		return inv.failf("%v", err)
	}
	return exitDone
}

// shown keeps text of the document from steering the terminal.
func shown(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}
