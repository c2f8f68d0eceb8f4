package api

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/testdata/drive"
)

func serve(t *testing.T, s *service, store idempotency.LeaseStore[struct{}]) string {
	t.Helper()
	return drive.Serve(t, Handler(NewIdempotentHandler(handlers{s}, store, idempotency.Unscoped)))
}

// handlers write the answers of a service.
type handlers struct{ *service }

var _ IdempotentServer[struct{}] = handlers{}

func (h handlers) CreatePayment(w http.ResponseWriter, _ *http.Request, _ struct{}, _ CreatePaymentIdempotentRequest) {
	h.payments.Add(1)
	w.WriteHeader(http.StatusCreated)
}

func (h handlers) CreateRefund(w http.ResponseWriter, r *http.Request, lease *idempotency.Lease, _ CreateRefundIdempotentRequest) {
	key, token, err := h.createRefund(r.Context(), lease)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{"provider_key": %q, "token": %q}`, key, token)
}

func (h handlers) CancelRefund(w http.ResponseWriter, r *http.Request, lease *idempotency.Lease, req CancelRefundIdempotentRequest) {
	if err := h.cancelRefund(r.Context(), lease, req.Input(), req.IdempotencyKey); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
