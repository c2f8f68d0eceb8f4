package api

import (
	"maps"
	"testing"

	"github.com/labstack/echo/v5"
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
	e := echo.New()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) (err error) {
			defer func() {
				if recover() != nil {
					err = echo.ErrInternalServerError
				}
			}()
			if user := c.Request().Header.Get("X-User"); user != "" {
				c.Set("user", user)
			}
			request, response := c.Request(), c.Response()
			defer func() {
				if c.Request() != request || c.Response() != response {
					t.Error("request or response are not put back")
				}
			}()
			return next(c)
		}
	})
	RegisterHandlers(e, NewIdempotentHandler(s, memstore.New(), drive.ByUser, opts...))
	return drive.Serve(t, e)
}

// handlers write the answers of a service.
type handlers struct{ *service }

var _ IdempotentServer[struct{}] = handlers{}

func write(c *echo.Context, a answer, err error) error {
	if err != nil {
		return err
	}
	maps.Copy(c.Response().Header(), a.header)
	if a.body == "" {
		return c.NoContent(a.status)
	}
	return c.Blob(a.status, a.header.Get("Content-Type"), []byte(a.body))
}

func (h handlers) CreatePayment(c *echo.Context, _ struct{}, req CreatePaymentIdempotentRequest) error {
	a, err := h.createPayment(c.Request().Context(), c.Request().Body, req)
	return write(c, a, err)
}

func (h handlers) GetPayment(c *echo.Context, paymentID openapi_types.UUID) error {
	return write(c, h.getPayment(paymentID), nil)
}

func (h handlers) CancelPayment(c *echo.Context, _ struct{}, req CancelPaymentIdempotentRequest) error {
	return write(c, h.cancelPayment(req), nil)
}

func (h handlers) CloseAccount(c *echo.Context, _ struct{}, req CloseAccountIdempotentRequest) error {
	return write(c, h.closeAccount(req), nil)
}

func (h handlers) PostRefunds(c *echo.Context, _ struct{}, req PostRefundsIdempotentRequest) error {
	return write(c, h.postRefunds(req), nil)
}

func (h handlers) AddNote(c *echo.Context, _ struct{}, req AddNoteIdempotentRequest) error {
	return write(c, h.addNote(req), nil)
}

func (h handlers) PutDocument(c *echo.Context, _ struct{}, req PutDocumentIdempotentRequest) error {
	return write(c, h.putDocument(req), nil)
}

func (h handlers) SubmitForm(c *echo.Context, _ struct{}, req SubmitFormIdempotentRequest) error {
	return write(c, h.submitForm(req), nil)
}

func (h handlers) PostParts(c *echo.Context, _ struct{}, req PostPartsIdempotentRequest) error {
	return write(c, h.postParts(req), nil)
}

func (h handlers) PostImage(c *echo.Context, _ struct{}, req PostImageIdempotentRequest) error {
	return write(c, h.postImage(req), nil)
}

func (h handlers) Upload(c *echo.Context, _ struct{}, req UploadIdempotentRequest) error {
	return write(c, h.upload(req), nil)
}
