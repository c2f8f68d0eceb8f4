package api

import (
	"bytes"
	"context"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
	server "github.com/idemgen/idemgen/testdata/golden/std-http"
)

// documents is a server of the package that has one.
type documents struct {
	server.IdempotentServer[struct{}]
	runs atomic.Int32
}

func (d *documents) PutDocument(_ context.Context, _ struct{}, req server.PutDocumentIdempotentRequest) (server.PutDocumentResponseObject, error) {
	d.runs.Add(1)
	body, err := io.ReadAll(req.Input().Body)
	if err != nil {
		return nil, err
	}
	slices.Reverse(body)
	return server.PutDocument200ApplicationoctetStreamResponse{Body: bytes.NewReader(body)}, nil
}

// A package that is a client alone speaks to the server of another one. A file
// is sent whole each time, and is not moved.
func TestClientAlone(t *testing.T) {
	t.Parallel()
	d := new(documents)
	srv := httptest.NewServer(server.Handler(server.NewIdempotentHandler(d, memstore.New(), idempotency.Unscoped)))
	t.Cleanup(srv.Close)
	client, err := NewIdempotentClient(srv.URL, WithClientOptions(WithHTTPClient(srv.Client())))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "document")
	if err := os.WriteFile(path, []byte("\x00\xff123"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	req := NewPutDocumentIdempotentRequest(NewPutDocumentIdempotencyKey(), PutDocumentInput{Name: "a/b", Body: file})
	for i := range 3 {
		got, err := client.PutDocument(t.Context(), req)
		if err != nil || got.StatusCode() != 200 || string(got.Body) != "321\xff\x00" || got.Replayed() != (i > 0) {
			t.Errorf("%d: %+v, %v", i, got, err)
		}
	}
	if d.runs.Load() != 1 {
		t.Errorf("executed %d times", d.runs.Load())
	}
}
