package main

import (
	"context"
	"database/sql"
	"net/http"

	"github.com/idemgen/idemgen/examples/observability/api"
)

// service implements the generated IdempotentServer. It knows nothing of
// telemetry.
type service struct{}

// The compiler says here which method is missing or differs.
var _ api.IdempotentServer[*sql.Tx] = service{}

// BuyTickets sells tickets through tx. That there are not enough left is an
// answer of the business: it is kept, and counts as executed.
func (service) BuyTickets(ctx context.Context, tx *sql.Tx, req api.BuyTicketsIdempotentRequest) (api.BuyTicketsResponseObject, error) {
	sale := api.Sale{Tickets: req.Input().Body.Tickets}
	sold, err := tx.ExecContext(ctx, `UPDATE evening SET left = left - ?1 WHERE left >= ?1`, sale.Tickets)
	if err != nil {
		return nil, err
	}
	if n, err := sold.RowsAffected(); err != nil || n == 0 {
		return api.BuyTickets409ApplicationProblemPlusJSONResponse{Status: http.StatusConflict, Title: "Not enough tickets are left"}, err
	}
	err = tx.QueryRowContext(ctx, `INSERT INTO sales (tickets) VALUES (?) RETURNING id`, sale.Tickets).Scan(&sale.Id)
	if err != nil {
		return nil, err
	}
	return api.BuyTickets201JSONResponse(sale), nil
}
