package api

import (
	"context"
	"net/http"
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

func (s *server) EvilFuncInitPanic1(context.Context, struct{}, EvilFuncInitPanic1IdempotentRequest) (EvilFuncInitPanic1ResponseObject, error) {
	s.runs.Add(1)
	return EvilFuncInitPanic1204Response{}, nil
}

// Text of the document is data: no init function of it has run before this
// test, and the operation does what it should.
//
// Covers GEN-31.
func TestBehaviour(t *testing.T) {
	t.Parallel()
	s := new(server)
	evil := func(body, header string) drive.Request {
		return drive.Request{Method: "POST", Path: "/evil", ContentType: "application/json", Body: body, Header: http.Header{"X-Quote'": {header}}}
	}
	drive.Run(t, drive.Serve(t, Handler(NewIdempotentHandler(s, memstore.New(), idempotency.Unscoped))), drive.Operation{
		Request: evil(`{"a')//":"1","b":1}`, "1"),
		Same:    []drive.Request{evil(`{"b":1,"a')//":"left out"}`, "1")},
		Other:   []drive.Request{evil(`{"b":2}`, "1"), evil(`{"b":1}`, "2")},
		Status:  204,
		Runs:    func() int { return int(s.runs.Load()) },
	})
	if got := (EvilFuncInitPanic1Op{}).Operation().ID; got != `evil"); func init() { panic(1) } //` {
		t.Errorf("the operation's id is %q", got)
	}
}
