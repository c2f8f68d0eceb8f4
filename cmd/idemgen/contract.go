package main

import (
	"context"
	"flag"
	"fmt"

	"github.com/idemgen/idemgen/generator"
)

func contractFlags(inv *invocation, flags *flag.FlagSet) {
	flags.StringVar(&inv.config, "config", "idemgen.yaml", "")
	flags.BoolVar(&inv.overlay, "overlay", false, "")
	flags.StringVar(&inv.output, "o", "", "")
}

// contract prints the contract or its overlay, or writes it to a file.
func contract(_ context.Context, inv *invocation) int {
	if err := inv.noArguments(); err != nil {
		return inv.failf("%v", err)
	}
	config, err := loadConfig(inv.config)
	if err != nil {
		return inv.fail(err)
	}
	build := generator.Contract
	if inv.overlay {
		build = generator.ContractOverlay
	}
	result, err := build(config, inv.output)
	if err != nil {
		return inv.fail(err)
	}
	for _, d := range result.Warnings {
		fmt.Fprintln(inv.stderr, d)
	}
	if inv.output != "" {
		if _, err := result.Write(); err != nil {
			return inv.fail(err)
		}
		return exitDone
	}
	if _, err := inv.stdout.Write(result.Files[0].Content); err != nil {
		return inv.failf("%v", err)
	}
	return exitDone
}
