package idempotency_test

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	_ "modernc.org/sqlite"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/sqlstore"
)

// payer pays what must not be paid twice. With redisstore or memstore newPayer
// does not compile.
type payer[Tx any] struct {
	store idempotency.DurableStore[Tx]
	pay   func(ctx context.Context, tx Tx) (string, error)
}

func newPayer[Tx any](store idempotency.DurableStore[Tx], pay func(ctx context.Context, tx Tx) (string, error)) payer[Tx] {
	return payer[Tx]{store, pay}
}

// A constructor demands that answers survive a failover by the type of its store.
func ExampleDurableStore() {
	db, err := sql.Open("sqlite", "file::memory:?_pragma=busy_timeout(5000)&_pragma=synchronous(full)")
	if err != nil {
		fmt.Println(err)
		return
	}
	db.SetMaxOpenConns(1)
	if err := sqlstore.Migrate(context.Background(), db, sqlstore.SQLite); err != nil {
		fmt.Println(err)
		return
	}
	store, err := sqlstore.New(context.Background(), db, sqlstore.SQLite)
	if err != nil {
		fmt.Println(err)
		return
	}
	p := newPayer(store, func(context.Context, *sql.Tx) (string, error) { return "paid", nil })
	guarantees := store.Guarantees()
	fmt.Println("atomic with an answer:", guarantees.Atomic)
	fmt.Println("an answer survives:", guarantees.Survives)
	value, _, err := idempotency.Do(context.Background(), p.store, idempotency.Request{
		Identity:    idempotency.Identity{Scope: "acme", Operation: "pay", Key: "order-1"},
		Fingerprint: idempotency.FingerprintOf([]byte("250")),
		Retention:   24 * time.Hour,
	}, p.pay)
	fmt.Println(value, err)
	// Output:
	// atomic with an answer: the transaction
	// an answer survives: a failover
	// paid <nil>
}
