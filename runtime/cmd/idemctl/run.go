package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// Exit codes.
const (
	exitDone    = 0
	exitRefused = 1 // not found, refused, or not confirmed
	exitFailed  = 2 // wrong usage, or the store failed
)

// envStore names the store where no -store does.
const envStore = "IDEMCTL_STORE"

// defaultTimeout bounds every command but sweep.
const defaultTimeout = 30 * time.Second

// invocation is one run of a command: its flags, the store, and where it prints.
type invocation struct {
	store       string
	table       string
	timeout     time.Duration
	json        bool
	keys        bool
	body        bool
	yes         bool
	force       bool
	dryRun      bool
	partitioned bool
	limit       uint64
	state       idempotency.State
	id          idempotency.Identity // as far as it is given
	record      [16]byte             // whose id is given, or follows from an identity
	until       time.Time            // when -timeout has passed

	records records // of the store; nil for commands that open none
	stdin   *bufio.Reader
	stdout  io.Writer
	stderr  io.Writer
}

// command is one of idemctl's commands. An error that it returns is a
// [*refusal], a [*usageError], or a failure of the store.
type command struct {
	name  string
	help  string
	flags func(*invocation, *flag.FlagSet)
	run   func(context.Context, *invocation) error
	local bool // it opens no store
	one   bool // it takes a record
	asks  bool // it waits for somebody, and limits its time itself
}

var commands = []command{
	{name: "schema", help: schemaHelp, flags: schemaFlags, run: schema, local: true},
	{name: "list", help: listHelp, flags: listFlags, run: list},
	{name: "show", help: showHelp, flags: showFlags, run: show, one: true},
	{name: "release", help: releaseHelp, flags: releaseFlags, run: release, one: true, asks: true},
	{name: "sweep", help: sweepHelp, flags: sweepFlags, run: sweep},
	{name: "stats", help: statsHelp, flags: statsFlags, run: stats},
	{name: "version", help: "Usage: idemctl version\n\nPrints the version of idemctl.\n", flags: func(*invocation, *flag.FlagSet) {}, run: version, local: true},
}

// refusal is why something was not done although the store works.
type refusal struct{ reason string }

func (r *refusal) Error() string { return r.reason }

func refuse(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

// usageError is a mistake in the command line.
type usageError struct{ mistake string }

func (u *usageError) Error() string { return u.mistake }

func misuse(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// run is the whole program but for the exit.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second interrupt ends the process
	if len(args) == 0 {
		fmt.Fprint(stderr, overview)
		return exitFailed
	}
	name, args := args[0], args[1:]
	switch name {
	case "help", "-h", "-help", "--help":
		return help(args, stdout, stderr)
	case "-version", "--version":
		name = "version"
	}
	i := slices.IndexFunc(commands, func(c command) bool { return c.name == name })
	if i < 0 {
		return noCommand(name, stderr)
	}
	inv := &invocation{stdin: bufio.NewReader(stdin), stdout: stdout, stderr: stderr}
	err := commands[i].execute(ctx, inv, args)
	var refused *refusal
	var wrong *usageError
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, commands[i].help)
		return exitDone
	case errors.As(err, &refused):
		fmt.Fprintf(stderr, "idemctl: %s\n", redacted(err))
		return exitRefused
	case errors.As(err, &wrong):
		fmt.Fprintf(stderr, "idemctl: %s; idemctl help %s says more\n", redacted(err), name)
	case ctx.Err() != nil:
		fmt.Fprintf(stderr, "idemctl: interrupted: %s\n", redacted(err))
	case inv.timeout > 0 && time.Now().After(inv.until): // drivers have errors of their own for that
		fmt.Fprintf(stderr, "idemctl: not done within %v, see -timeout: %s\n", inv.timeout, redacted(err))
	default:
		fmt.Fprintf(stderr, "idemctl: %s\n", redacted(err))
	}
	return exitFailed
}

// execute parses the arguments, opens the store and runs the command.
func (c command) execute(ctx context.Context, inv *invocation, args []string) error {
	if err := c.parse(inv, args); err != nil {
		return err
	}
	if c.local {
		return c.run(ctx, inv)
	}
	limited, cancel := inv.limited(ctx)
	defer cancel()
	opened, err := open(limited, inv.store, inv.table)
	if err != nil {
		return err
	}
	defer opened.close()
	inv.records = opened.records
	if !c.asks {
		ctx = limited
	}
	return c.run(ctx, inv)
}

// limited is ctx until -timeout has passed.
func (inv *invocation) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if inv.timeout == 0 {
		return context.WithCancel(ctx)
	}
	inv.until = time.Now().Add(inv.timeout)
	return context.WithDeadline(ctx, inv.until)
}

// parse reads flags and arguments into inv.
func (c command) parse(inv *invocation, args []string) error {
	flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	if !c.local {
		storeFlag(inv, flags)
		flags.BoolVar(&inv.json, "json", false, "")
		inv.timeout = defaultTimeout
		flags.Func("timeout", "", inv.setTimeout)
	}
	c.flags(inv, flags)
	var more []string
	for len(args) > 0 { // flags may follow the id
		switch err := flags.Parse(args); {
		case errors.Is(err, flag.ErrHelp):
			return err
		case err != nil:
			return misuse("%v", err)
		}
		if args = flags.Args(); len(args) > 0 {
			more, args = append(more, args[0]), args[1:]
		}
	}
	switch {
	case c.one:
		return inv.name(c.name, more)
	case len(more) > 0:
		return misuse("%s takes no arguments beside flags, and not %q", c.name, more[0])
	}
	return nil
}

// storeFlag are the flags that say where records are.
func storeFlag(inv *invocation, f *flag.FlagSet) {
	f.StringVar(&inv.store, "store", os.Getenv(envStore), "")
	f.StringVar(&inv.table, "table", "", "")
}

func (inv *invocation) setTimeout(text string) (err error) {
	if inv.timeout, err = time.ParseDuration(text); err != nil || inv.timeout < 0 {
		return errors.New("a time has a unit, as 5s and 10m have; 0 never gives up")
	}
	return nil
}

// Where a URL has a password: between the first colon behind the user and the
// last @, and in parameters.
var (
	userPassword  = regexp.MustCompile(`(://[^:@/\s]*:)\S+@`)
	namedPassword = regexp.MustCompile(`((?i)password=)[^&\s"'\x60]+`)
)

// redacted is the text of err for operators: in the words of URLs, without their
// passwords, whoever has quoted them, and without what would do something to a
// terminal.
func redacted(err error) string {
	text := userPassword.ReplaceAllString(err.Error(), "${1}xxxxx@")
	text = inWordsOfURLs.Replace(namedPassword.ReplaceAllString(text, "${1}xxxxx"))
	return strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, indented(text))
}

// indented keeps the lines of text, since a statement may be one, and puts all but
// the first behind spaces.
func indented(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n  ")
}

func help(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 || args[0] == "help" {
		fmt.Fprint(stdout, overview)
		return exitDone
	}
	for _, c := range commands {
		if c.name == args[0] {
			fmt.Fprint(stdout, c.help)
			return exitDone
		}
	}
	return noCommand(args[0], stderr)
}

func noCommand(name string, stderr io.Writer) int {
	if strings.HasPrefix(name, "-") {
		fmt.Fprintf(stderr, "idemctl: the command comes before its flags; idemctl help lists commands\n")
		return exitFailed
	}
	fmt.Fprintf(stderr, "idemctl: %s; idemctl help lists them\n", redacted(fmt.Errorf("there is no command %q", name)))
	return exitFailed
}

func version(_ context.Context, inv *invocation) error {
	number := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		number = info.Main.Version
	}
	_, err := fmt.Fprintf(inv.stdout, "idemctl %s\n", number)
	return err
}
