package main

import (
	"context"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/idemgen/idemgen/examples/outbox/api"
)

// service implements the generated IdempotentServer on pgx.
type service struct {
	jobs *river.Client[pgx.Tx]
}

// The compiler says here which method is missing or differs.
var _ api.IdempotentServer[pgx.Tx] = service{}

// CreateOrder writes the order and enqueues its e-mail, both through tx.
// idemgen's wrapper commits them together with the answer: all three are there,
// or none is. A retry gets this answer and enqueues nothing.
func (s service) CreateOrder(ctx context.Context, tx pgx.Tx, req api.CreateOrderIdempotentRequest) (api.CreateOrderResponseObject, error) {
	order := api.Order{Email: req.Input().Body.Email, Item: req.Input().Body.Item}
	if order.Email == "" || order.Item == "" {
		return api.CreateOrder400ApplicationProblemPlusJSONResponse{Status: http.StatusBadRequest, Title: "An order needs an item and an address"}, nil
	}
	err := tx.QueryRow(ctx, `INSERT INTO orders (email, item) VALUES ($1, $2) RETURNING id`, order.Email, order.Item).Scan(&order.Id)
	if err != nil {
		return nil, err
	}
	if _, err := s.jobs.InsertTx(ctx, tx, confirmation{OrderID: order.Id, To: order.Email, Item: order.Item}, nil); err != nil {
		return nil, err
	}
	return api.CreateOrder201JSONResponse(order), nil
}
