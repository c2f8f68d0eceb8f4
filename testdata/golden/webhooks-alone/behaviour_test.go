package api

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
	"github.com/idemgen/idemgen/testdata/drive"
)

type books struct{ refunds atomic.Int32 }

func (b *books) HandleChargeRefundedWebhook(w http.ResponseWriter, _ *http.Request, _ struct{}, req ChargeRefundedIdempotentRequest) {
	b.refunds.Add(1)
	w.Header().Set("X-Event", req.Input().Body.Id)
	w.WriteHeader(http.StatusNoContent)
}

// A package that serves no paths receives webhooks alone. Its document is somebody
// else's and is marked from the config.
func TestReceiver(t *testing.T) {
	t.Parallel()
	b := new(books)
	r := chi.NewRouter()
	r.Method(http.MethodPost, "/stripe", ChargeRefundedWebhookHandler(NewIdempotentWebhookReceiver(b, memstore.New(), idempotency.Unscoped), nil))
	url := drive.Serve(t, r)
	for _, replayed := range []string{"", "true"} {
		got := drive.Send(t, url, drive.Request{Method: "POST", Path: "/stripe", ContentType: "application/json", Body: `{"id":"evt_1"}`}, "")
		if got.Status != http.StatusNoContent || got.Header.Get("X-Event") != "evt_1" || got.Header.Get("Idempotent-Replayed") != replayed {
			t.Errorf("%d %v %s, want 204, replayed %q", got.Status, got.Header, got.Body, replayed)
		}
	}
	if refunds := b.refunds.Load(); refunds != 1 {
		t.Errorf("%d refunds, want 1", refunds)
	}
}
