package api

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/oapi-codegen/runtime"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
	"github.com/idemgen/idemgen/testdata/drive"
)

// validatedBody is a body as kin-openapi leaves it with KeepValidatedValue: it
// can be read again, and holds the value that was validated.
type validatedBody struct {
	*bytes.Reader
	value any
}

func (validatedBody) Close() error { return nil }

func (b validatedBody) ValidatedValue() any { return b.value }

// validate lets refunds of up to 100 pass.
func validate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var value map[string]any
		err = json.Unmarshal(body, &value)
		if amount, ok := value["amount"].(float64); err != nil || !ok || amount > 100 {
			http.Error(w, "100 is the most", http.StatusBadRequest)
			return
		}
		r.Body = validatedBody{bytes.NewReader(body), value}
		next.ServeHTTP(w, r)
	})
}

// The handler gets what was validated. encoding/json would give it another
// member, whose name differs in case alone.
func TestValidated(t *testing.T) {
	t.Parallel()
	srv, store := handlers{&service{Bank: new(drive.Bank)}}, memstore.New()
	server := NewIdempotentHandler(srv, store, idempotency.Unscoped,
		idempotency.WithJSONDecoder(runtime.BindJSONBody))
	url := drive.Serve(t, validate(Handler(server)))
	refund := func(body string) drive.Request {
		return request("POST", "/refunds", "application/vnd.refund+json", body)
	}
	for _, replayed := range []string{"", "true"} {
		got := drive.Send(t, url, refund(`{"amount":1,"Amount":1000}`), keyHeader, "k")
		if got.Status != 200 || got.Body != "1 1" || got.Header.Get("Idempotent-Replayed") != replayed {
			t.Errorf("%d %s, replayed %q, want %q", got.Status, got.Body, got.Header.Get("Idempotent-Replayed"), replayed)
		}
	}
	if got := drive.Send(t, url, refund(`{"amount":1000}`), keyHeader, "k2"); got.Status != 400 {
		t.Errorf("%d %s", got.Status, got.Body)
	}
}
