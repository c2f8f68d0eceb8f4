package api

import (
	"maps"
	"net/http"
	"testing"

	"github.com/kataras/iris/v12"
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
	return serveApp(t, iris.New(), s, opts...)
}

func serveApp(t *testing.T, app *iris.Application, s IdempotentServer[struct{}], opts ...idempotency.Option) string {
	t.Helper()
	app.Logger().SetLevel("disable")
	app.UseRouter(func(c iris.Context) {
		defer func() {
			if recover() != nil {
				c.StopWithStatus(http.StatusInternalServerError)
			}
		}()
		if user := c.GetHeader("X-User"); user != "" {
			c.Values().Set("user", user)
		}
		c.Next()
	})
	RegisterHandlers(app, NewIdempotentHandler(s, memstore.New(), drive.ByUser, opts...))
	if err := app.Build(); err != nil {
		t.Fatal(err)
	}
	return drive.Serve(t, app)
}

// handlers write the answers of a service.
type handlers struct{ *service }

var _ IdempotentServer[struct{}] = handlers{}

func write(c iris.Context, a answer, err error) {
	if err != nil {
		c.StopWithError(http.StatusInternalServerError, err)
		return
	}
	maps.Copy(c.ResponseWriter().Header(), a.header)
	c.StatusCode(a.status)
	if a.body != "" {
		_, _ = c.WriteString(a.body)
	}
}

func (h handlers) CreatePayment(c iris.Context, _ struct{}, req CreatePaymentIdempotentRequest) {
	a, err := h.createPayment(c.Request().Context(), c.Request().Body, req)
	write(c, a, err)
}

func (h handlers) GetPayment(c iris.Context, paymentID openapi_types.UUID) {
	write(c, h.getPayment(paymentID), nil)
}

func (h handlers) CancelPayment(c iris.Context, _ struct{}, req CancelPaymentIdempotentRequest) {
	write(c, h.cancelPayment(req), nil)
}

func (h handlers) CloseAccount(c iris.Context, _ struct{}, req CloseAccountIdempotentRequest) {
	write(c, h.closeAccount(req), nil)
}

func (h handlers) PostRefunds(c iris.Context, _ struct{}, req PostRefundsIdempotentRequest) {
	write(c, h.postRefunds(req), nil)
}

func (h handlers) AddNote(c iris.Context, _ struct{}, req AddNoteIdempotentRequest) {
	write(c, h.addNote(req), nil)
}

func (h handlers) PutDocument(c iris.Context, _ struct{}, req PutDocumentIdempotentRequest) {
	write(c, h.putDocument(req), nil)
}

func (h handlers) SubmitForm(c iris.Context, _ struct{}, req SubmitFormIdempotentRequest) {
	write(c, h.submitForm(req), nil)
}

func (h handlers) PostParts(c iris.Context, _ struct{}, req PostPartsIdempotentRequest) {
	write(c, h.postParts(req), nil)
}

func (h handlers) PostImage(c iris.Context, _ struct{}, req PostImageIdempotentRequest) {
	write(c, h.postImage(req), nil)
}

func (h handlers) Upload(c iris.Context, _ struct{}, req UploadIdempotentRequest) {
	write(c, h.upload(req), nil)
}
