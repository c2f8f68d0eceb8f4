package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/idemgen/idemgen/runtime/memstore"
	"github.com/idemgen/idemgen/testdata/drive"
)

// paying has a handler of its own for payments.
type paying struct {
	handlers
	pay func(c echo.Context) error
}

func (p paying) CreatePayment(c echo.Context, _ struct{}, _ CreatePaymentIdempotentRequest) error {
	p.runs.Add(1)
	return p.pay(c)
}

// What echo's handlers can do ends in an answer that is kept, or in one of
// echo's error handler and a key that is free.
func TestEcho(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pay    func(c echo.Context) error
		status int
		part   string // of the body
		kept   bool
	}{
		"json":       {func(c echo.Context) error { return c.JSON(201, map[string]int{"a": 1}) }, 201, "{\"a\":1}\n", true},
		"nothing":    {func(echo.Context) error { return nil }, 200, "", true},
		"an error":   {func(echo.Context) error { return echo.NewHTTPError(409, "not now") }, 409, "not now", false},
		"half of it": {func(c echo.Context) error { _ = c.String(200, "half"); return echo.ErrInternalServerError }, 500, "Internal", false},
		"released":   {func(c echo.Context) error { return c.String(429, "slowly") }, 429, "slowly", false},
		"business":   {func(c echo.Context) error { return c.String(422, "no money") }, 422, "no money", true},
		"flush": {func(c echo.Context) error {
			_ = c.String(200, "half")
			c.Response().Flush()
			return nil
		}, 500, "tried to flush", false},
		"hijack": {func(c echo.Context) error {
			_, _, err := http.NewResponseController(c.Response()).Hijack()
			if err == nil {
				t.Error("the connection was handed over")
			}
			return nil
		}, 500, "tried to hijack", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := paying{handlers{&service{Bank: new(drive.Bank)}}, test.pay}
			url := serveHandlers(t, s)
			for range 2 {
				got := drive.Send(t, url, payment(`{"to":"b","amount":1}`), keyHeader, "k")
				if got.Status != test.status || !strings.Contains(got.Body, test.part) || strings.Contains(got.Body, "half") {
					t.Errorf("%d %s, want %d %s", got.Status, got.Body, test.status, test.part)
				}
			}
			if want := map[bool]int32{true: 1, false: 2}[test.kept]; s.runs.Load() != want {
				t.Errorf("%d runs, want %d", s.runs.Load(), want)
			}
		})
	}
}

// Middlewares see the answer in echo's response.
func TestResponseOfMiddlewares(t *testing.T) {
	t.Parallel()
	e := echo.New()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			c.Set("user", "alice")
			if err := next(c); err != nil {
				return err
			}
			if r := c.Response(); r.Status != 201 || r.Size == 0 || !r.Committed {
				t.Errorf("status %d, %d bytes, committed %t", r.Status, r.Size, r.Committed)
			}
			return nil
		}
	})
	RegisterHandlers(e, NewIdempotentHandler(handlers{&service{Bank: new(drive.Bank)}}, memstore.New(), drive.ByUser))
	srv := httptest.NewServer(e)
	t.Cleanup(srv.Close)
	for range 2 {
		if got := drive.Send(t, srv.URL, payment(`{"to":"b","amount":1}`), keyHeader, "k"); got.Status != 201 {
			t.Errorf("%d %s", got.Status, got.Body)
		}
	}
}
