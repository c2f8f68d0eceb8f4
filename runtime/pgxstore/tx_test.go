package pgxstore_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// misuse is what work does to its transaction before it answers.
type misuse func(ctx context.Context, tx pgx.Tx) error

// answering makes one effect, does m and answers, unless m returns an error.
func answering(key string, m misuse) idempotency.Work[pgx.Tx] {
	return func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
		resp, err := pay(key)(ctx, tx)
		if err != nil {
			return resp, err
		}
		return resp, m(ctx, tx)
	}
}

// Work that answers although its transaction cannot carry the answer gets an
// error that says so; nothing is stored and the key is free.
//
// Covers CRA-07, CRA-13, CTX-13.
func TestMisusedTransactionIsNotStored(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDatabase(t))
	s := newStore(t, pool)
	for name, c := range map[string]struct {
		do   misuse
		want string
	}{
		"FailedStatement": {func(ctx context.Context, tx pgx.Tx) error {
			_, _ = tx.Exec(ctx, "select 1/0")
			return nil
		}, "division by zero"},
		"FailedRow": {func(ctx context.Context, tx pgx.Tx) error {
			_ = tx.QueryRow(ctx, "select 1/0").Scan(new(int))
			return nil
		}, "division by zero"},
		"FailedRows": {func(ctx context.Context, tx pgx.Tx) error {
			rows, _ := tx.Query(ctx, "select 1/(3-i) from generate_series(1,5) i")
			for rows.Next() {
			}
			return nil
		}, "division by zero"},
		"FailedBatch": {func(ctx context.Context, tx pgx.Tx) error {
			b := &pgx.Batch{}
			b.Queue("select 1/0")
			_ = tx.SendBatch(ctx, b).Close()
			return nil
		}, "division by zero"},
		"FailedBesideTheTransaction": {func(ctx context.Context, tx pgx.Tx) error {
			_, _ = tx.Conn().Exec(ctx, "select 1/0")
			return nil
		}, "nothing is kept; return the error"},
		"BatchLeftOpen": {func(ctx context.Context, tx pgx.Tx) error {
			b := &pgx.Batch{}
			b.Queue("select 1")
			tx.SendBatch(ctx, b)
			return nil
		}, "in use"},
		"CommitBesideTheTransaction": {func(ctx context.Context, tx pgx.Tx) error {
			inner, err := tx.Conn().Begin(ctx)
			if err != nil {
				return err
			}
			return inner.Rollback(ctx)
		}, "ended the transaction"},
		"Rollback": {func(ctx context.Context, tx pgx.Tx) error {
			if tx.Rollback(ctx) == nil {
				t.Error("Rollback is not refused")
			}
			return nil
		}, "called Rollback"},
		"RollbackAsText": {func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "rollback")
			return err
		}, "ended the transaction"},
		"RollbackBeginRollbackAsText": {func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "savepoint s; rollback; begin; rollback")
			return err
		}, "ended the transaction"},
		"RollbackAndBeginAsText": {func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "rollback; begin")
			return err
		}, "ended the transaction"},
		"RollbackAndChain": {func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "rollback and chain")
			return err
		}, "ended the transaction"},
		"RowsLeftOpen": {func(ctx context.Context, tx pgx.Tx) error {
			rows, err := tx.Query(ctx, "select generate_series(1,10)")
			rows.Next()
			return err
		}, "in use"},
		"StatementBesideRows": {func(ctx context.Context, tx pgx.Tx) error {
			rows, err := tx.Query(ctx, "select generate_series(1,10)")
			if err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, "select 1"); err == nil {
				t.Error("a statement was let in beside open rows")
			}
			rows.Close()
			return rows.Err()
		}, "in use"},
		"StatementInsideCallback": {func(ctx context.Context, tx pgx.Tx) error {
			b := &pgx.Batch{}
			b.Queue("select 1").QueryRow(func(row pgx.Row) error {
				_, _ = tx.Exec(ctx, "select 1")
				return row.Scan(new(int))
			})
			return tx.SendBatch(ctx, b).Close()
		}, "in use"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := s.Execute(t.Context(), request(name, "a"), answering(name, c.do))
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "%!") {
				t.Errorf("%v, want an error about %q", err, c.want)
			}
			// Something may have been kept only where the transaction was ended.
			var refusal *idempotency.Error
			ended := errors.As(err, &refusal) && refusal.Code == idempotency.CodeTransactionEnded
			if ended != (c.want == "ended the transaction") || !ended && refusal != nil {
				t.Errorf("refusal %v", refusal)
			}
			if n := effects(t, pool, name); n != 0 {
				t.Errorf("%d effects", n)
			}
			// A busy connection is closed, which the server has to notice.
			if res := settled(t, s, request(name, "a"), pay(name)); res.Replayed {
				t.Errorf("retry: %+v", res)
			}
		})
	}
}

// What work commits by itself is outside the guarantee; the answer is refused
// all the same.
//
// Covers CRA-13.
func TestCommitAsTextIsDetected(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDatabase(t))
	s := newStore(t, pool)
	for name, sql := range map[string]string{
		"Commit":         "commit",
		"CommitAndBegin": "commit; begin",
		"CommitAndChain": "commit and chain",
	} {
		_, err := s.Execute(t.Context(), request(name, "a"), answering(name, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, sql)
			return err
		}))
		if err == nil || !strings.Contains(err.Error(), "ended the transaction") {
			t.Errorf("%s: %v", sql, err)
		}
		if _, err := s.Lookup(t.Context(), request(name, "a").Identity); !errors.Is(err, idempotency.ErrNotFound) {
			t.Errorf("%s: lookup: %v", sql, err)
		}
	}
}

// Commit is refused, and work that goes on is committed with its answer.
func TestCommitIsRefused(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDatabase(t))
	s := newStore(t, pool)
	_, err := s.Execute(t.Context(), request("k", "a"), answering("k", func(ctx context.Context, tx pgx.Tx) error {
		if tx.Commit(ctx) == nil {
			t.Error("Commit is not refused")
		}
		_, err := pay("k")(ctx, tx)
		return err
	}))
	if err != nil {
		t.Fatal(err)
	}
	if n := effects(t, pool, "k"); n != 2 {
		t.Errorf("%d effects, want both", n)
	}
}

// Savepoints undo a part of work, failures included, and nest.
func TestSavepoints(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDatabase(t))
	s := newStore(t, pool)
	_, err := s.Execute(t.Context(), request("k", "a"), answering("k", func(ctx context.Context, tx pgx.Tx) error {
		undone := errors.New("undone")
		err := pgx.BeginFunc(ctx, tx, func(sp pgx.Tx) error {
			if _, err := pay("undone")(ctx, sp); err != nil {
				return err
			}
			_, err := sp.Exec(ctx, "select 1/0")
			if err == nil {
				return errors.New("no error")
			}
			return undone
		})
		if !errors.Is(err, undone) {
			return err
		}
		return pgx.BeginFunc(ctx, tx, func(sp pgx.Tx) error {
			err := pgx.BeginFunc(ctx, sp, func(inner pgx.Tx) error {
				_, err := pay("inner")(ctx, inner)
				return err
			})
			if err != nil {
				return err
			}
			if err := sp.Commit(ctx); err != nil {
				return err
			}
			if _, err := sp.Exec(ctx, "select 1"); !errors.Is(err, pgx.ErrTxClosed) {
				t.Errorf("statement on a released savepoint: %v", err)
			}
			return nil
		})
	}))
	if !errors.Is(err, pgx.ErrTxClosed) { // BeginFunc commits once more
		t.Fatalf("savepoint committed twice: %v", err)
	}
	_, err = s.Execute(t.Context(), request("k", "a"), answering("k", func(ctx context.Context, tx pgx.Tx) error {
		sp, err := tx.Begin(ctx)
		if err != nil {
			return err
		}
		inner, err := sp.Begin(ctx)
		if err != nil {
			return err
		}
		if _, err := pay("inner")(ctx, inner); err != nil {
			return err
		}
		if err := inner.Commit(ctx); err != nil {
			return err
		}
		if err := sp.Commit(ctx); err != nil {
			return err
		}
		sp, err = tx.Begin(ctx)
		if err != nil {
			return err
		}
		_, _ = sp.Exec(ctx, "select 1/0")
		return sp.Rollback(ctx)
	}))
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]int{"k": 1, "inner": 1, "undone": 0} {
		if n := effects(t, pool, key); n != want {
			t.Errorf("%d effects %q, want %d", n, key, want)
		}
	}
}

// Every way to send a statement works inside work.
func TestTransactionOffersWhatPgxDoes(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDatabase(t))
	s := newStore(t, pool)
	_, err := s.Execute(t.Context(), request("k", "a"), answering("k", func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Prepare(ctx, "p", "insert into effects (key) values ($1)"); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "p", "k"); err != nil {
			return err
		}
		if _, err := tx.CopyFrom(ctx, pgx.Identifier{"effects"}, []string{"key"}, pgx.CopyFromRows([][]any{{"k"}})); err != nil {
			return err
		}
		b := &pgx.Batch{}
		b.Queue("insert into effects (key) values ('k')")
		b.Queue("select count(*) from effects where key = 'k'")
		b.Queue("select key from effects where key = 'k'")
		br := tx.SendBatch(ctx, b)
		if _, err := br.Exec(); err != nil {
			return err
		}
		var n int
		if err := br.QueryRow().Scan(&n); err != nil || n != 4 {
			t.Errorf("batch: %d, %v", n, err)
		}
		rows, err := br.Query()
		if err != nil {
			return err
		}
		if keys, err := pgx.CollectRows(rows, pgx.RowTo[string]); err != nil || len(keys) != 4 {
			t.Errorf("batch: %q, %v", keys, err)
		}
		if err := br.Close(); err != nil {
			return err
		}
		rows, err = tx.Query(ctx, "select key, 1 as n from effects where key = 'k'")
		if err != nil {
			return err
		}
		type effect struct {
			Key string
			N   int
		}
		got, err := pgx.CollectRows(rows, pgx.RowToStructByName[effect])
		if err != nil || len(got) != 4 || got[0] != (effect{"k", 1}) {
			t.Errorf("rows: %+v, %v", got, err)
		}
		if tag := rows.CommandTag(); tag.RowsAffected() != 4 {
			t.Errorf("tag %s", tag)
		}
		objects := tx.LargeObjects()
		oid, err := objects.Create(ctx, 0)
		if err != nil {
			return err
		}
		object, err := objects.Open(ctx, oid, pgx.LargeObjectModeWrite)
		if err != nil {
			return err
		}
		_, err = object.Write([]byte("large"))
		return err
	}))
	if err != nil {
		t.Fatal(err)
	}
	if n := effects(t, pool, "k"); n != 4 {
		t.Errorf("%d effects, want 4", n)
	}
}

// A goroutine that outlives work gets a closed transaction. If it is inside a
// call at that moment, nothing is kept.
//
// Covers CTX-13.
func TestLateUse(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDatabase(t))
	s := newStore(t, pool)

	var late pgx.Tx
	var rows pgx.Rows
	if _, err := s.Execute(t.Context(), request("late", "a"), answering("late", func(ctx context.Context, tx pgx.Tx) (err error) {
		late = tx
		rows, err = tx.Query(ctx, "select 1") //nolint:sqlclosecheck // it is, below
		if err != nil {
			return err
		}
		rows.Close()
		return rows.Err()
	})); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	_, exec := late.Exec(ctx, "select 1")
	_, query := late.Query(ctx, "select 1") //nolint:sqlclosecheck // there are none
	_, begin := late.Begin(ctx)
	_, copyFrom := late.CopyFrom(ctx, pgx.Identifier{"effects"}, []string{"key"}, pgx.CopyFromRows(nil))
	_, prepare := late.Prepare(ctx, "q", "select 1")
	_, values := rows.Values()
	for name, err := range map[string]error{
		"Exec": exec, "Query": query, "Begin": begin, "CopyFrom": copyFrom, "Prepare": prepare,
		"QueryRow":  late.QueryRow(ctx, "select 1").Scan(new(int)),
		"SendBatch": late.SendBatch(ctx, &pgx.Batch{}).Close(),
		"Rollback":  late.Rollback(ctx),
		"Values":    values,
		"Err":       rows.Err(),
		"Scan":      rows.Scan(new(int)),
	} {
		if !errors.Is(err, pgx.ErrTxClosed) {
			t.Errorf("%s after the return of work: %v", name, err)
		}
	}
	if rows.Next() || rows.RawValues() != nil {
		t.Error("rows can be read after the return of work")
	}

	var goroutine sync.WaitGroup
	_, err := s.Execute(t.Context(), request("inside", "a"), answering("inside", func(ctx context.Context, tx pgx.Tx) error {
		calling := make(chan struct{})
		goroutine.Go(func() {
			_, err := tx.CopyFrom(ctx, pgx.Identifier{"effects"}, []string{"key"}, pgx.CopyFromFunc(func() ([]any, error) {
				close(calling)
				<-t.Context().Done() // ends with the test
				return nil, nil
			}))
			if err == nil {
				t.Error("a call went on after the return of work")
			}
		})
		<-calling
		return nil
	}))
	if err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a call in a goroutine at the end: %v", err)
	}
	if n := effects(t, pool, "inside"); n != 0 {
		t.Errorf("%d effects", n)
	}
	settled(t, s, request("inside", "a"), pay("inside"))
	t.Cleanup(goroutine.Wait)
}

// Goroutines that use the transaction while work returns never meet a commit
// with their writes missing, and never a race.
//
// Covers CTX-13.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDatabase(t))
	s := newStore(t, pool)
	var goroutines sync.WaitGroup
	for range 20 {
		_, err := s.Execute(t.Context(), request("k", "a"), func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
			for range 4 {
				goroutines.Go(func() {
					for {
						if _, err := pay("k")(ctx, tx); errors.Is(err, pgx.ErrTxClosed) {
							return
						} else if err != nil && ctx.Err() != nil {
							return
						}
					}
				})
			}
			_, _ = pay("k")(ctx, tx)
			return created("k"), nil
		})
		if err == nil {
			continue // each goroutine came at a moment of its own, or too late
		}
		if n := effects(t, pool, "k"); n != 0 {
			t.Fatalf("%v, and %d effects", err, n)
		}
	}
	goroutines.Wait()
}
