package api

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
	"github.com/idemgen/idemgen/testdata/drive"
)

// bank answers with what it understood.
type bank struct{}

func (bank) Transfer(w http.ResponseWriter, _ *http.Request, _ struct{}, req TransferIdempotentRequest) {
	in := req.Input()
	if in.JSONBody != nil {
		fmt.Fprint(w, in.Kind, " ", in.JSONBody.Amount)
	} else {
		fmt.Fprint(w, in.Kind, " ", in.FormdataBody.Amount, " in a form")
	}
}

func (bank) ImportStatement(w http.ResponseWriter, _ *http.Request, _ struct{}, req ImportStatementIdempotentRequest) {
	fmt.Fprint(w, req.Input().JSONBody.Amount)
}

func (bank) ReplaceTransfers(http.ResponseWriter, *http.Request, Kind) {}

// Bodies are decoded into the types that are declared beside the server.
func TestDeclared(t *testing.T) {
	t.Parallel()
	url := drive.Serve(t, Handler(NewIdempotentHandler(bank{}, memstore.New(), idempotency.Unscoped)))
	for i, test := range []struct{ path, contentType, body, want string }{
		{"/transfers/in", "application/json", `{"amount":3}`, "in 3"},
		{"/transfers/out", "application/x-www-form-urlencoded", "amount=4", "out 4 in a form"},
		{"/statements", "application/json", `{"amount":5}`, "5"},
	} {
		r := drive.Request{Method: "POST", Path: test.path, ContentType: test.contentType, Body: test.body}
		for _, replayed := range []string{"", "true"} {
			got := drive.Send(t, url, r, "Idempotency-Key", fmt.Sprint(i))
			if got.Status != 200 || got.Body != test.want || got.Header.Get("Idempotent-Replayed") != replayed {
				t.Errorf("%s: %d %s, replayed %q, want %s", test.path, got.Status, got.Body, got.Header.Get("Idempotent-Replayed"), test.want)
			}
		}
	}
}
