package pgxstore_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// A plain transaction records nothing and tells what became of it.
func TestTransact(t *testing.T) {
	t.Parallel()
	dsn := newDatabase(t)
	p := newProxy(t, dsn)
	pool := newPool(t, dsn)
	s := newStore(t, newPool(t, p.dsn))
	for range 2 {
		if resp, err := s.Transact(t.Context(), pay("k")); err != nil || resp.Status != 201 {
			t.Errorf("%+v, %v", resp, err)
		}
	}
	if n := effects(t, pool, "k"); n != 2 {
		t.Errorf("%d effects, want one for each call", n)
	}
	for name, c := range map[string]struct {
		before func()
		work   misuse
		want   error
	}{
		"Conflict":   {func() {}, func(ctx context.Context, tx pgx.Tx) error { return lose(ctx, tx, "40001") }, idempotency.ErrUnavailable},
		"LostBegin":  {func() { p.on("begin", cut) }, func(context.Context, pgx.Tx) error { t.Error("work ran"); return nil }, idempotency.ErrUnavailable},
		"LostCommit": {func() { p.on("commit", cut) }, func(context.Context, pgx.Tx) error { return nil }, idempotency.ErrOutcomeUnknown},
	} {
		c.before()
		if _, err := s.Transact(t.Context(), answering(name, c.work)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if n := effects(t, pool, name); n != 0 {
			t.Errorf("%s: %d effects", name, n)
		}
	}
}

// A caller whose request had no key is told over HTTP that nobody can find out
// what became of a lost COMMIT, and is not asked to send the request again.
func TestLostCommitWithoutKey(t *testing.T) {
	t.Parallel()
	dsn := newDatabase(t)
	p := newProxy(t, dsn)
	op := idempotency.Operation{ID: "pay", Method: "POST", Path: "/", Optional: true, Retention: time.Hour}
	edge := idempotency.NewEdge(newStore(t, newPool(t, p.dsn)), idempotency.Unscoped)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = edge.Handle(w, r, &op, nil, func(w http.ResponseWriter, r *http.Request, tx pgx.Tx, _ *idempotency.Call) error {
			_, err := pay("k")(r.Context(), tx)
			return err
		})
	}))
	t.Cleanup(server.Close)
	p.on("commit", loseAnswer)
	resp, err := http.Post(server.URL, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	problem, _ := idempotency.ReadProblem(resp.Header, body)
	if problem.Code != idempotency.CodeOutcomeUnknown || problem.Retryable || resp.Header.Get("Retry-After") != "" ||
		problem.Detail != "the request may or may not have been carried out; without a key a retry may repeat it" {
		t.Errorf("%d %v %s", resp.StatusCode, resp.Header, body)
	}
	if n := effects(t, newPool(t, dsn), "k"); n != 1 {
		t.Errorf("%d effects, want the one that was committed", n)
	}
}

// Prepared statements that got lost, in the handler or between two requests,
// cost time and nothing else.
//
// Covers STO-15.
func TestLostPreparedStatements(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDatabase(t), func(cfg *pgxpool.Config) { cfg.MaxConns = 1 })
	s := newStore(t, pool)
	execute(t, s, "1", "2", "3") // prepares
	runs := 0
	_, err := s.Execute(t.Context(), request("k", "a"), answering("k", func(ctx context.Context, tx pgx.Tx) error {
		runs++
		_, err := tx.Exec(ctx, "deallocate all")
		return err
	}))
	if err != nil || runs != 2 {
		t.Errorf("lost in the handler: %d runs, %v", runs, err)
	}
	pool.Reset()
	execute(t, s, "4", "5", "6")
	if _, err := pool.Exec(t.Context(), "discard all"); err != nil {
		t.Fatal(err)
	}
	execute(t, s, "7", "7")
	for name, do := range map[string]func() error{
		"Transact": func() error { _, err := s.Transact(t.Context(), pay("t")); return err },
		"Lookup":   func() error { _, err := s.Lookup(t.Context(), request("7", "a").Identity); return err },
		"Release": func() error {
			err := s.Release(t.Context(), request("none", "a").Identity)
			if errors.Is(err, idempotency.ErrNotFound) {
				return nil
			}
			return err
		},
		"Sweep": func() error { _, err := s.Sweep(t.Context()); return err },
	} {
		pool.Reset()
		execute(t, s, name, name, name) // the new connection is known
		if err := errors.Join(do(), do()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := pool.Exec(t.Context(), "discard all"); err != nil {
			t.Fatal(err)
		}
		if err := do(); err != nil {
			t.Errorf("%s after DISCARD ALL: %v", name, err)
		}
	}
	for _, key := range []string{"k", "7"} {
		if n := effects(t, pool, key); n != 1 {
			t.Errorf("%d effects %q", n, key)
		}
	}
}
