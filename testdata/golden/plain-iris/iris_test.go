package api

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/kataras/iris/v12"

	"github.com/idemgen/idemgen/testdata/drive"
)

// paying has a handler of its own for payments.
type paying struct {
	handlers
	pay iris.Handler
}

func (p paying) CreatePayment(c iris.Context, _ struct{}, _ CreatePaymentIdempotentRequest) {
	p.runs.Add(1)
	p.pay(c)
}

// What iris's handlers can do ends in an answer that is kept, or in a key that
// is free. So it does behind a middleware that records.
func TestIris(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pay    iris.Handler
		status int
		part   string // of the body
		kept   bool
	}{
		"json":     {func(c iris.Context) { c.StatusCode(201); _ = c.JSON(iris.Map{"a": 1}) }, 201, `{"a":1}`, true},
		"nothing":  {func(iris.Context) {}, 200, "", true},
		"status":   {func(c iris.Context) { c.StatusCode(202) }, 202, "", true},
		"no body":  {func(c iris.Context) { c.StatusCode(404) }, 404, "Not Found", true},
		"stopped":  {func(c iris.Context) { c.StopWithText(409, "not now") }, 409, "not now", true},
		"released": {func(c iris.Context) { c.StopWithText(503, "busy") }, 503, "busy", false},
		"recorded": {func(c iris.Context) { c.Record(); c.StatusCode(201); _, _ = c.WriteString("all") }, 201, "all", true},
		"what middlewares have set": {func(c iris.Context) {
			_, _ = c.Writef("%s %s %s", c.Values().GetString("user"), c.Params().Get("account_id"), c.GetCurrentRoute().Method())
		}, 200, "alice a POST", true},
		"flush": {func(c iris.Context) {
			_, _ = c.WriteString("half")
			c.ResponseWriter().Flush()
		}, 500, "tried to flush", false},
		"stream": {func(c iris.Context) {
			_ = c.StreamWriter(func(w io.Writer) error {
				_, err := io.WriteString(w, "half")
				return err
			})
		}, 500, "", false},
	} {
		for _, record := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := paying{handlers{&service{Bank: new(drive.Bank)}}, test.pay}
				app := iris.New()
				app.Use(func(c iris.Context) {
					if record {
						c.Record()
					}
					c.Next()
				})
				url := serveApp(t, app, s)
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
}

// What a handler sets is there for what comes after it.
func TestAfterwards(t *testing.T) {
	t.Parallel()
	var after, stopped string
	app := iris.New()
	app.UseGlobal(func(c iris.Context) {
		c.Next()
		after = c.Values().GetString("set")
		if c.IsStopped() {
			stopped = "stopped"
		}
	})
	s := paying{handlers{&service{Bank: new(drive.Bank)}}, func(c iris.Context) {
		c.Values().Set("set", "here")
		c.StopWithStatus(http.StatusAccepted)
	}}
	if got := drive.Send(t, serveApp(t, app, s), payment(`{"to":"b","amount":1}`), keyHeader, "k"); got.Status != http.StatusAccepted || after != "here" || stopped != "stopped" {
		t.Errorf("%d %s, after: %q, %q", got.Status, got.Body, after, stopped)
	}
}
