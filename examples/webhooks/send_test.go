package main

import (
	"os"
	"os/exec"
	"testing"

	"github.com/idemgen/idemgen/examples/internal/e2e"
)

// The commands of README.md print what it says.
func TestSend(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	url := b.start(t, "").URL
	program := e2e.Build(t, "github.com/idemgen/idemgen/examples/webhooks/send")
	for _, want := range []string{"204 No Content (replayed: false)\n", "204 No Content (replayed: true)\n"} {
		cmd := exec.CommandContext(t.Context(), program, "-url", url+"/hooks/payment", "msg_1", event)
		cmd.Env = append(os.Environ(), "WEBHOOK_SECRET="+secret)
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != want {
			t.Errorf("%q, %v, want %q", out, err, want)
		}
	}
	b.check(t, 1999, 1)
}

// A shop without a secret does not start: everybody could sign for it.
func TestNoSecret(t *testing.T) {
	t.Parallel()
	if err := run("127.0.0.1:0", "unused.db", ""); err == nil {
		t.Error("the shop has served")
	}
}
