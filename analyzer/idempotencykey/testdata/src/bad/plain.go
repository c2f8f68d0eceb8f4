package bad

import (
	"net/http"

	"shop/api"

	"github.com/gin-gonic/gin"
	"github.com/gofiber/fiber/v2"
	fiber3 "github.com/gofiber/fiber/v3"
	"github.com/jackc/pgx/v5"
	"github.com/labstack/echo/v4"
)

// Servers without a strict one have handlers of their framework.

type written struct{ service }

func (s written) CreatePayment(w http.ResponseWriter, r *http.Request, tx pgx.Tx, req api.CreatePaymentIdempotentRequest) {
	s.pool.Exec(r.Context(), "INSERT INTO payments DEFAULT VALUES") // want `this handler writes through s.pool`
	s.queries.InsertOrder(r.Context(), 1)                           // want `s.queries.InsertOrder writes through s.queries`
	key := api.NewCreatePaymentIdempotencyKey()                     // want `this handler makes a new key for a call`
	s.payments.CreatePayment(r.Context(), api.NewCreatePaymentIdempotentRequest(key, req.Input()))
}

type echoed struct{ service }

func (s echoed) CreatePayment(c echo.Context, tx pgx.Tx, req api.CreatePaymentIdempotentRequest) error {
	_, err := s.pool.Exec(c.Request().Context(), "INSERT INTO payments DEFAULT VALUES") // want `this handler writes through s.pool`
	return err
}

type gins struct{ service }

func (s gins) CreatePayment(c *gin.Context, tx pgx.Tx, req api.CreatePaymentIdempotentRequest) {
	s.pool.Exec(c.Request.Context(), "INSERT INTO payments DEFAULT VALUES") // want `this handler writes through s.pool`
}

type fibers struct{ service }

func (s fibers) CreatePayment(c *fiber.Ctx, tx pgx.Tx, req api.CreatePaymentIdempotentRequest) error {
	_, err := s.pool.Exec(c.UserContext(), "INSERT INTO payments DEFAULT VALUES") // want `this handler writes through s.pool`
	return err
}

type fibers3 struct{ service }

func (s fibers3) CreatePayment(c fiber3.Ctx, tx pgx.Tx, req api.CreatePaymentIdempotentRequest) error {
	_, err := s.pool.Exec(c.Context(), "INSERT INTO payments DEFAULT VALUES") // want `this handler writes through s.pool`
	return err
}
