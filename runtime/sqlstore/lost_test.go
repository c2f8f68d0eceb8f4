package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/sqlstore"
)

// proxied starts a proxy before the server of dsn.
func (s server) proxied(t testing.TB, dsn string) (p *proxy, through string) {
	t.Helper()
	through = s.through(t, dsn, func(server string) string {
		p = newProxy(t, server)
		return p.addr
	})
	return p, through
}

// settled repeats a request while it is in flight: until the server has noticed
// that a connection has ended.
func settled(t *testing.T, s *sqlstore.Store, req idempotency.Request, work idempotency.Work[*sql.Tx]) idempotency.Result {
	t.Helper()
	for {
		res, err := s.Execute(t.Context(), req, work)
		if isInFlight(err) {
			time.Sleep(time.Millisecond)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
}

// A connection lost in COMMIT is answered truthfully, and never leads to a
// second effect.
//
// Covers CRA-04, CRA-09.
func TestLostCommit(t *testing.T) {
	t.Parallel()
	soon := sqlstore.WithFinishTimeout(1500 * time.Millisecond)
	for _, srv := range servers() {
		for _, c := range []struct {
			name    string
			fate    fate
			want    []error // any of them; nil is an answer
			effects int
			opts    []sqlstore.Option
		}{
			{"AnswerLost", loseAnswer, []error{nil}, 1, nil},
			{"AnswerNeverComes", holdAnswer, []error{nil}, 1, []sqlstore.Option{soon}},
			{"NeverSent", cut, []error{idempotency.ErrUnavailable}, 0, nil},
			// As long as the server does not notice, the transaction holds the claim.
			{"Swallowed", blackhole, []error{idempotency.ErrUnavailable, idempotency.ErrOutcomeUnknown}, 0, []sqlstore.Option{soon}},
		} {
			t.Run(srv.name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				db, dsn := srv.pool(t)
				p, through := srv.proxied(t, dsn)
				s := srv.store(t, through, 2, c.opts...)
				p.on(srv.commit, c.fate)

				res, err := s.Execute(t.Context(), request("k"), srv.work("k"))
				expected := false
				for _, want := range c.want {
					expected = expected || errors.Is(err, want)
				}
				if !expected {
					t.Fatalf("lost COMMIT: %v, want %v", err, c.want)
				}
				if err == nil && (res.Replayed || string(res.Body) != "k") {
					t.Errorf("lost COMMIT: %+v, want this attempt's own answer", res)
				}
				if n := count(t, db, "k"); n != c.effects {
					t.Errorf("%d effects, want %d", n, c.effects)
				}
				p.stop() // what is left of the lost connection ends
				res = settled(t, srv.store(t, dsn, 0), request("k"), srv.work("k"))
				if string(res.Body) != "k" || res.Replayed != (c.effects == 1) {
					t.Errorf("retry: %+v", res)
				}
				if n := count(t, db, "k"); n != 1 {
					t.Errorf("%d effects after the retry", n)
				}
			})
		}
	}
}

// statements are what a first request sends, in order, as far as a proxy can
// tell it: the record by its operation.
func (s server) statements() []string {
	if s.driver == "mysql" {
		return []string{"GET_LOCK", "START TRANSACTION", "SAVEPOINT idemgen", "in the handler", "RELEASE SAVEPOINT", "createPayment", s.commit, "DO RELEASE_LOCK"}
	}
	return []string{"BEGIN ISOLATION", "in the handler", "createPayment", s.commit}
}

// noting is work that can be recognised on the wire.
func (s server) noting(label string) idempotency.Work[*sql.Tx] {
	return func(ctx context.Context, tx *sql.Tx) (idempotency.Response, error) {
		if _, err := s.work(label)(ctx, tx); err != nil {
			return idempotency.Response{}, err
		}
		_, err := tx.ExecContext(ctx, "SELECT 'in the handler'")
		return created("the stored answer"), err
	}
}

// A connection that ends at any statement, before or after the server has
// carried it out, leaves nothing or all. The retry runs or replays: no claim
// outlives its connection, and no attempt takes what a lost one has left for a
// rival's. The pool of two gets back what it lent.
//
// Covers CRA-08, CRA-09.
func TestConnectionEndsAtEveryStatement(t *testing.T) {
	t.Parallel()
	for _, srv := range servers() {
		db, dsn := srv.pool(t)
		for _, at := range srv.statements() {
			for name, f := range map[string]fate{"Cut": cut, "AnswerLost": loseAnswer} {
				t.Run(srv.name+"/"+at+name, func(t *testing.T) {
					t.Parallel()
					key := fmt.Sprintf("%x", at+name)
					p, through := srv.proxied(t, dsn)
					s := srv.store(t, through, 2)
					struck := p.on(at, f)
					if _, err := s.Execute(t.Context(), request(key), srv.noting(key)); err != nil {
						t.Logf("first attempt: %v", err)
					}
					<-struck
					res := settled(t, s, request(key), srv.noting(key))
					if string(res.Body) != "the stored answer" {
						t.Errorf("retry: %+v", res)
					}
					if n := count(t, db, key); n != 1 {
						t.Errorf("%d effects", n)
					}
					for i := range 4 { // twice the pool
						key := fmt.Sprintf("%s-%d", key, i)
						if _, err := s.Execute(t.Context(), request(key), srv.work(key)); err != nil {
							t.Errorf("another request: %v", err)
						}
					}
				})
			}
		}
	}
}

// A server that does not answer the claim, at whichever statement, makes the
// request unavailable when the claim's time is over. The handler does not run.
//
// Covers CRA-16.
func TestClaimWithoutAnswer(t *testing.T) {
	t.Parallel()
	for _, srv := range servers() {
		for _, at := range srv.statements() {
			if at == "in the handler" || at == "RELEASE SAVEPOINT" {
				break
			}
			t.Run(srv.name+"/"+at, func(t *testing.T) {
				t.Parallel()
				_, dsn := srv.pool(t)
				p, through := srv.proxied(t, dsn)
				s := srv.store(t, through, 1, sqlstore.WithClaimTimeout(200*time.Millisecond), sqlstore.WithFinishTimeout(200*time.Millisecond))
				struck := p.on(at, blackhole)
				if _, err := s.Execute(t.Context(), request("k"), never(t)); !errors.Is(err, idempotency.ErrUnavailable) {
					t.Errorf("%v, want %v", err, idempotency.ErrUnavailable)
				}
				<-struck
				p.stop()
			})
		}
	}
}

// victimServer and victimDSN make the test binary execute one request on a
// server that stops answering on the way.
const (
	victimServer = "SQLSTORE_TEST_VICTIM"
	victimDSN    = "SQLSTORE_TEST_VICTIM_DSN"
	victimLeases = "SQLSTORE_TEST_VICTIM_LEASES" // set if the request is under a lease
)

func victim(name, dsn string, leases bool) error {
	for _, srv := range servers() {
		if srv.name != name {
			continue
		}
		db, err := sql.Open(srv.driver, dsn)
		if err != nil {
			return err
		}
		s, err := sqlstore.New(context.Background(), db, srv.dialect)
		if err != nil {
			return err
		}
		if leases {
			err = refund(context.Background(), s, db)
		} else {
			_, err = s.Execute(context.Background(), request("k"), srv.noting("k"))
		}
		return fmt.Errorf("the process to be killed has ended by itself: %w", err)
	}
	return fmt.Errorf("no server %q", name)
}

// A process that is killed at any point leaves nothing or all, and its key is
// free as soon as the server sees the connection end.
//
// Covers CRA-01, CRA-02, CRA-03, CRA-04.
func TestProcessKilledOnServer(t *testing.T) {
	t.Parallel()
	for _, srv := range servers() {
		for _, c := range []struct {
			name, at string
			fate     fate
			stored   bool
		}{
			{"BeforeTheTransaction", srv.statements()[0], blackhole, false},
			{"InTheHandler", "in the handler", holdAnswer, false},
			{"BeforeCommit", srv.commit, blackhole, false},
			{"AfterCommit", srv.commit, holdAnswer, true},
		} {
			t.Run(srv.name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				db, dsn := srv.pool(t)
				p, through := srv.proxied(t, dsn)
				srv.killVictim(t, through, "", p.on(c.at, c.fate))

				res := settled(t, srv.store(t, dsn, 0), request("k"), srv.noting("k"))
				if res.Replayed != c.stored {
					t.Errorf("retry: %+v", res)
				}
				if n := count(t, db, "k"); n != 1 {
					t.Errorf("%d effects", n)
				}
			})
		}
	}
}

// killVictim starts a process that uses the server of dsn, and kills it when
// there is closed.
func (s server) killVictim(t *testing.T, dsn, leases string, there <-chan struct{}) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimServer+"="+s.name, victimDSN+"="+dsn, victimLeases+"="+leases)
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
