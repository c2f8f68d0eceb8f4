package pgxstore_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/pgxstore"
)

// In the process that is to be killed, victimDSN holds what it connects to, and
// victimMode what it does there.
const (
	victimDSN  = "PGXSTORE_TEST_VICTIM_DSN"
	victimMode = "PGXSTORE_TEST_VICTIM_MODE"
)

func TestMain(m *testing.M) {
	if dsn := os.Getenv(victimDSN); dsn != "" {
		fmt.Fprintln(os.Stderr, "the process to be killed has ended by itself:", victim(dsn, os.Getenv(victimMode)))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// victim executes one request on a server that stops answering on the way.
func victim(dsn, mode string) error {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return err
	}
	s, err := pgxstore.New(ctx, pool)
	if err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, serving); err != nil {
		return err
	}
	if mode == "lease" {
		return refund(ctx, s, pool)
	}
	_, err = s.Execute(ctx, request("k", "a"), func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
		resp, err := pay("k")(ctx, tx)
		if err != nil {
			return resp, err
		}
		_, err = tx.Exec(ctx, "select 'in the handler'")
		return resp, err
	})
	return err
}

// serving is what a victim sends once its store is open.
const serving = "select 'serving'"

// onceServing gives f to the next statement that begins with text after a
// victim's store is open.
func (p *proxy) onceServing(text string, f fate) <-chan struct{} {
	struck := make(chan struct{})
	p.before(serving, func() {
		hit := p.on(text, f)
		go func() {
			<-hit
			close(struck)
		}()
	})
	return struck
}

// completion begins the pipeline that ends with COMMIT.
const completion = `insert into "public"."idempotency_records"`

// A process that is killed at any point leaves nothing or all, and its key is
// free as soon as the server sees the connection end.
//
// Covers CRA-01, CRA-02, CRA-03, CRA-04.
func TestKilledProcess(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, at string
		fate     fate
		stored   bool
	}{
		{"BeforeTheClaim", "begin isolation", blackhole, false},
		{"WithTheClaim", "begin isolation", holdAnswer, false},
		{"InTheHandler", "select 'in the handler'", holdAnswer, false},
		{"BeforeCommit", completion, blackhole, false},
		{"AfterCommit", completion, holdAnswer, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dsn := newDatabase(t)
			p := newProxy(t, dsn)
			there := p.onceServing(c.at, c.fate)
			killVictim(t, p, "transaction", there)

			pool := newPool(t, dsn)
			res := settled(t, newStore(t, pool), request("k", "a"), pay("k"))
			if res.Replayed != c.stored || string(res.Body) != `{"id":"k"}` {
				t.Errorf("retry: %+v", res)
			}
			if n := effects(t, pool, "k"); n != 1 {
				t.Errorf("%d effects", n)
			}
		})
	}
}

// killVictim starts a process that connects through p, and kills it when there
// is closed.
func killVictim(t *testing.T, p *proxy, mode string, there <-chan struct{}) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimDSN+"="+p.dsn, victimMode+"="+mode)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-there
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
}
