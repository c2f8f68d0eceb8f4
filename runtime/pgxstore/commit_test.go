package pgxstore_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/pgxstore"
)

// A connection lost in COMMIT is answered truthfully, and never leads to a
// second effect.
//
// Covers CRA-04, CRA-09.
func TestLostCommit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		fate    fate
		want    error
		effects int
		opts    []pgxstore.Option
	}{
		{name: "AnswerLost", fate: loseAnswer, want: nil, effects: 1},
		{name: "AnswerNeverComes", fate: holdAnswer, want: nil, effects: 1,
			opts: []pgxstore.Option{pgxstore.WithFinishTimeout(100 * time.Millisecond)}},
		{name: "NeverSent", fate: cut, want: idempotency.ErrUnavailable, effects: 0},
		{name: "Swallowed", fate: blackhole, want: idempotency.ErrUnavailable, effects: 0,
			// The client gives up, its socket closes, and the proxy tells the server.
			opts: []pgxstore.Option{pgxstore.WithFinishTimeout(100 * time.Millisecond)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dsn := newDatabase(t)
			p := newProxy(t, dsn)
			s := newStore(t, newPool(t, p.dsn), c.opts...)
			p.on("commit", c.fate)

			res, err := s.Execute(t.Context(), request("k", "a"), pay("k"))
			if !errors.Is(err, c.want) {
				t.Fatalf("lost COMMIT: %v, want %v", err, c.want)
			}
			if err == nil && (res.Replayed || string(res.Body) != `{"id":"k"}`) {
				t.Errorf("lost COMMIT: %+v, want this attempt's own answer", res)
			}
			pool := newPool(t, dsn)
			if n := effects(t, pool, "k"); n != c.effects {
				t.Errorf("%d effects, want %d", n, c.effects)
			}
			res, err = s.Execute(t.Context(), request("k", "a"), pay("k"))
			if err != nil || string(res.Body) != `{"id":"k"}` || res.Replayed != (c.effects == 1) {
				t.Errorf("retry: %+v, %v", res, err)
			}
			if n := effects(t, pool, "k"); n != 1 {
				t.Errorf("%d effects after the retry", n)
			}
		})
	}
}

// As long as nobody can say what became of the COMMIT, the outcome is unknown;
// the retry that comes when it is settled gets the truth.
//
// Covers CRA-09.
func TestLostCommitStaysUnknown(t *testing.T) {
	t.Parallel()
	dsn := newDatabase(t)
	p := newProxy(t, dsn)
	pool := newPool(t, p.dsn)
	s := newStore(t, pool, pgxstore.WithFinishTimeout(100*time.Millisecond), pgxstore.WithResolveTimeout(300*time.Millisecond))

	// A trigger that waits for a lock keeps the COMMIT from ending. Its
	// transaction holds the claim for as long.
	admin := newPool(t, dsn)
	_, err := admin.Exec(t.Context(), `create function wait() returns trigger language plpgsql as
		$$ begin perform pg_advisory_xact_lock(1); return null; end $$;
		create constraint trigger wait after insert on effects deferrable initially deferred for each row execute function wait()`)
	if err != nil {
		t.Fatal(err)
	}
	gate, err := admin.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gate.Exec(t.Context(), "select pg_advisory_xact_lock(1)"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Execute(t.Context(), request("k", "a"), pay("k")); !errors.Is(err, idempotency.ErrOutcomeUnknown) {
		t.Fatalf("COMMIT that does not end: %v", err)
	}
	if _, err := s.Execute(t.Context(), request("k", "a"), pay("k")); !errors.Is(err, idempotency.ErrInFlight) {
		t.Fatalf("retry meanwhile: %v", err)
	}
	if err := gate.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	res := settled(t, s, request("k", "a"), pay("k"))
	if string(res.Body) != `{"id":"k"}` {
		t.Errorf("retry: %+v", res)
	}
	if n := effects(t, admin, "k"); n != 1 {
		t.Errorf("%d effects", n)
	}
}

// A connection that ends at any statement, before or after the server has
// carried it out, leaves nothing or all. The retry at once is in flight for no
// longer than the server needs to notice, then runs or replays: no attempt
// takes what a lost one has left for a rival's. The pool gets back what it lent.
//
// Covers CRA-08, CRA-09.
func TestConnectionEndsAtEveryStatement(t *testing.T) {
	t.Parallel()
	dsn := newDatabase(t)
	admin := newPool(t, dsn)
	const claim, handler, end = "claim", "handler", "end"
	for _, at := range []struct{ phase, statement string }{
		{claim, "begin isolation"},
		{claim, "select case when exists"},
		{claim, "select scope"},
		{handler, "insert into effects"},
		{end, completion},
		{end, "commit"},
	} {
		for name, fault := range map[string]func(t *testing.T, p *proxy) <-chan struct{}{
			"Cut":        func(_ *testing.T, p *proxy) <-chan struct{} { return p.on(at.statement, cut) },
			"AnswerLost": func(_ *testing.T, p *proxy) <-chan struct{} { return p.on(at.statement, loseAnswer) },
			"Terminated": func(t *testing.T, p *proxy) <-chan struct{} {
				struck := make(chan struct{})
				p.before(at.statement, func() {
					defer close(struck)
					terminate(t, admin, p)
				})
				return struck
			},
		} {
			key := at.statement + name
			t.Run(key, func(t *testing.T) {
				t.Parallel()
				// The server cuts longer names, and those of two tests must differ.
				p := newProxy(t, fmt.Sprintf("%s&application_name=ends_%x", dsn, sha256.Sum224([]byte(t.Name()))))
				pool := newPool(t, p.dsn, func(cfg *pgxpool.Config) { cfg.MaxConns = 2 })
				s := newStore(t, pool)
				execute(t, s, key+"before") // the connection is known and has statements
				struck := fault(t, p)

				_, err := s.Execute(t.Context(), request(key, "a"), pay(key))
				<-struck
				switch {
				case at.phase == claim && !errors.Is(err, idempotency.ErrUnavailable):
					t.Errorf("%v, want unavailable", err)
				case at.phase == handler && err == nil:
					t.Error("no error")
				case at.phase == end && err != nil && !errors.Is(err, idempotency.ErrUnavailable):
					t.Errorf("%v, want none or unavailable", err)
				}
				stored := err == nil
				if n := effects(t, admin, key); (n == 1) != stored || n > 1 {
					t.Errorf("%v, and %d effects", err, n)
				}
				if res := settled(t, s, request(key, "a"), pay(key)); res.Replayed != stored || string(res.Body) != string(created(key).Body) {
					t.Errorf("retry after %v: %+v", err, res)
				}
				if n := effects(t, admin, key); n != 1 {
					t.Errorf("%d effects", n)
				}
				waitIdle(t, pool)
			})
		}
	}
}

// terminate ends the server's processes that serve p, and waits for their end.
func terminate(t *testing.T, admin *pgxpool.Pool, p *proxy) {
	cfg, err := pgx.ParseConfig(p.dsn)
	if err == nil {
		_, err = admin.Exec(t.Context(), "select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = $1", pgx.QueryExecModeExec,
			cfg.RuntimeParams["application_name"])
	}
	if err != nil {
		t.Error(err)
	}
}

// settled executes req until it is no longer in flight.
func settled(t *testing.T, s *pgxstore.Store, req idempotency.Request, work idempotency.Work[pgx.Tx]) idempotency.Result {
	t.Helper()
	for {
		res, err := s.Execute(t.Context(), req, work)
		if err == nil {
			return res
		}
		if !errors.Is(err, idempotency.ErrInFlight) {
			t.Fatal(err)
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
}

// The answer to a lost COMMIT is what is stored, also where it is another
// attempt's: here one that came between the rollback and the look.
func TestLostCommitThenAnotherAttempt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, body string
		want       error
	}{
		{"SameRequest", "a", nil},
		{"AnotherRequest", "b", idempotency.ErrMismatch},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dsn := newDatabase(t)
			p := newProxy(t, dsn)
			s := newStore(t, newPool(t, p.dsn))
			other := newStore(t, newPool(t, dsn))
			p.on("commit", cut)
			res, err := s.Execute(t.Context(), request("k", "a"), func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
				p.before("begin", func() { // the look at what became of the COMMIT
					settled(t, other, request("k", c.body), func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
						_, err := pay("k")(ctx, tx)
						return created("rival"), err
					})
				})
				return pay("k")(ctx, tx)
			})
			if !errors.Is(err, c.want) {
				t.Errorf("lost COMMIT: %v, want %v", err, c.want)
			}
			if c.want == nil && (!res.Replayed || string(res.Body) != `{"id":"rival"}`) {
				t.Errorf("lost COMMIT: %+v, want the rival's answer", res)
			}
			if n := effects(t, newPool(t, dsn), "k"); n != 1 {
				t.Errorf("%d effects", n)
			}
		})
	}
}
