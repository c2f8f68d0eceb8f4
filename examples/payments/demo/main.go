// Demo sends one payment 50 times from 16 clients, kills the server with
// SIGKILL while it is at work, restarts it, lets the clients retry, and then
// counts. It exits non-zero unless exactly one payment was made for the key
// and the balances add up. Run it with: make demo
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	_ "modernc.org/sqlite"
)

const (
	clients  = 16
	requests = 50
	amount   = 250
	key      = "3f1c9f0e-demo-payment"
)

func main() {
	server := flag.String("server", "./examples/payments", "package of the server")
	flag.Parse()
	if err := run(*server); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(pkg string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "idemgen-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s := &server{bin: filepath.Join(dir, "payments"), db: filepath.Join(dir, "payments.db")}

	fmt.Println("Building the server ...")
	build := exec.CommandContext(ctx, "go", "build", "-o", s.bin, pkg)
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return err
	}
	if s.addr, err = freeAddress(); err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	defer s.kill()
	before, err := balances(ctx, s.db)
	if err != nil {
		return err
	}

	fmt.Printf("Sending one payment %d times from %d clients ...\n", requests, clients)
	c := &counts{crash: make(chan struct{})}
	var wg sync.WaitGroup
	todo := make(chan struct{}, requests)
	for range requests {
		todo <- struct{}{}
	}
	close(todo)
	for range clients {
		wg.Go(func() {
			for range todo {
				c.pay(ctx, "http://"+s.addr)
			}
		})
	}
	// The first duplicate that is told "in flight" proves that a payment is
	// being made at this moment.
	select {
	case <-c.crash:
	case <-ctx.Done():
		return ctx.Err()
	}
	fmt.Println("Killing the server in the middle of the payment (SIGKILL) and starting it again ...")
	s.kill()
	if err := s.start(ctx); err != nil {
		return err
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}

	after, err := balances(ctx, s.db)
	if err != nil {
		return err
	}
	c.print(before, after)
	return c.check(before, after)
}

// server is the example server as a process of its own.
type server struct {
	bin, db, addr string
	cmd           *exec.Cmd
}

// start starts the process and returns when it answers.
func (s *server) start(ctx context.Context) error {
	s.cmd = exec.Command(s.bin, "-addr", s.addr, "-db", s.db, "-work", "500ms")
	if err := s.cmd.Start(); err != nil {
		return err
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		resp, err := http.Get("http://" + s.addr + "/accounts/alice")
		if err == nil {
			resp.Body.Close()
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the server does not answer: %w", err)
		}
	}
}

// kill ends the process with SIGKILL, if it has not ended yet.
func (s *server) kill() {
	if err := s.cmd.Process.Kill(); err == nil {
		_, _ = s.cmd.Process.Wait() // it was killed: its state tells nothing
	}
}

// counts is what the clients saw.
type counts struct {
	mu        sync.Mutex
	once      sync.Once
	crash     chan struct{} // closed when a payment is known to be in flight
	sent      int
	executed  int
	replayed  int
	inFlight  int
	broken    int
	other     []string
	locations map[string]int
}

// pay sends the payment until it is answered, always with the same key.
func (c *counts) pay(ctx context.Context, base string) {
	for ctx.Err() == nil {
		status, location, replayed, err := post(ctx, base)
		c.mu.Lock()
		c.sent++
		pause := time.Duration(0)
		switch {
		case err != nil:
			c.broken++
			pause = 50 * time.Millisecond
		case status == http.StatusConflict:
			c.inFlight++
			c.once.Do(func() { close(c.crash) })
			pause = 100 * time.Millisecond
		case status == http.StatusCreated:
			if c.locations == nil {
				c.locations = map[string]int{}
			}
			c.locations[location]++
			if replayed {
				c.replayed++
			} else {
				c.executed++
			}
		default:
			c.other = append(c.other, http.StatusText(status))
		}
		c.mu.Unlock()
		if pause == 0 {
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

func post(ctx context.Context, base string) (status int, location string, replayed bool, err error) {
	body := strings.NewReader(fmt.Sprintf(`{"to": "bob", "amount": %d}`, amount))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/accounts/alice/payments", body)
	if err != nil {
		return 0, "", false, err
	}
	req.GetBody = nil // net/http must not retry by itself: the table counts every attempt
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Api-Key", "demo")
	req.Header.Set("Idempotency-Key", key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", false, err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return 0, "", false, err
	}
	return resp.StatusCode, resp.Header.Get("Location"), resp.Header.Get("Idempotent-Replayed") == "true", nil
}

// state is what the database holds.
type state struct {
	alice, bob int64
	payments   int
}

func balances(ctx context.Context, file string) (s state, err error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(5000)")
	if err != nil {
		return s, err
	}
	defer db.Close()
	err = db.QueryRowContext(ctx, `SELECT
		(SELECT balance FROM accounts WHERE id = 'alice'),
		(SELECT balance FROM accounts WHERE id = 'bob'),
		(SELECT count(*) FROM payments)`).Scan(&s.alice, &s.bob, &s.payments)
	return s, err
}

func (c *counts) print(before, after state) {
	fmt.Println()
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "requests sent\t%d\t%d payments to make, the rest are retries\n", c.sent, requests)
	fmt.Fprintf(w, "executed\t%d\tran the handler and got its answer\n", c.executed)
	fmt.Fprintf(w, "replayed\t%d\tgot the stored answer\n", c.replayed)
	fmt.Fprintf(w, "in flight\t%d\twere told to come back (409)\n", c.inFlight)
	fmt.Fprintf(w, "broken\t%d\tlost their connection in the crash\n", c.broken)
	fmt.Fprintf(w, "payments in the database\t%d\t\n", after.payments)
	fmt.Fprintf(w, "alice\t%d -> %d\t\n", before.alice, after.alice)
	fmt.Fprintf(w, "bob\t%d -> %d\t\n", before.bob, after.bob)
	fmt.Fprintln(w)
	if err := w.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
	}
}

// check says what is wrong, or nil.
func (c *counts) check(before, after state) error {
	switch {
	case len(c.other) > 0:
		return fmt.Errorf("unexpected answers: %v", c.other)
	case c.executed+c.replayed != requests:
		return fmt.Errorf("%d of %d requests were answered", c.executed+c.replayed, requests)
	case len(c.locations) != 1:
		return fmt.Errorf("the answers name %d payments, not 1", len(c.locations))
	case after.payments != 1:
		return fmt.Errorf("the database holds %d payments, not 1", after.payments)
	case after.alice != before.alice-amount || after.bob != before.bob+amount:
		return errors.New("the balances do not add up")
	case c.broken == 0:
		return errors.New("the crash broke no request; it did not happen in the middle of one")
	}
	fmt.Println("One payment was made, whatever was sent.")
	return nil
}

// freeAddress returns an address that nothing listens on.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
