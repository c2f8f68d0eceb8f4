// Command idemgen makes the operations of an OpenAPI document that are marked
// x-idempotent safe to retry: it generates typed Go code beside the output of
// oapi-codegen. Run idemgen help to learn more.
package main

import (
	"os"
	"runtime/debug"
)

func main() {
	// A run lasts about a second: memory is cheaper than collecting it
	// (docs/benchmarks.md). GOGC, where it is set, wins.
	if _, set := os.LookupEnv("GOGC"); !set {
		debug.SetGCPercent(400)
	}
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
