package api

import (
	"net"
	"testing"

	"github.com/gofiber/fiber/v3"
	recoverer "github.com/gofiber/fiber/v3/middleware/recover"
)

// The names that differ between the versions of fiber.
type (
	config       = fiber.Config
	cookie       = fiber.Cookie
	fiberContext = fiber.Ctx
)

var (
	newError   = fiber.NewError
	contextOf  = fiber.Ctx.Context
	fasthttpOf = fiber.Ctx.RequestCtx
)

// serveWith starts a server of handler, behind middlewares that say who the
// caller is and answer panics and before handlers that come after it, and returns
// its URL.
func serveWith(t *testing.T, c config, handler ServerInterface, after ...func(fiberContext) error) string {
	t.Helper()
	app := fiber.New(c)
	app.Use(recoverer.New(), around(t))
	RegisterHandlers(app, handler)
	for _, next := range after {
		app.Use(next)
	}
	return start(t, func(l net.Listener) error {
		return app.Listener(l, fiber.ListenConfig{DisableStartupMessage: true})
	}, app.Shutdown)
}

// start starts a server on a port of its own and stops it with the test.
func start(t *testing.T, listen func(net.Listener) error, shutdown func() error) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- listen(listener) }()
	t.Cleanup(func() {
		if err := shutdown(); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return "http://" + listener.Addr().String()
}
