package api

import (
	"maps"
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"
	openapi_types "github.com/oapi-codegen/runtime/types"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
	"github.com/idemgen/idemgen/testdata/drive"
)

// cancels: net/http ends the context of a request whose caller has gone.
const cancels = true

// serve serves s behind a middleware that says who the caller is and answers
// panics.
func serve(t *testing.T, s *service, opts ...idempotency.Option) string {
	t.Helper()
	return serveHandlers(t, handlers{s}, opts...)
}

func serveHandlers(t *testing.T, s IdempotentServer[struct{}], opts ...idempotency.Option) string {
	t.Helper()
	return drive.Serve(t, newEngine(NewIdempotentHandler(s, memstore.New(), drive.ByUser, opts...)))
}

func newEngine(s ServerInterface, after ...gin.HandlerFunc) *gin.Engine {
	engine := gin.New()
	engine.Use(func(c *gin.Context) {
		defer func() {
			if recover() != nil {
				c.AbortWithStatus(http.StatusInternalServerError)
			}
		}()
		if user := c.GetHeader("X-User"); user != "" {
			c.Set("user", user)
		}
		c.Next()
	})
	engine.Use(after...)
	RegisterHandlers(engine, s)
	return engine
}

// handlers write the answers of a service.
type handlers struct{ *service }

var _ IdempotentServer[struct{}] = handlers{}

func write(c *gin.Context, a answer, err error) {
	if err != nil {
		_ = c.Error(err)
		return
	}
	maps.Copy(c.Writer.Header(), a.header)
	if a.body == "" {
		c.Status(a.status)
		return
	}
	c.Data(a.status, a.header.Get("Content-Type"), []byte(a.body))
}

func (h handlers) CreatePayment(c *gin.Context, _ struct{}, req CreatePaymentIdempotentRequest) {
	a, err := h.createPayment(c.Request.Context(), c.Request.Body, req)
	write(c, a, err)
}

func (h handlers) GetPayment(c *gin.Context, paymentID openapi_types.UUID) {
	write(c, h.getPayment(paymentID), nil)
}

func (h handlers) CancelPayment(c *gin.Context, _ struct{}, req CancelPaymentIdempotentRequest) {
	write(c, h.cancelPayment(req), nil)
}

func (h handlers) CloseAccount(c *gin.Context, _ struct{}, req CloseAccountIdempotentRequest) {
	write(c, h.closeAccount(req), nil)
}

func (h handlers) PostRefunds(c *gin.Context, _ struct{}, req PostRefundsIdempotentRequest) {
	write(c, h.postRefunds(req), nil)
}

func (h handlers) AddNote(c *gin.Context, _ struct{}, req AddNoteIdempotentRequest) {
	write(c, h.addNote(req), nil)
}

func (h handlers) PutDocument(c *gin.Context, _ struct{}, req PutDocumentIdempotentRequest) {
	write(c, h.putDocument(req), nil)
}

func (h handlers) SubmitForm(c *gin.Context, _ struct{}, req SubmitFormIdempotentRequest) {
	write(c, h.submitForm(req), nil)
}

func (h handlers) PostParts(c *gin.Context, _ struct{}, req PostPartsIdempotentRequest) {
	write(c, h.postParts(req), nil)
}

func (h handlers) PostImage(c *gin.Context, _ struct{}, req PostImageIdempotentRequest) {
	write(c, h.postImage(req), nil)
}

func (h handlers) Upload(c *gin.Context, _ struct{}, req UploadIdempotentRequest) {
	write(c, h.upload(req), nil)
}
