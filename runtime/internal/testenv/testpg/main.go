// Testpg runs a command with one PostgreSQL server at hand, so that the tests
// of several modules share it:
//
//	go run ./internal/testenv/testpg -- go test ./...
//
// The command finds the server's connection string in IDEM_TEST_POSTGRES. Where
// that is already set, or no server is to be had and IDEM_REQUIRE is not "all",
// the command runs as it is. The exit code is the command's.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/idemgen/idemgen/runtime/internal/testenv"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// failed is the exit code when the command could not be run at all.
const failed = 2

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("testpg", flag.ContinueOnError)
	flags.SetOutput(stderr)
	durable := flags.Bool("durable", false, "write commits through to the disk, as benchmarks need")
	if err := flags.Parse(args); err != nil {
		return failed
	}
	if flags.NArg() == 0 {
		fmt.Fprintln(stderr, "usage: testpg [-durable] -- command [argument ...]")
		return failed
	}
	cmd := exec.CommandContext(context.Background(), flags.Arg(0), flags.Args()[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = stdin, stdout, stderr, os.Environ()

	if os.Getenv(testenv.EnvPostgres) == "" {
		durability := testenv.Fast
		if *durable {
			durability = testenv.Durable
		}
		server, err := testenv.StartPostgres(durability)
		switch {
		case err == nil:
			defer server.Stop()
			cmd.Env = append(cmd.Env, testenv.EnvPostgres+"="+server.DSN)
		case testenv.Skippable(err):
			fmt.Fprintf(stderr, "testpg: no PostgreSQL, tests that need it are skipped: %v\n", err)
		default:
			fmt.Fprintf(stderr, "testpg: %v\n", err)
			return failed
		}
	}
	return wait(cmd, stderr)
}

// wait runs cmd to its end. An interrupt is for the command, which shares the
// terminal: the server must outlive it.
func wait(cmd *exec.Cmd, stderr io.Writer) int {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		fmt.Fprintf(stderr, "testpg: %v\n", err)
		return failed
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			if s == syscall.SIGTERM {
				_ = cmd.Process.Signal(s) // the command may have ended already
			}
		case err := <-done:
			var exit *exec.ExitError
			switch {
			case err == nil:
				return 0
			case errors.As(err, &exit) && exit.ExitCode() > 0:
				return exit.ExitCode()
			default:
				fmt.Fprintf(stderr, "testpg: %v\n", err)
				return failed
			}
		}
	}
}
