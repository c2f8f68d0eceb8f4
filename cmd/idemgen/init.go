package main

import (
	"context"
	"flag"
)

func initFlags(inv *invocation, flags *flag.FlagSet) { flags.StringVar(&inv.spec, "spec", "", "") }

func initialize(_ context.Context, inv *invocation) int { return 0 }
