package api

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
)

// keyed counts what it executes.
type keyed struct {
	IdempotentServer[struct{}]
	runs atomic.Int32
}

func (s *keyed) UuidKey(context.Context, struct{}, UuidKeyIdempotentRequest) (UuidKeyResponseObject, error) {
	s.runs.Add(1)
	return UuidKey204Response{}, nil
}

func (s *keyed) Uuidv7Key(context.Context, struct{}, Uuidv7KeyIdempotentRequest) (Uuidv7KeyResponseObject, error) {
	s.runs.Add(1)
	return Uuidv7Key204Response{}, nil
}

func newKeyed(t *testing.T) (*keyed, IdempotentClient) {
	t.Helper()
	s := new(keyed)
	srv := httptest.NewServer(Handler(NewIdempotentHandler(s, memstore.New(), idempotency.Unscoped)))
	t.Cleanup(srv.Close)
	client, err := NewIdempotentClient(srv.URL, WithClientOptions(WithHTTPClient(srv.Client())))
	if err != nil {
		t.Fatal(err)
	}
	return s, client
}

// The key goes into the field that the marker names. A document that declares
// the field too makes a parameter of it, which may be left out or be the same.
func TestClientWithDeclaredKey(t *testing.T) {
	t.Parallel()
	s, client := newKeyed(t)
	key := NewUuidKeyIdempotencyKey()
	upper, other := strings.ToUpper(key.String()), NewUuidKeyIdempotencyKey().String()
	for i, parameter := range []*string{nil, new(string), &upper} {
		got, err := client.UuidKey(t.Context(), NewUuidKeyIdempotentRequest(key, UuidKeyInput{Params: UuidKeyParams{XRequestToken: parameter}}))
		if err != nil || got.StatusCode() != 204 || got.Replayed() != (i > 0) {
			t.Errorf("%d: %+v, %v", i, got, err)
		}
	}
	_, err := client.UuidKey(t.Context(), NewUuidKeyIdempotentRequest(key, UuidKeyInput{Params: UuidKeyParams{XRequestToken: &other}}))
	var e *idempotency.CallError
	if !errors.As(err, &e) || e.Attempts != 0 || !strings.Contains(err.Error(), "leave the parameter out") {
		t.Errorf("another key: %v", err)
	}
	if s.runs.Load() != 1 {
		t.Errorf("executed %d times", s.runs.Load())
	}
}

// A key older than its records leaves the caller to find out what has become of
// the request: asking again does not help, and a new key could do it twice.
func TestClientWithExpiredKey(t *testing.T) {
	t.Parallel()
	s, client := newKeyed(t)
	key, err := ParseUuidv7KeyIdempotencyKey("0190a3b5-7e64-7cc3-8c2a-0123456789ab") // of 2024
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Uuidv7Key(t.Context(), NewUuidv7KeyIdempotentRequest(key, Uuidv7KeyInput{}))
	var e *idempotency.CallError
	if !errors.As(err, &e) || !errors.Is(err, idempotency.ErrExpired) || e.Attempts != 1 || !e.OutcomeUnknown || s.runs.Load() != 0 {
		t.Errorf("%v, executed %d times", err, s.runs.Load())
	}
	if err != nil && !strings.Contains(err.Error(), "find out by other means before you use a new key") {
		t.Error(err)
	}
}
