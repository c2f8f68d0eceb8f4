package pgxstore_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// queries remembers the queries of a pool that is used by one goroutine.
type queries []pgx.TraceQueryStartData

func (q *queries) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	*q = append(*q, data)
	return ctx
}

func (*queries) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// No page of a list goes over the whole table: of a large one each takes as long
// as of a small one.
func TestListUsesTheIndex(t *testing.T) {
	t.Parallel()
	dsn := newDatabase(t)
	pool := newPool(t, dsn)
	_, err := pool.Exec(t.Context(), `insert into idempotency_records
		select gen_random_uuid(), now(), now() + interval '1 hour', 201, 's', 'o', i::text, '\x01', '', ''
		from generate_series(1, 20000) i; analyze idempotency_records`)
	if err != nil {
		t.Fatal(err)
	}
	var sent queries
	s := newStore(t, newPool(t, dsn, func(cfg *pgxpool.Config) { cfg.ConnConfig.Tracer = &sent }))
	sent = nil
	entries := 0
	for _, err := range s.List(t.Context(), idempotency.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		entries++
	}
	pages := 0
	for _, q := range sent {
		if !strings.HasPrefix(q.SQL, "select") {
			continue
		}
		pages++
		rows, _ := pool.Query(t.Context(), "explain "+q.SQL, q.Args...)
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(plan, "\n"); !strings.Contains(text, "idempotency_records_pkey") || strings.Contains(text, "Seq Scan") {
			t.Fatalf("%s\n%s", q.SQL, text)
		}
	}
	if entries != 20000 || pages < 40 {
		t.Errorf("%d entries, %d queries", entries, pages)
	}
}
