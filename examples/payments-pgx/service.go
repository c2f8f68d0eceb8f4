package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemgen/idemgen/examples/payments/api"
)

// service implements the generated IdempotentServer on pgx.
type service struct {
	pool *pgxpool.Pool
	work time.Duration // how long a payment takes, to see what happens meanwhile
}

// The compiler says here which method is missing or differs.
var _ api.IdempotentServer[pgx.Tx] = service{}

// CreatePayment moves the money through tx. idemgen's wrapper commits it
// together with the answer, so a retry gets this answer and moves nothing.
// Two payments that lock the accounts in opposite order deadlock; the wrapper
// runs the loser again.
func (s service) CreatePayment(ctx context.Context, tx pgx.Tx, req api.CreatePaymentIdempotentRequest) (api.CreatePaymentResponseObject, error) {
	from, to, amount := req.Input().AccountId, req.Input().Body.To, req.Input().Body.Amount
	if amount <= 0 {
		return api.CreatePayment400ApplicationProblemPlusJSONResponse(problem(http.StatusBadRequest, "The amount must be positive")), nil
	}
	var balance int64
	switch err := tx.QueryRow(ctx, `SELECT balance FROM accounts WHERE id = $1 FOR UPDATE`, from).Scan(&balance); {
	case errors.Is(err, pgx.ErrNoRows):
		return api.CreatePayment404ApplicationProblemPlusJSONResponse{NotFoundApplicationProblemPlusJSONResponse: notFound("account", from)}, nil
	case err != nil:
		return nil, err
	case balance < amount:
		// Stored and replayed like any other answer: the retry is told the same.
		return api.CreatePayment402ApplicationProblemPlusJSONResponse(problem(http.StatusPaymentRequired, "Insufficient funds")), nil
	}
	paid, err := tx.Exec(ctx, `UPDATE accounts SET balance = balance + $1 WHERE id = $2`, amount, to)
	if err != nil {
		return nil, err
	}
	if paid.RowsAffected() == 0 {
		return api.CreatePayment404ApplicationProblemPlusJSONResponse{NotFoundApplicationProblemPlusJSONResponse: notFound("account", to)}, nil
	}
	if _, err := tx.Exec(ctx, `UPDATE accounts SET balance = balance - $1 WHERE id = $2`, amount, from); err != nil {
		return nil, err
	}
	payment := api.Payment{From: from, To: to, Amount: amount}
	err = tx.QueryRow(ctx, `INSERT INTO payments (sender, payee, amount) VALUES ($1, $2, $3) RETURNING id`, from, to, amount).Scan(&payment.Id)
	if err != nil {
		return nil, err
	}
	select {
	case <-time.After(s.work):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return api.CreatePayment201JSONResponse{
		Body:    payment,
		Headers: api.CreatePayment201ResponseHeaders{Location: fmt.Sprintf("/payments/%d", payment.Id)},
	}, nil
}

// GetAccount is not marked in the spec: its signature is oapi-codegen's own.
func (s service) GetAccount(ctx context.Context, req api.GetAccountRequestObject) (api.GetAccountResponseObject, error) {
	account := api.Account{Id: req.AccountId}
	err := s.pool.QueryRow(ctx, `SELECT balance FROM accounts WHERE id = $1`, req.AccountId).Scan(&account.Balance)
	if errors.Is(err, pgx.ErrNoRows) {
		return api.GetAccount404ApplicationProblemPlusJSONResponse{NotFoundApplicationProblemPlusJSONResponse: notFound("account", req.AccountId)}, nil
	}
	return api.GetAccount200JSONResponse(account), err
}

func (s service) GetPayment(ctx context.Context, req api.GetPaymentRequestObject) (api.GetPaymentResponseObject, error) {
	payment := api.Payment{Id: req.PaymentId}
	err := s.pool.QueryRow(ctx, `SELECT sender, payee, amount FROM payments WHERE id = $1`, req.PaymentId).Scan(&payment.From, &payment.To, &payment.Amount)
	if errors.Is(err, pgx.ErrNoRows) {
		return api.GetPayment404ApplicationProblemPlusJSONResponse{NotFoundApplicationProblemPlusJSONResponse: notFound("payment", fmt.Sprint(req.PaymentId))}, nil
	}
	return api.GetPayment200JSONResponse(payment), err
}

func problem(status int, title string) api.Problem {
	return api.Problem{Status: status, Title: title}
}

func notFound(kind, id string) api.NotFoundApplicationProblemPlusJSONResponse {
	return api.NotFoundApplicationProblemPlusJSONResponse(problem(http.StatusNotFound, fmt.Sprintf("There is no %s %q", kind, id)))
}
