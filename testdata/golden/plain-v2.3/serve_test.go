package api

import (
	"context"
	"io"
	"maps"
	"net/http"
	"testing"

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
	next := Handler(NewIdempotentHandler(handlers{s}, memstore.New(), drive.ByUser, opts...))
	return drive.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if recover() != nil {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}()
		if user := r.Header.Get("X-User"); user != "" {
			r = r.WithContext(context.WithValue(r.Context(), drive.UserKey, user))
		}
		next.ServeHTTP(w, r)
	}))
}

// handlers write the answers of a service.
type handlers struct{ *service }

var _ IdempotentServer[struct{}] = handlers{}

func write(w http.ResponseWriter, a answer, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	maps.Copy(w.Header(), a.header)
	w.WriteHeader(a.status)
	if a.body != "" {
		_, _ = io.WriteString(w, a.body)
	}
}

func (h handlers) CreatePayment(w http.ResponseWriter, r *http.Request, _ struct{}, req CreatePaymentIdempotentRequest) {
	a, err := h.createPayment(r.Context(), r.Body, req)
	write(w, a, err)
}

func (h handlers) GetPayment(w http.ResponseWriter, _ *http.Request, paymentID openapi_types.UUID) {
	write(w, h.getPayment(paymentID), nil)
}

func (h handlers) CancelPayment(w http.ResponseWriter, _ *http.Request, _ struct{}, req CancelPaymentIdempotentRequest) {
	write(w, h.cancelPayment(req), nil)
}

func (h handlers) CloseAccount(w http.ResponseWriter, _ *http.Request, _ struct{}, req CloseAccountIdempotentRequest) {
	write(w, h.closeAccount(req), nil)
}

func (h handlers) PostRefunds(w http.ResponseWriter, _ *http.Request, _ struct{}, req PostRefundsIdempotentRequest) {
	write(w, h.postRefunds(req), nil)
}

func (h handlers) AddNote(w http.ResponseWriter, _ *http.Request, _ struct{}, req AddNoteIdempotentRequest) {
	write(w, h.addNote(req), nil)
}

func (h handlers) PutDocument(w http.ResponseWriter, _ *http.Request, _ struct{}, req PutDocumentIdempotentRequest) {
	write(w, h.putDocument(req), nil)
}

func (h handlers) SubmitForm(w http.ResponseWriter, _ *http.Request, _ struct{}, req SubmitFormIdempotentRequest) {
	write(w, h.submitForm(req), nil)
}

func (h handlers) PostParts(w http.ResponseWriter, _ *http.Request, _ struct{}, req PostPartsIdempotentRequest) {
	write(w, h.postParts(req), nil)
}

func (h handlers) PostImage(w http.ResponseWriter, _ *http.Request, _ struct{}, req PostImageIdempotentRequest) {
	write(w, h.postImage(req), nil)
}

func (h handlers) Upload(w http.ResponseWriter, _ *http.Request, _ struct{}, req UploadIdempotentRequest) {
	write(w, h.upload(req), nil)
}
