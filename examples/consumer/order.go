package main

import (
	"context"
	"database/sql"
	"fmt"
)

// Order is the body of a message.
type Order struct {
	Customer string `json:"customer"`
	Cents    int64  `json:"cents"`
}

// Receipt says what an order has earned. It is stored with the credit.
type Receipt struct {
	ID       int64  `json:"id"`
	Customer string `json:"customer"`
	Points   int64  `json:"points"`
	Balance  int64  `json:"balance"` // with this credit
}

// credit gives a customer one point for each full unit of money, through tx.
func credit(ctx context.Context, tx *sql.Tx, shop string, order Order) (Receipt, error) {
	if order.Customer == "" || order.Cents <= 0 {
		return Receipt{}, fmt.Errorf("%w: it needs a customer and a positive amount", errPoison)
	}
	receipt := Receipt{Customer: order.Customer, Points: order.Cents / 100}
	err := tx.QueryRowContext(ctx, `INSERT INTO credits (shop, customer, points) VALUES (?, ?, ?) RETURNING id`,
		shop, receipt.Customer, receipt.Points).Scan(&receipt.ID)
	if err != nil {
		return Receipt{}, err
	}
	err = tx.QueryRowContext(ctx, `SELECT sum(points) FROM credits WHERE shop = ? AND customer = ?`,
		shop, receipt.Customer).Scan(&receipt.Balance)
	return receipt, err
}
