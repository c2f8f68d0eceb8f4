package main

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/idemgen/idemgen/examples/payments/api"
)

// Where an order says all that its payment needs, and never changes, a column
// for the key is enough: keys are read from columns and written to them.
func Example_keyColumn() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		panic(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // each connection would have a database of its own
	if _, err := db.ExecContext(ctx, `CREATE TABLE orders (id TEXT PRIMARY KEY, customer TEXT NOT NULL, cents INTEGER NOT NULL, payment_key TEXT NOT NULL)`); err != nil {
		panic(err)
	}

	// With the order, before anything is sent:
	_, err = db.ExecContext(ctx, `INSERT INTO orders (id, customer, cents, payment_key) VALUES (?, ?, ?, ?)`,
		"1001", "alice", 250, api.NewCreatePaymentIdempotencyKey())
	if err != nil {
		panic(err)
	}

	// For the first try, and for each one after it:
	paymentFor := func(id string) (req api.CreatePaymentIdempotentRequest, err error) {
		var key api.CreatePaymentIdempotencyKey
		var in api.CreatePaymentInput
		err = db.QueryRowContext(ctx, `SELECT customer, cents, payment_key FROM orders WHERE id = ?`, id).
			Scan(&in.AccountId, &in.Body.Amount, &key)
		in.Body.To = ourAccount
		return api.NewCreatePaymentIdempotentRequest(key, in), err
	}

	first, err := paymentFor("1001")
	if err != nil {
		panic(err)
	}
	second, err := paymentFor("1001")
	fmt.Println(first.Equal(second), err)
	// Output: true <nil>
}
