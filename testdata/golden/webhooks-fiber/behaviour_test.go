package api

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/idemgen/idemgen/testdata/drive"
)

// shop receives what the document says is sent. This file is the same for every
// framework but net/http, whose case tests all shapes of webhooks beside.
type shop struct{ runs atomic.Int32 }

// settle answers that a payment has been settled. The first run of one without an
// amount fails.
func (s *shop) settle(req PaymentSettledIdempotentRequest) (status int, body string) {
	in := req.Input()
	run := s.runs.Add(1)
	if run == 1 && in.Body.Amount == 0 {
		return http.StatusInternalServerError, "not now"
	}
	return http.StatusAccepted, fmt.Sprintf(`{"number": %d, "id": %q, "source": %q, "key": %q}`, run, in.Body.Id, in.Params.Source, req.IdempotencyKey)
}

func settled(body string) drive.Request {
	return drive.Request{Method: "POST", Path: "/hooks/payment?source=bank", ContentType: "application/json", Body: body}
}

// Duplicates get the stored answer, another event under the same key is refused,
// and so is one without a key.
func TestReceivers(t *testing.T) {
	t.Parallel()
	for name, op := range map[string]drive.Operation{
		"webhook": {
			Request: settled(`{"id":"evt_1","amount":1}`),
			Same:    []drive.Request{settled(`{ "amount": 1, "id": "evt_1" }`)},
			Other:   []drive.Request{settled(`{"id":"evt_1","amount":2}`)},
			Status:  202, Body: `{"number": 1, "id": "evt_1", "source": "bank", "key": "key-1"}`,
			Declared: true,
		},
		"callback": {
			Request: drive.Request{Method: "POST", Path: "/shipped", ContentType: "application/json", Body: `{"id":"evt_1","amount":1}`},
			Other:   []drive.Request{{Method: "POST", Path: "/shipped", ContentType: "application/json", Body: `{"id":"evt_2","amount":1}`}},
			Status:  204,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := new(shop)
			op.KeyHeader, op.Runs = "Webhook-Id", func() int { return int(s.runs.Load()) }
			drive.Run(t, serve(t, s), op)
		})
	}
}

// A handler that fails leaves the key free, and the redelivery runs again.
func TestRedelivery(t *testing.T) {
	t.Parallel()
	s := new(shop)
	url := serve(t, s)
	for i, want := range []struct {
		status   int
		replayed string
	}{{http.StatusInternalServerError, ""}, {http.StatusAccepted, ""}, {http.StatusAccepted, "true"}} {
		got := drive.Send(t, url, settled(`{"id":"evt_1","amount":0}`), "Webhook-Id", "k")
		if got.Status != want.status || got.Header.Get("Idempotent-Replayed") != want.replayed {
			t.Errorf("delivery %d: %d %s, replayed %q, want %d, %q", i+1, got.Status, got.Body, got.Header.Get("Idempotent-Replayed"), want.status, want.replayed)
		}
	}
	if runs := s.runs.Load(); runs != 2 {
		t.Errorf("%d runs, want 2", runs)
	}
}

// An event that is not marked is received as often as it comes.
func TestUnmarked(t *testing.T) {
	t.Parallel()
	s := new(shop)
	url := serve(t, s)
	for range 2 {
		if got := drive.Send(t, url, drive.Request{Method: "POST", Path: "/hooks/ping"}, "Webhook-Id", "k"); got.Status != http.StatusNoContent {
			t.Errorf("%d %s", got.Status, got.Body)
		}
	}
	if runs := s.runs.Load(); runs != 2 {
		t.Errorf("%d runs, want 2", runs)
	}
}
