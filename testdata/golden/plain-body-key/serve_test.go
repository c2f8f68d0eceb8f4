package api

import (
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
)

// server answers with the number of the run and the key that it was given.
type server struct{ runs atomic.Int32 }

func (s *server) answer(w http.ResponseWriter, key fmt.Stringer) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, "{\"key\":%q,\"run\":%d}\n", key, s.runs.Add(1))
}

func (s *server) CreatePayment(w http.ResponseWriter, _ *http.Request, _ struct{}, req CreatePaymentIdempotentRequest) {
	s.answer(w, req.IdempotencyKey)
}

func (s *server) CreateRefund(w http.ResponseWriter, _ *http.Request, _ struct{}, req CreateRefundIdempotentRequest) {
	s.answer(w, req.IdempotencyKey)
}

func (s *server) CreateTransfer(w http.ResponseWriter, _ *http.Request, _ struct{}, req CreateTransferIdempotentRequest) {
	s.answer(w, req.IdempotencyKey)
}

func (s *server) CreateOrder(w http.ResponseWriter, _ *http.Request, _ struct{}, req CreateOrderIdempotentRequest) {
	s.answer(w, req.IdempotencyKey)
}

func (s *server) CreateShipment(w http.ResponseWriter, _ *http.Request, _ struct{}, req CreateShipmentIdempotentRequest) {
	s.answer(w, req.IdempotencyKey)
}

func (s *server) AddNote(w http.ResponseWriter, _ *http.Request, _ struct{}, req AddNoteIdempotentRequest) {
	s.answer(w, req.IdempotencyKey)
}

func (s *server) SubmitForm(w http.ResponseWriter, _ *http.Request, _ struct{}, req SubmitFormIdempotentRequest) {
	s.answer(w, req.IdempotencyKey)
}

func (s *server) SubmitEither(w http.ResponseWriter, _ *http.Request, _ struct{}, req SubmitEitherIdempotentRequest) {
	s.answer(w, req.IdempotencyKey)
}

func (s *server) PostEvent(w http.ResponseWriter, _ *http.Request, _ struct{}, req PostEventIdempotentRequest) {
	s.answer(w, req.IdempotencyKey)
}

func (s *server) PostRaw(w http.ResponseWriter, _ *http.Request, _ struct{}, req PostRawIdempotentRequest) {
	s.answer(w, req.IdempotencyKey)
}

func (s *server) WithHeader(w http.ResponseWriter, _ *http.Request, _ struct{}, req WithHeaderIdempotentRequest) {
	s.answer(w, req.IdempotencyKey)
}

func newHandler(s *server, opts ...idempotency.Option) http.Handler {
	return Handler(NewIdempotentHandler(s, memstore.New(), idempotency.Unscoped, opts...))
}
