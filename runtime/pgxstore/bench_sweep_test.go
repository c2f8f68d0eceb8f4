package pgxstore_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/idemgen/idemgen/runtime/internal/sweepbench"
	"github.com/idemgen/idemgen/runtime/pgxstore"
)

// BenchmarkSweep measures first requests beside a sweep of a million records, from
// an ordinary table and by dropping a partition. It takes minutes:
//
//	make bench-sweep
func BenchmarkSweep(b *testing.B) {
	for name, partitioned := range map[string]bool{"Table": false, "Partition": true} {
		b.Run(name, func(b *testing.B) {
			dsn := newBusiness(b)
			pool := newPool(b, dsn)
			if partitioned {
				if _, err := pool.Exec(b.Context(), "drop table idempotency_records"); err != nil {
					b.Fatal(err)
				}
				if err := pgxstore.Migrate(b.Context(), pool, daily); err != nil {
					b.Fatal(err)
				}
				makePartition(b, pool, 1, "idempotency_records")
			}
			// Keys of yesterday, in the order of their times.
			_, err := pool.Exec(b.Context(), fmt.Sprintf(`insert into idempotency_records
				select (lpad(to_hex(%d + i * 80), 12, '0') || substr(md5(i::text), 1, 20))::uuid, now() - interval '2 days', now() - interval '1 s' - i * interval '1 ms',
					201, 'tenant', 'createPayment', md5(i::text), sha256(i::text::bytea), $1, $2
				from generate_series(0, %d) as i`, today().UnixMilli()-86_400_000, sweepbench.Records()-1),
				[]byte("Content-Type: application/json\nLocation: /payments/0190f2b5-7b1e-7c3a-8f00\n"), answer.Body)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := pool.Exec(b.Context(), "vacuum analyze idempotency_records"); err != nil {
				b.Fatal(err)
			}
			if _, err := pool.Exec(b.Context(), "checkpoint"); err != nil {
				b.Fatal(err)
			}
			x := newBench(b, dsn, 6)
			sweepbench.Run(b, x.first, func(ctx context.Context) (int64, error) { return x.store.Sweep(ctx) })
		})
	}
}

// BenchmarkPartitioned compares first requests and replays on a partitioned table
// with those on an ordinary one.
func BenchmarkPartitioned(b *testing.B) {
	dsn := newBusiness(b)
	x, y := newBench(b, dsn, 8), newBench(b, dsn, 8)
	table := pgxstore.WithTable("partitioned")
	if err := pgxstore.Migrate(b.Context(), y.pool, daily, table); err != nil {
		b.Fatal(err)
	}
	y.store = newStore(b, y.pool, table)
	var turn atomic.Int64
	replay := func(x *bench) side {
		// So many that the store recalls few.
		const records = 20_000
		key := func(n int64) string { return keyOf(today(), fmt.Sprint(n%records)) }
		for n := range int64(records) {
			if _, err := x.store.Execute(b.Context(), request(key(n), "a"), x.pay); err != nil {
				b.Fatal(err)
			}
		}
		return func(ctx context.Context) error {
			_, err := x.store.Execute(ctx, request(key(turn.Add(1)), "a"), x.pay)
			return err
		}
	}
	replayX, replayY := replay(x), replay(y)
	for _, clients := range []int{1, 8} {
		b.Run(fmt.Sprintf("First/clients=%d", clients), func(b *testing.B) { compare(b, clients, "x-table", x.first, y.first) })
		b.Run(fmt.Sprintf("Replay/clients=%d", clients), func(b *testing.B) { compare(b, clients, "x-table", replayX, replayY) })
	}
}
