package client_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
	"github.com/idemgen/idemgen/testdata/golden/dot-import/models"
	client "github.com/idemgen/idemgen/testdata/golden/separate-client"
	files "github.com/idemgen/idemgen/testdata/golden/separate-files"
	server "github.com/idemgen/idemgen/testdata/golden/separate-server"
)

type apart struct {
	server.IdempotentServer[struct{}]
	runs int
}

func (s *apart) Transfer(_ context.Context, _ struct{}, req server.TransferIdempotentRequest) (server.TransferResponseObject, error) {
	s.runs++
	return server.Transfer200JSONResponse(*req.Input().JSONBody), nil
}

type together struct {
	files.IdempotentServer[struct{}]
	runs int
}

func (s *together) Transfer(_ context.Context, _ struct{}, req files.TransferIdempotentRequest) (files.TransferResponseObject, error) {
	s.runs++
	return files.Transfer200JSONResponse(*req.Input().JSONBody), nil
}

// The client of one package calls the server of another, and that of a package
// whose models, server and client are three files.
func TestSeparate(t *testing.T) {
	t.Parallel()
	a, b := new(apart), new(together)
	for name, test := range map[string]struct {
		handler http.Handler
		runs    *int
	}{
		"package": {server.Handler(server.NewIdempotentHandler(a, memstore.New(), idempotency.Unscoped)), &a.runs},
		"file":    {files.Handler(files.NewIdempotentHandler(b, memstore.New(), idempotency.Unscoped)), &b.runs},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(test.handler)
			t.Cleanup(srv.Close)
			c, err := client.NewIdempotentClient(srv.URL)
			if err != nil {
				t.Fatal(err)
			}
			key := client.NewTransferIdempotencyKey()
			for i := range 2 {
				got, err := c.Transfer(t.Context(), client.NewTransferIdempotentRequest(key, client.TransferInput{
					Kind: models.In, JSONBody: &models.Transfer{Amount: 7},
				}))
				if err != nil {
					t.Fatal(err)
				}
				replayed := got.HTTPResponse.Header.Get("Idempotent-Replayed") == "true"
				if got.JSON200 == nil || got.JSON200.Amount != 7 || replayed != (i == 1) {
					t.Errorf("%d %s, replayed %t", got.StatusCode(), got.Body, replayed)
				}
			}
			if *test.runs != 1 {
				t.Errorf("the handler has run %d times", *test.runs)
			}
		})
	}
}
