package main

import (
	"os/exec"
	"testing"

	"github.com/idemgen/idemgen/examples/internal/e2e"
)

// The command pay pays once for an order, however often it is run.
func TestPay(t *testing.T) {
	t.Parallel()
	bank := openBank(t)
	server := bank.Start(t, "")
	pay := e2e.Build(t, "github.com/idemgen/idemgen/examples/payments/pay")
	for _, want := range []string{
		"payment 1: 250 from alice to bob (replayed: false)\n",
		"payment 1: 250 from alice to bob (replayed: true)\n",
	} {
		out, err := exec.CommandContext(t.Context(), pay, "-server", server.URL, "order-1001", "alice", "bob", "250").Output()
		if err != nil || string(out) != want {
			t.Errorf("%q, %v, want %q", out, err, want)
		}
	}
	// The same order for another amount is another request, and refused.
	out, err := exec.CommandContext(t.Context(), pay, "-server", server.URL, "order-1001", "alice", "bob", "300").CombinedOutput()
	if err == nil {
		t.Errorf("paid: %s", out)
	}
	if s := bank.State(t); s.Payments != 1 {
		t.Errorf("%+v", s)
	}
	t.Logf("refused with: %s", out)
}
