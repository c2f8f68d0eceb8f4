package api

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/testdata/drive"
)

func TestLeases(t *testing.T) {
	t.Parallel()
	drive.Leased{
		Serve: func(t *testing.T, refunds *drive.Refunds, store idempotency.LeaseStore[struct{}]) string {
			t.Helper()
			mux := chi.NewRouter()
			mux.Method(http.MethodPost, "/provider", RepeatRefundCallbackHandler(NewIdempotentCallbackReceiver(receiver{refunds}, store, idempotency.Unscoped), nil))
			return drive.Serve(t, HandlerFromMux(NewIdempotentHandler(handlers{refunds}, store, idempotency.Unscoped), mux))
		},
		CreatePayment: CreatePaymentOp{}.Operation(),
		CreateRefund:  CreateRefundOp{}.Operation(),
		CancelRefund:  CancelRefundOp{}.Operation(),
	}.Behave(t)
}

// handlers write the answers of refunds.
type handlers struct{ refunds *drive.Refunds }

var _ IdempotentServer[struct{}] = handlers{}

func (h handlers) CreatePayment(w http.ResponseWriter, _ *http.Request, _ struct{}, _ CreatePaymentIdempotentRequest) {
	h.refunds.Pay()
	w.WriteHeader(http.StatusCreated)
}

func (h handlers) CreateRefund(w http.ResponseWriter, r *http.Request, lease *idempotency.Lease, _ CreateRefundIdempotentRequest) {
	key, token, err := h.refunds.Create(r.Context(), lease)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{"provider_key": %q, "token": %q}`, key, token)
}

func (h handlers) CancelRefund(w http.ResponseWriter, r *http.Request, lease *idempotency.Lease, req CancelRefundIdempotentRequest) {
	if err := h.refunds.Cancel(r.Context(), lease, req.Input().Lease, req.IdempotencyKey.IsZero()); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// receiver writes the answers of refunds.
type receiver struct{ refunds *drive.Refunds }

var _ IdempotentCallbackReceiver[struct{}] = receiver{}

func (r receiver) HandleRepeatRefundCallback(w http.ResponseWriter, request *http.Request, lease *idempotency.Lease, _ RepeatRefundIdempotentRequest) {
	key, token, err := r.refunds.Create(request.Context(), lease)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{"provider_key": %q, "token": %q}`, key, token)
}
