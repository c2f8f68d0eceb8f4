package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
	"github.com/idemgen/idemgen/testdata/drive"
)

// paying has a handler of its own for payments.
type paying struct {
	handlers
	pay gin.HandlerFunc
}

func (p paying) CreatePayment(c *gin.Context, _ struct{}, _ CreatePaymentIdempotentRequest) {
	p.runs.Add(1)
	p.pay(c)
}

// answerErrors is a middleware that answers what handlers have left in the
// context.
func answerErrors(c *gin.Context) {
	writer, request := c.Writer, c.Request
	c.Next()
	if last := c.Errors.Last(); last != nil && !c.Writer.Written() {
		c.JSON(-1, gin.H{"error": last.Error()})
	}
	if c.Writer != writer || c.Request != request {
		panic("writer or request are not put back")
	}
}

// What gin's handlers can do ends in an answer that is kept, or in one of the
// middlewares and a key that is free.
func TestGin(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pay    gin.HandlerFunc
		status int
		part   string // of the body
		kept   bool
	}{
		"json":     {func(c *gin.Context) { c.JSON(201, gin.H{"a": 1}) }, 201, `{"a":1}`, true},
		"text":     {func(c *gin.Context) { c.String(200, "%d", 1) }, 200, "1", true},
		"nothing":  {func(*gin.Context) {}, 200, "", true},
		"status":   {func(c *gin.Context) { c.Status(202) }, 202, "", true},
		"redirect": {func(c *gin.Context) { c.Redirect(303, "/elsewhere") }, 303, "", true},
		"abort":    {func(c *gin.Context) { c.AbortWithStatusJSON(422, gin.H{"a": 1}) }, 422, `{"a":1}`, true},
		"released": {func(c *gin.Context) { c.AbortWithStatus(503) }, 503, "", false},
		"an error beside an answer": {func(c *gin.Context) {
			_ = c.AbortWithError(409, errors.New("not now"))
		}, 409, "", true},
		"an error": {func(c *gin.Context) { _ = c.Error(errors.New("out of paper")) }, 500, `{"error":"out of paper"}`, false},
		"an error and a status": {func(c *gin.Context) {
			c.Status(404)
			_ = c.Error(errors.New("no such account"))
		}, 404, `{"error":"no such account"}`, false},
		"two statuses": {func(c *gin.Context) {
			c.Status(201)
			c.Status(202)
			c.Writer.WriteHeaderNow()
			c.Status(500)
			if w := c.Writer; w.Status() != 202 || w.Size() != 0 || !w.Written() || w.Pusher() != nil {
				t.Errorf("status %d, size %d, written %t", w.Status(), w.Size(), w.Written())
			}
			if n, err := c.Writer.WriteString("all"); n != 3 || err != nil || c.Writer.Size() != 3 {
				t.Errorf("wrote %d of %d, %v", n, c.Writer.Size(), err)
			}
		}, 202, "all", true},
		"stream": {func(c *gin.Context) {
			c.Stream(func(w io.Writer) bool {
				_, _ = io.WriteString(w, "half")
				return false
			})
		}, 500, "tried to flush", false},
		"flush": {func(c *gin.Context) {
			if http.NewResponseController(c.Writer).Flush() == nil {
				t.Error("no error")
			}
		}, 500, "tried to flush", false},
		"hijack": {func(c *gin.Context) {
			if _, _, err := c.Writer.Hijack(); err == nil {
				t.Error("the connection was handed over")
			}
		}, 500, "tried to hijack", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := paying{handlers{&service{Bank: new(drive.Bank)}}, test.pay}
			url := drive.Serve(t, newEngine(NewIdempotentHandler(s, memstore.New(), drive.ByUser), answerErrors))
			for range 2 {
				got := drive.Send(t, url, payment(`{"to":"b","amount":1}`), keyHeader, "k")
				if got.Status != test.status || !strings.Contains(got.Body, test.part) || strings.Contains(got.Body, "half") || test.part == "" && got.Body != "" {
					t.Errorf("%d %q, want %d %q", got.Status, got.Body, test.status, test.part)
				}
			}
			if want := map[bool]int32{true: 1, false: 2}[test.kept]; s.runs.Load() != want {
				t.Errorf("%d runs, want %d", s.runs.Load(), want)
			}
		})
	}
}

// twice runs all work twice, as stores do after a deadlock.
type twice struct{ *memstore.Store }

func (s twice) Execute(ctx context.Context, req idempotency.Request, work idempotency.Work[struct{}]) (idempotency.Result, error) {
	return s.Store.Execute(ctx, req, func(ctx context.Context, tx struct{}) (idempotency.Response, error) {
		if _, err := work(ctx, tx); err != nil {
			return idempotency.Response{}, err
		}
		return work(ctx, tx)
	})
}

// The errors of a run that was rolled back are not those of the next one.
func TestErrorsOfAnotherRun(t *testing.T) {
	t.Parallel()
	s := paying{handlers: handlers{&service{Bank: new(drive.Bank)}}}
	s.pay = func(c *gin.Context) {
		if s.runs.Load() == 1 {
			_ = c.AbortWithError(409, errors.New("not now"))
			return
		}
		c.Status(202)
	}
	url := drive.Serve(t, newEngine(NewIdempotentHandler(s, twice{memstore.New()}, drive.ByUser), answerErrors))
	if got := drive.Send(t, url, payment(`{"to":"b","amount":1}`), keyHeader, "k"); got.Status != 202 || got.Body != "" || s.runs.Load() != 2 {
		t.Errorf("%d %q after %d runs", got.Status, got.Body, s.runs.Load())
	}
}

// CloseNotify tells of a caller that has gone.
func TestCloseNotify(t *testing.T) {
	t.Parallel()
	drive.Behaviour(t, drive.Target{
		Serve: func(t *testing.T, bank *drive.Bank, opts ...idempotency.Option) string {
			t.Helper()
			h := handlers{&service{Bank: bank}}
			return serveHandlers(t, notified{h}, opts...)
		},
		Cancels: true,
	})
}

// notified waits for the notice as well as for its context.
type notified struct{ handlers }

func (n notified) CreatePayment(c *gin.Context, tx struct{}, req CreatePaymentIdempotentRequest) {
	gone := c.Writer.CloseNotify()
	n.handlers.CreatePayment(c, tx, req)
	if c.Request.Context().Err() != nil {
		<-gone
	}
}

// Gin's context can look into the request's, which looks into gin's.
func TestContextWithFallback(t *testing.T) {
	t.Parallel()
	drive.Behaviour(t, drive.Target{
		Serve: func(t *testing.T, bank *drive.Bank, opts ...idempotency.Option) string {
			t.Helper()
			engine := newEngine(NewIdempotentHandler(handlers{&service{Bank: bank}}, memstore.New(), drive.ByUser, opts...))
			engine.ContextWithFallback = true
			return drive.Serve(t, engine)
		},
		Cancels: cancels,
	})
}
