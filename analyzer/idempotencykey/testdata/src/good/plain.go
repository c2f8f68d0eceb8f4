package good

import (
	"net/http"

	"shop/api"
	"shop/db"

	"github.com/gin-gonic/gin"
	"github.com/gofiber/fiber/v2"
	"github.com/jackc/pgx/v5"
)

type written struct {
	service

	ofRequest func(r *http.Request) db.DBTX
	ofGin     func(c *gin.Context) db.DBTX
	ofFiber   func(c *fiber.Ctx) db.DBTX
}

func (s written) CreatePayment(w http.ResponseWriter, r *http.Request, tx pgx.Tx, req api.CreatePaymentIdempotentRequest) {
	tx.Exec(r.Context(), "INSERT INTO payments DEFAULT VALUES")
	s.ofRequest(r).Exec(r.Context(), "INSERT INTO payments DEFAULT VALUES") // it may be the transaction
}

func (s written) createPayment(c *gin.Context, tx pgx.Tx, req api.CreatePaymentIdempotentRequest) {
	s.ofGin(c).Exec(c.Request.Context(), "INSERT INTO payments DEFAULT VALUES") // it may be the transaction
}

func (s written) cancelPayment(c *fiber.Ctx, tx pgx.Tx, req api.CreatePaymentIdempotentRequest) {
	s.ofFiber(c).Exec(c.UserContext(), "INSERT INTO payments DEFAULT VALUES") // it may be the transaction
	tx.Exec(c.UserContext(), "INSERT INTO payments DEFAULT VALUES")
}

// A function that is no handler may be run without a transaction.
func (s written) record(name string, tx pgx.Tx, req api.CreatePaymentIdempotentRequest) { // want record:"writes\\(package\\)"
	db.Log(nil, name)
}
