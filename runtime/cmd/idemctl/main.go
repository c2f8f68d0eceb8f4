// Command idemctl is for those who operate a table of idempotency records: it
// prints what creates the table, lists, shows, counts, sweeps and releases
// records. Run idemctl help to learn more.
package main

import (
	"os"

	"github.com/redis/go-redis/v9"
)

func main() {
	redis.SetLogger(quiet{})
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
