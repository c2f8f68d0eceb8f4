package main

import (
	"database/sql"
	"net/http"

	"github.com/idemgen/idemgen/examples/webhooks/api"
)

// shop receives what the payment provider sends.
type shop struct{}

// The compiler says here which method is missing or differs.
var _ api.IdempotentWebhookReceiver[*sql.Tx] = shop{}

// HandlePaymentSettledWebhook adds the payment to its order. The document
// releases every answer that is no success, since the provider sends the event
// again after it: the order may be there by then.
func (shop) HandlePaymentSettledWebhook(w http.ResponseWriter, r *http.Request, tx *sql.Tx, req api.PaymentSettledIdempotentRequest) {
	event := req.Input().Body
	if !event.Type.Valid() {
		http.Error(w, "this is the address for payment.settled", http.StatusBadRequest)
		return
	}
	paid, err := tx.ExecContext(r.Context(), `UPDATE orders SET paid = paid + ? WHERE id = ?`, event.Data.Amount, event.Data.OrderId)
	if err != nil {
		http.Error(w, "not now", http.StatusInternalServerError)
		return
	}
	if n, err := paid.RowsAffected(); err != nil || n == 0 {
		http.Error(w, "there is no such order", http.StatusNotFound)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
