package pgxstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

func TestExecute(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDatabase(t))
	s := newStore(t, pool)
	for i := range 3 {
		res, err := s.Execute(t.Context(), request("k", "a"), pay("k"))
		if err != nil {
			t.Fatal(err)
		}
		if res.Replayed != (i > 0) || res.Status != 201 || string(res.Body) != `{"id":"k"}` || res.Header.Get("Content-Type") != "application/json" {
			t.Errorf("attempt %d: %+v", i+1, res)
		}
	}
	if n := effects(t, pool, "k"); n != 1 {
		t.Errorf("%d effects", n)
	}
	if _, err := s.Execute(t.Context(), request("k", "b"), pay("k")); !errors.Is(err, idempotency.ErrMismatch) {
		t.Errorf("another body: %v", err)
	}
	boom := errors.New("boom")
	if _, err := s.Execute(t.Context(), request("f", "a"), func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
		pay("f")(ctx, tx)
		return idempotency.Response{}, boom
	}); err != boom { //nolint:errorlint // as it was, not wrapped
		t.Errorf("work's error: %v", err)
	}
	if n := effects(t, pool, "f"); n != 0 {
		t.Errorf("%d effects of failed work", n)
	}
	_, err := s.Execute(t.Context(), request("o", "a"), func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
		if _, err := s.Execute(ctx, request("o", "a"), pay("o")); !errors.Is(err, idempotency.ErrInFlight) {
			t.Errorf("in flight: %v", err)
		}
		return pay("o")(ctx, tx)
	})
	if err != nil {
		t.Error(err)
	}
}
