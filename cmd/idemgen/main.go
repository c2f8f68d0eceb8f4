// Command idemgen makes the operations of an OpenAPI document that are marked
// x-idempotent safe to retry: it generates typed Go code beside the output of
// oapi-codegen. Run idemgen help to learn more.
package main

import "os"

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
