package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/idemgen/idemgen/generator"
)

// Exit codes.
const (
	exitDone     = 0 // done, or everything is fresh
	exitFindings = 1 // findings, or files that are not fresh
	exitUsage    = 2 // wrong usage, or an error of the file system
)

// invocation is one run of a command: its flags and where it prints.
type invocation struct {
	config  string
	check   bool
	against string
	dryRun  bool
	verbose bool
	quiet   bool
	format  string
	spec    string
	overlay bool
	output  string
	args    []string

	stdout, stderr io.Writer
}

// command is one of idemgen's commands.
type command struct {
	name  string
	help  string
	flags func(*invocation, *flag.FlagSet) // nil leaves all arguments to run
	run   func(context.Context, *invocation) int
}

var commands = []command{
	{"generate", generateHelp, generateFlags, generate},
	{"explain", explainHelp, explainFlags, explain},
	{"contract", contractHelp, contractFlags, contract},
	{"init", initHelp, initFlags, initialize},
	{"version", "Usage: idemgen version\n\nPrints the version of idemgen.\n", noFlags, printVersion},
	{"vet", vetHelp, nil, goVet},
}

func noFlags(*invocation, *flag.FlagSet) {}

// spellings are flags that people try in place of a command.
var spellings = map[string]string{
	"-h": "help", "-help": "help", "--help": "help",
	"-version": "version", "--version": "version",
}

// run is the whole program but for the exit, which the go command's vet takes
// for itself. Standard input is not read.
func run(args []string, _ io.Reader, stdout, stderr io.Writer) int {
	if isVet(args) {
		runVet()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	name := "generate"
	if len(args) > 0 {
		if meant, ok := spellings[args[0]]; ok {
			name, args = meant, args[1:]
		} else if !strings.HasPrefix(args[0], "-") {
			name, args = args[0], args[1:]
		}
	}
	if name == "help" {
		return help(args, stdout, stderr)
	}
	i := slices.IndexFunc(commands, func(c command) bool { return c.name == name })
	if i < 0 {
		return unknown(name, stderr)
	}
	cmd := commands[i]
	inv := &invocation{stdout: stdout, stderr: stderr}
	if cmd.flags == nil && (len(args) == 0 || spellings[args[0]] != "help") {
		inv.args = args
		return cmd.run(ctx, inv)
	}
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	if cmd.flags != nil {
		cmd.flags(inv, flags)
	}
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, cmd.help)
		return exitDone
	case err != nil:
		fmt.Fprintf(stderr, "idemgen: %v; run idemgen help %s\n", err, name)
		return exitUsage
	}
	inv.args = flags.Args()
	return cmd.run(ctx, inv)
}

func help(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stdout, overview)
		return exitDone
	}
	name := args[0]
	if flagOfGenerate(name) {
		name = "generate"
	}
	i := slices.IndexFunc(commands, func(c command) bool { return c.name == name })
	if i < 0 {
		return unknown(name, stderr)
	}
	fmt.Fprint(stdout, commands[i].help)
	return exitDone
}

// unknown says that there is no such command.
func unknown(name string, stderr io.Writer) int {
	if flagOfGenerate(name) {
		fmt.Fprintf(stderr, "idemgen: there is no command %q; it is a flag: idemgen -%[1]s\n", name)
	} else {
		fmt.Fprintf(stderr, "idemgen: there is no command %q; run idemgen help\n", name)
	}
	return exitUsage
}

// flagOfGenerate reports whether name, with or without a -, is a flag of the
// command that is run where none is named: -check is often taken for a command.
func flagOfGenerate(name string) bool {
	flags := flag.NewFlagSet("generate", flag.ContinueOnError)
	generateFlags(new(invocation), flags)
	return flags.Lookup(strings.TrimLeft(name, "-")) != nil
}

func printVersion(_ context.Context, inv *invocation) int {
	fmt.Fprintln(inv.stdout, "idemgen", toolVersion())
	return exitDone
}

// toolVersion is the module version that this program was built from, or
// "(devel)".
func toolVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// failf reports an error that is no finding.
func (inv *invocation) failf(format string, args ...any) int {
	fmt.Fprintf(inv.stderr, "idemgen: "+format+"\n", args...)
	return exitUsage
}

// fail reports findings or another error and returns the exit code.
func (inv *invocation) fail(err error) int {
	var findings generator.Findings
	if errors.As(err, &findings) {
		inv.print(findings)
		return exitCode(findings)
	}
	return inv.failf("%v", err)
}

// print shows findings with their codes, which idemgen explain takes.
func (inv *invocation) print(findings generator.Findings) {
	for _, d := range findings {
		fmt.Fprintf(inv.stderr, "%s [%s]\n", d, d.Code)
	}
}

// exitCode tells a file that cannot be read from one that is wrong.
func exitCode(findings generator.Findings) int {
	if findings.Unreadable() {
		return exitUsage
	}
	return exitFindings
}

// noArguments refuses what stands behind the flags.
func (inv *invocation) noArguments() error {
	if len(inv.args) > 0 {
		return fmt.Errorf("unexpected argument %q; flags begin with -, and the config is named with -config", inv.args[0])
	}
	return nil
}
