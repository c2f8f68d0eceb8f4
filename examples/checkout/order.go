package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"github.com/idemgen/idemgen/examples/payments/api"
)

// Order is what a customer has ordered, and what has become of its payment.
type Order struct {
	ID       string          `json:"id"`
	Customer string          `json:"customer"` // the account that pays
	Cents    int64           `json:"cents"`
	Payment  string          `json:"payment"`          // open, paid, declined or parked
	Result   json.RawMessage `json:"result,omitempty"` // the service's answer, or why it is parked
}

// ourAccount gets the money.
const ourAccount = "bob"

// place writes an order and, in the same transaction, the request that pays for
// it: from here on its key is known, whatever happens. An order that is there
// already stays as it is, with the key that it has.
func place(ctx context.Context, db *sql.DB, o Order) error {
	request, err := json.Marshal(api.NewCreatePaymentIdempotentRequest(
		api.NewCreatePaymentIdempotencyKey(),
		api.CreatePaymentInput{
			AccountId: o.Customer,
			Body:      api.NewPayment{To: ourAccount, Amount: o.Cents},
		},
	))
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	if _, err := tx.ExecContext(ctx, `INSERT INTO orders (id, customer, cents) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`,
		o.ID, o.Customer, o.Cents); err != nil {
		return err
	}
	now := time.Now().UnixMilli()
	if _, err := tx.ExecContext(ctx, `INSERT INTO payments (order_id, request, placed, due) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		o.ID, string(request), now, now); err != nil {
		return err
	}
	return tx.Commit()
}

// find returns an order, or sql.ErrNoRows.
func find(ctx context.Context, db *sql.DB, id string) (o Order, err error) {
	var result sql.Null[string]
	err = db.QueryRowContext(ctx, `SELECT id, customer, cents, state, result FROM orders JOIN payments ON order_id = id WHERE id = ?`, id).
		Scan(&o.ID, &o.Customer, &o.Cents, &o.Payment, &result)
	o.Result = json.RawMessage(result.V)
	return o, err
}
