package api

import (
	"net"
	"testing"

	"github.com/gofiber/fiber/v2"
	recoverer "github.com/gofiber/fiber/v2/middleware/recover"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
	"github.com/idemgen/idemgen/testdata/drive"
)

// cancels: fiber does not learn that a caller has gone before it answers.
const cancels = false

// The names that differ between the versions of fiber.
type (
	config       = fiber.Config
	fiberContext = *fiber.Ctx
)

// serve serves s behind middlewares that say who the caller is and answer panics.
func serve(t *testing.T, s *server, opts ...idempotency.Option) string {
	t.Helper()
	return serveWith(t, config{}, NewIdempotentHandler(s, memstore.New(), drive.ByUser, opts...))
}

// serveWith starts a server of handler and returns its URL.
func serveWith(t *testing.T, c config, handler ServerInterface) string {
	t.Helper()
	c.DisableStartupMessage = true
	app := fiber.New(c)
	app.Use(recoverer.New(), func(c *fiber.Ctx) error {
		if user := c.Get("X-User"); user != "" {
			c.Locals("user", user)
			c.Locals("caller", caller{user})
		}
		c.Set("Location", "/") // until an answer says another
		return c.Next()
	})
	RegisterHandlers(app, handler)
	return start(t, app.Listener, app.Shutdown)
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

// strictServers are ways to leave the strict server as it is.
func strictServers() map[string][]idempotency.Option {
	return map[string][]idempotency.Option{
		"none":  nil,
		"empty": {WithStrictServer()},
	}
}
