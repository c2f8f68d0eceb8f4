package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

func releaseFlags(inv *invocation, f *flag.FlagSet) {
	identityFlags(inv, f)
	f.BoolVar(&inv.yes, "yes", false, "")
	f.BoolVar(&inv.force, "force", false, "")
}

func release(ctx context.Context, inv *invocation) error {
	before, cancel := inv.limited(ctx)
	defer cancel()
	e, err := inv.find(before)
	var missing *refusal
	if errors.As(err, &missing) && inv.id.Key != "" {
		// A running transaction may hold the claim. A record that comes meanwhile
		// was shown to nobody, and stays.
		return inv.released(inv.id, inv.records.ReleaseEntry(before, idempotency.Entry{Identity: inv.id}))
	}
	if err != nil {
		return err
	}
	what := "the answer"
	switch {
	case e.State == idempotency.StateClaim && !inv.force:
		return refuse("a claim is held for this record, and its attempt may be at work: once it has ended, a retry runs by itself. " +
			"-force releases the claim; then the attempt may still make its effects and the next request makes them too, so that they can happen twice")
	case e.State == idempotency.StateClaim:
		what = "the live claim"
	case e.Status == 0:
		what = "the claim, whose lease has passed,"
	}
	if err := inv.confirm(ctx, what, e); err != nil {
		return err
	}
	after, cancel := inv.limited(ctx)
	defer cancel()
	return inv.released(e.Identity, inv.records.ReleaseEntry(after, e))
}

// confirm says what may happen when e is deleted, and asks whether it shall be,
// unless -yes says so.
func (inv *invocation) confirm(ctx context.Context, what string, e idempotency.Entry) error {
	const twice = "the attempt that holds the claim may still make its effects, so that they can happen twice"
	claim := e.State == idempotency.StateClaim
	if inv.yes {
		if claim {
			fmt.Fprintf(inv.stderr, "idemctl: %s\n", twice)
		}
		return nil
	}
	fmt.Fprintf(inv.stderr, "Delete %s of %s in scope %s under key %s, record %s? The next request with this key runs, whether this one was carried out or not",
		what, harmless(e.Operation), harmless(e.Scope), inv.keyText(e.Key), idText(e.Identity))
	if claim {
		fmt.Fprintf(inv.stderr, "; %s", twice)
	}
	fmt.Fprint(inv.stderr, ". [y/N] ")
	answer, err := inv.readLine(ctx)
	if !strings.HasSuffix(answer, "\n") {
		fmt.Fprintln(inv.stderr)
	}
	switch {
	case ctx.Err() != nil:
		return errors.New("nothing was released")
	case err != nil:
		return fmt.Errorf("nothing was released: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return refuse("nothing was released; -yes does it without asking")
}

// readLine reads a line of the standard input, which may end without a line
// break. It waits no longer than ctx lasts; then the line is lost.
func (inv *invocation) readLine(ctx context.Context) (string, error) {
	type result struct {
		line string
		err  error
	}
	read := make(chan result, 1)
	go func() {
		line, err := inv.stdin.ReadString('\n')
		if errors.Is(err, io.EOF) {
			err = nil
		}
		read <- result{line, err}
	}()
	select {
	case r := <-read:
		return r.line, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// released says what became of a release.
func (inv *invocation) released(id idempotency.Identity, err error) error {
	switch {
	case errors.Is(err, idempotency.ErrNotFound):
		return inv.notFound()
	case errors.Is(err, idempotency.ErrInFlight):
		return refuse("nothing was released, since an attempt at this request is at work: %s", inFlight(err))
	case errors.Is(err, idempotency.ErrChanged):
		return refuse("nothing was released: the record is another one than the one that was shown; look again")
	case err != nil:
		return err
	case inv.json:
		return printJSON(inv.stdout, struct {
			Released string `json:"released"`
		}{idText(id)})
	}
	_, err = fmt.Fprintf(inv.stdout, "released %s\n", idText(id))
	return err
}

// inFlight says what can be done about a claim, if the store knows.
func inFlight(err error) string {
	if cause := errors.Unwrap(err); cause != nil {
		return cause.Error()
	}
	return "its claim ends with it"
}
