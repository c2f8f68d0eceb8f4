package sqlstore_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// payment is a handler's usual business: two writes and an answer of 512 bytes.
func payment(ctx context.Context, tx *sql.Tx) (idempotency.Response, error) {
	if _, err := tx.ExecContext(ctx, `INSERT INTO effects (label) VALUES ('payment of 10.00 EUR from account 1 to account 2')`); err != nil {
		return idempotency.Response{}, err
	}
	if _, err := tx.ExecContext(ctx, `UPDATE balance SET amount = amount - 10`); err != nil {
		return idempotency.Response{}, err
	}
	return created(string(make([]byte, 512))), nil
}

func benchDB(b *testing.B) *sql.DB {
	b.Helper()
	db := openDB(b, filepath.Join(b.TempDir(), "test.db"), wal, 1)
	prepare(b, db)
	if _, err := db.Exec(`CREATE TABLE balance (amount INTEGER); INSERT INTO balance VALUES (0)`); err != nil {
		b.Fatal(err)
	}
	return db
}

// BenchmarkFirst compares a first request with its bare transaction.
func BenchmarkFirst(b *testing.B) {
	b.Run("bare", func(b *testing.B) {
		db := benchDB(b)
		for b.Loop() {
			tx, err := db.BeginTx(b.Context(), nil)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := payment(b.Context(), tx); err != nil {
				b.Fatal(err)
			}
			if err := tx.Commit(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("store", func(b *testing.B) {
		s := newStore(b, benchDB(b))
		i := 0
		for b.Loop() {
			i++
			if _, err := s.Execute(b.Context(), request(strconv.Itoa(i)), payment); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkLease is a first request under a lease whose handler does nothing: two
// commits.
func BenchmarkLease(b *testing.B) {
	leases := idempotency.Leases(newStore(b, benchDB(b)), time.Minute)
	i := 0
	for b.Loop() {
		i++
		req := request(strconv.Itoa(i))
		req.Lease = 30 * time.Second
		_, err := leases.Execute(b.Context(), req, func(context.Context, *idempotency.Lease) (idempotency.Response, error) {
			return created(string(make([]byte, 512))), nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReplay compares a replay with a SELECT by primary key.
func BenchmarkReplay(b *testing.B) {
	db := benchDB(b)
	s := newStore(b, db)
	req := request("k")
	if _, err := s.Execute(b.Context(), req, payment); err != nil {
		b.Fatal(err)
	}
	b.Run("select", func(b *testing.B) {
		id := req.ID()
		for b.Loop() {
			var body []byte
			if err := db.QueryRowContext(b.Context(), `SELECT body FROM idempotency_records WHERE id = ?`, id[:]).Scan(&body); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("store", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.Execute(b.Context(), req, payment); err != nil {
				b.Fatal(err)
			}
		}
	})
}
