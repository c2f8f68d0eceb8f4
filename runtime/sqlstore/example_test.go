package sqlstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"time"

	_ "modernc.org/sqlite"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/sqlstore"
)

func Example() {
	// For the example; a server names a file, as in file:app.db?…
	db, err := sql.Open("sqlite", "file::memory:?_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)")
	if err != nil {
		log.Fatal(err)
	}
	db.SetMaxOpenConns(1)

	ctx := context.Background()
	if err := sqlstore.Migrate(ctx, db, sqlstore.SQLite); err != nil {
		log.Fatal(err)
	}
	if _, err := db.ExecContext(ctx, `CREATE TABLE payments (amount INTEGER)`); err != nil {
		log.Fatal(err)
	}
	store, err := sqlstore.New(ctx, db, sqlstore.SQLite)
	if err != nil {
		log.Fatal(err)
	}

	// A message that a queue delivers twice is booked once.
	message := []byte(`{"amount":1000}`)
	for range 2 {
		id, replayed, err := idempotency.Do(ctx, store, idempotency.Request{
			Identity:    idempotency.Identity{Scope: "payments-queue", Operation: "book", Key: "message-17"},
			Fingerprint: idempotency.FingerprintOf(message),
			Retention:   7 * 24 * time.Hour,
		}, func(ctx context.Context, tx *sql.Tx) (int64, error) {
			result, err := tx.ExecContext(ctx, `INSERT INTO payments (amount) VALUES (1000)`)
			if err != nil {
				return 0, err
			}
			return result.LastInsertId()
		})
		fmt.Println(id, replayed, err)
	}
	// Output:
	// 1 false <nil>
	// 1 true <nil>
}
