package api

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
)

// server answers with the number of the run and the key that it was given.
type server struct{ runs atomic.Int32 }

func answer[R ~struct {
	Key string `json:"key"`
	Run int    `json:"run"`
}](s *server, key fmt.Stringer,
) *R {
	return &R{Key: key.String(), Run: int(s.runs.Add(1))}
}

func (s *server) CreatePayment(_ context.Context, _ struct{}, req CreatePaymentIdempotentRequest) (CreatePaymentResponseObject, error) {
	return answer[CreatePayment201JSONResponse](s, req.IdempotencyKey), nil
}

func (s *server) CreateRefund(_ context.Context, _ struct{}, req CreateRefundIdempotentRequest) (CreateRefundResponseObject, error) {
	return answer[CreateRefund201JSONResponse](s, req.IdempotencyKey), nil
}

func (s *server) CreateTransfer(_ context.Context, _ struct{}, req CreateTransferIdempotentRequest) (CreateTransferResponseObject, error) {
	return answer[CreateTransfer201JSONResponse](s, req.IdempotencyKey), nil
}

func (s *server) CreateOrder(_ context.Context, _ struct{}, req CreateOrderIdempotentRequest) (CreateOrderResponseObject, error) {
	return answer[CreateOrder201JSONResponse](s, req.IdempotencyKey), nil
}

func (s *server) CreateShipment(_ context.Context, _ struct{}, req CreateShipmentIdempotentRequest) (CreateShipmentResponseObject, error) {
	return answer[CreateShipment201JSONResponse](s, req.IdempotencyKey), nil
}

func (s *server) AddNote(_ context.Context, _ struct{}, req AddNoteIdempotentRequest) (AddNoteResponseObject, error) {
	return answer[AddNote201JSONResponse](s, req.IdempotencyKey), nil
}

func (s *server) SubmitForm(_ context.Context, _ struct{}, req SubmitFormIdempotentRequest) (SubmitFormResponseObject, error) {
	return answer[SubmitForm201JSONResponse](s, req.IdempotencyKey), nil
}

func (s *server) SubmitEither(_ context.Context, _ struct{}, req SubmitEitherIdempotentRequest) (SubmitEitherResponseObject, error) {
	return answer[SubmitEither201JSONResponse](s, req.IdempotencyKey), nil
}

func (s *server) PostEvent(_ context.Context, _ struct{}, req PostEventIdempotentRequest) (PostEventResponseObject, error) {
	return answer[PostEvent201JSONResponse](s, req.IdempotencyKey), nil
}

func (s *server) PostRaw(_ context.Context, _ struct{}, req PostRawIdempotentRequest) (PostRawResponseObject, error) {
	return answer[PostRaw201JSONResponse](s, req.IdempotencyKey), nil
}

func (s *server) WithHeader(_ context.Context, _ struct{}, req WithHeaderIdempotentRequest) (WithHeaderResponseObject, error) {
	return answer[WithHeader201JSONResponse](s, req.IdempotencyKey), nil
}

func newHandler(s *server, opts ...idempotency.Option) http.Handler {
	return Handler(NewIdempotentHandler(s, memstore.New(), idempotency.Unscoped, opts...))
}
