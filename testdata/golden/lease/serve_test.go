package api

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/testdata/drive"
)

func serve(t *testing.T, handler ServerInterface, callbacks CallbackReceiverInterface) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("POST /provider", RepeatRefundCallbackHandler(callbacks, nil))
	return drive.Serve(t, HandlerFromMux(handler, mux))
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
