package sqlstore_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/idemgen/idemgen/runtime/internal/sweepbench"
	"github.com/idemgen/idemgen/runtime/internal/testenv"
)

// BenchmarkSweep measures first requests beside a sweep of a million records, on
// MariaDB and on a SQLite file. It takes minutes:
//
//	make bench-sweep
func BenchmarkSweep(b *testing.B) {
	const records = ` SELECT %s, 'tenant', 'createPayment', i, '', 201, 'Content-Type: application/json
', '%s', 1, 2 + i FROM numbers`
	const insert = "INSERT INTO idempotency_records (id, scope, operation, `key`, fingerprint, status, header, body, created_at, expires_at)"
	body := strings.Repeat("x", 513)
	last := sweepbench.Records() - 1
	b.Run("MariaDB", func(b *testing.B) {
		db := openMySQL(b, testenv.OwnMariaDB(b).DSN, map[string]string{"interpolateParams": "true"}, 0)
		fillMySQL(b, db)
		x := newBusiness(b, mysqlServer(), db)
		fill := fmt.Sprintf(insert+" WITH numbers AS (SELECT seq AS i FROM seq_0_to_%d)"+records, last, "UNHEX(MD5(i))", body)
		if _, err := db.ExecContext(b.Context(), fill); err != nil {
			b.Fatal(err)
		}
		sweepbench.Run(b, x.first, func(ctx context.Context) (int64, error) { return x.store.Sweep(ctx) })
	})
	b.Run("SQLite", func(b *testing.B) {
		db := benchDB(b)
		fill := fmt.Sprintf("WITH RECURSIVE numbers (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM numbers WHERE i < %d) ", last) +
			fmt.Sprintf(insert+records, "unhex(printf('%032x', i))", body)
		if _, err := db.ExecContext(b.Context(), fill); err != nil {
			b.Fatal(err)
		}
		s := newStore(b, db)
		var calls atomic.Int64
		first := func(ctx context.Context) error {
			_, err := s.Execute(ctx, request(fmt.Sprint("first", calls.Add(1))), payment)
			return err
		}
		sweepbench.Run(b, first, func(ctx context.Context) (int64, error) { return s.Sweep(ctx) })
	})
}
