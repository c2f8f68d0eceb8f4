package main

import (
	"context"
	"database/sql"
	_ "embed"
	"log/slog"
	"net/http"

	"github.com/idemgen/idemgen/examples/booking/charges"
	"github.com/idemgen/idemgen/runtime/idempotency"
)

//go:embed charges.sql
var chargesSchema string

// chargeService implements the generated IdempotentServer of charges.
type chargeService struct {
	reader *sql.DB
}

var _ charges.IdempotentServer[*sql.Tx] = chargeService{}

// newCharges wires the API of charges. Its callers are services: bookings is one
// scope, whoever bookings is called by.
func newCharges(s chargeService, store idempotency.Store[*sql.Tx], log *slog.Logger) http.Handler {
	return charges.Handler(charges.NewIdempotentHandler(
		s,
		store,
		idempotency.ScopeByHeader("X-Api-Key"),
		idempotency.WithObserver(idempotency.LogTo(log)),
	))
}

// CreateCharge takes the amount from the card, through tx.
func (chargeService) CreateCharge(ctx context.Context, tx *sql.Tx, req charges.CreateChargeIdempotentRequest) (charges.CreateChargeResponseObject, error) {
	charge := charges.Charge{Card: req.Input().Body.Card, Amount: req.Input().Body.Amount}
	taken, err := tx.ExecContext(ctx, `UPDATE cards SET held = held - ?1 WHERE id = ?2 AND held >= ?1 AND ?1 > 0`, charge.Amount, charge.Card)
	if err != nil {
		return nil, err
	}
	n, err := taken.RowsAffected()
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return charges.CreateCharge402ApplicationProblemPlusJSONResponse{Status: http.StatusPaymentRequired, Title: "The card was declined"}, nil
	}
	err = tx.QueryRowContext(ctx, `INSERT INTO charges (card, amount) VALUES (?, ?) RETURNING id`, charge.Card, charge.Amount).Scan(&charge.Id)
	return charges.CreateCharge201JSONResponse(charge), err
}

// ListCharges is not marked in the document: its signature is oapi-codegen's own.
func (s chargeService) ListCharges(ctx context.Context, _ charges.ListChargesRequestObject) (charges.ListChargesResponseObject, error) {
	rows, err := s.reader.QueryContext(ctx, `SELECT id, card, amount FROM charges ORDER BY id`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := charges.ListCharges200JSONResponse{} // an empty list is [], not null
	for rows.Next() {
		var c charges.Charge
		if err := rows.Scan(&c.Id, &c.Card, &c.Amount); err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, rows.Err()
}
