package api

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"testing"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
	"github.com/idemgen/idemgen/testdata/drive"
)

type server struct {
	IdempotentServer[struct{}]
	runs atomic.Int32
}

func (s *server) CreateAPIKeyURL(_ context.Context, _ struct{}, req CreateAPIKeyURLIdempotentRequest) (CreateAPIKeyURLResponseObject, error) {
	s.runs.Add(1)
	if id := req.Input().APIID; id != "7" {
		return nil, fmt.Errorf("api_id is %q", id)
	}
	return CreateAPIKeyURL204Response{}, nil
}

func (s *server) StoreDocument(_ context.Context, _ struct{}, req StoreDocumentIdempotentRequest) (StoreDocumentResponseObject, error) {
	s.runs.Add(1)
	in := req.Input()
	parts, err := in.BodyMultipartReader()
	if err != nil {
		return nil, err
	}
	part, err := parts.NextPart()
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(part)
	if got := fmt.Sprintf("%s %s %s", in.ContentType, in.MultipartReader, content); err != nil || got != "a b data" {
		return nil, fmt.Errorf("got %s, %w", got, err)
	}
	return StoreDocument204Response{}, nil
}

// The names are those of the Go code, whatever rule made them, and an input's
// stream stays apart from parameters that are called like it.
//
// Covers GEN-09.
func TestBehaviour(t *testing.T) {
	t.Parallel()
	parts := func(boundary string) drive.Request {
		return drive.Request{
			Method: "POST", Path: "/documents/a/b", ContentType: "multipart/mixed; boundary=" + boundary,
			Body: "--" + boundary + "\r\n\r\ndata\r\n--" + boundary + "--\r\n",
		}
	}
	for name, op := range map[string]drive.Operation{
		"initialisms": {Request: drive.Request{Method: "POST", Path: "/api_keys/7/urls"}, Status: 204},
		"stream": {
			Request: parts("one"), Same: []drive.Request{parts("two")},
			Other:  []drive.Request{{Method: "POST", Path: "/documents/a/c", ContentType: parts("one").ContentType, Body: parts("one").Body}},
			Status: 204,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := new(server)
			op.Runs = func() int { return int(s.runs.Load()) }
			drive.Run(t, drive.Serve(t, Handler(NewIdempotentHandler(s, memstore.New(), idempotency.Unscoped))), op)
		})
	}
}
