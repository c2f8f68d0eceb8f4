package api

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
	"github.com/idemgen/idemgen/testdata/drive"
)

// Every setting of a marker reaches the runtime.
//
// Covers GEN-14.
func TestOperations(t *testing.T) {
	t.Parallel()
	byDefault := func(change func(*idempotency.Operation)) idempotency.Operation {
		o := idempotency.Operation{
			Method:    "POST",
			Key:       idempotency.KeyRule{Header: "Idempotency-Key", MaxLength: 255},
			Retention: 36 * time.Hour,
			Release:   []int{401, 403, 408, 425, 429, -5},
		}
		change(&o)
		return o
	}
	json := []idempotency.Body{{MediaType: "application/json", Kind: idempotency.BodyJSON}}
	for _, test := range []struct {
		got  *idempotency.Operation
		want idempotency.Operation
	}{
		{UuidKeyOp{}.Operation(), byDefault(func(o *idempotency.Operation) {
			o.ID, o.Path = "uuidKey", "/uuid"
			o.Key = idempotency.KeyRule{Header: "X-Request-Token", Format: idempotency.KeyUUID, MaxLength: 255}
			o.Parameters.Headers = []string{"X-Other"}
		})},
		{Uuidv7KeyOp{}.Operation(), byDefault(func(o *idempotency.Operation) {
			o.ID, o.Path = "uuidv7Key", "/uuidv7"
			o.Key.Format = idempotency.KeyUUIDv7
			o.Retention = 7 * 24 * time.Hour
		})},
		{RawFingerprintOp{}.Operation(), byDefault(func(o *idempotency.Operation) {
			o.ID, o.Path, o.Bodies = "rawFingerprint", "/raw", json
			o.Fingerprint.Raw = true
		})},
		{ExcludingOp{}.Operation(), byDefault(func(o *idempotency.Operation) {
			o.ID, o.Path, o.Bodies = "excluding", "/exclude", json
			o.Fingerprint.Exclude = []string{"/sent_at", "header:X-Trace", "query:t"}
			o.Parameters.Headers = []string{"X-Trace"}
		})},
		{IncludingOp{}.Operation(), byDefault(func(o *idempotency.Operation) {
			o.ID, o.Path, o.Bodies = "including", "/include", json
			o.Fingerprint.Include = []string{"/amount"}
		})},
		{WaitingOp{}.Operation(), byDefault(func(o *idempotency.Operation) {
			o.ID, o.Path = "waiting", "/wait"
			o.WaitUpTo = 1500 * time.Millisecond
			o.Release = []int{409, -4}
		})},
		{KeepAllOp{}.Operation(), byDefault(func(o *idempotency.Operation) {
			o.ID, o.Path, o.Release = "keepAll", "/keep-all", nil
		})},
		{FromConfigOp{}.Operation(), byDefault(func(o *idempotency.Operation) {
			o.ID, o.Path, o.Retention = "fromConfig", "/from-config", 90*time.Second
		})},
		{ShortKeyOp{}.Operation(), byDefault(func(o *idempotency.Operation) {
			o.ID, o.Path, o.Key.MaxLength = "shortKey", "/short", 25
		})},
		{JustRandomKeyOp{}.Operation(), byDefault(func(o *idempotency.Operation) {
			o.ID, o.Path, o.Key.MaxLength = "justRandomKey", "/just-random", 26
		})},
		{PostNamelessOp{}.Operation(), byDefault(func(o *idempotency.Operation) {
			o.ID, o.Path = "POST /nameless", "/nameless"
		})},
	} {
		if !reflect.DeepEqual(*test.got, test.want) {
			t.Errorf("got  %+v\nwant %+v", *test.got, test.want)
		}
	}
}

type server struct {
	IdempotentServer[struct{}]
	runs atomic.Int32
}

func (s *server) RawFingerprint(_ context.Context, _ struct{}, req RawFingerprintIdempotentRequest) (RawFingerprintResponseObject, error) {
	if req.Input().Body != (RawFingerprintJSONRequestBody{}) {
		return nil, errors.New("there is a body")
	}
	s.runs.Add(1)
	return RawFingerprint204Response{}, nil
}

func (s *server) TokenKey(context.Context, struct{}, TokenKeyIdempotentRequest) (TokenKeyResponseObject, error) {
	s.runs.Add(1)
	return TokenKey204Response{}, nil
}

func TestKeyInAnotherHeader(t *testing.T) {
	t.Parallel()
	s := new(server)
	drive.Run(t, drive.Serve(t, Handler(NewIdempotentHandler(s, memstore.New(), idempotency.Unscoped))), drive.Operation{
		Request:   drive.Request{Method: "POST", Path: "/token"},
		Status:    204,
		KeyHeader: "X-Request-Token",
		Key:       "0190163d-8694-739b-aea5-966c26f8ad91",
		Runs:      func() int { return int(s.runs.Load()) },
	})
}

// Where there is a function for new keys, it makes keys that the server takes.
func TestNewKeyOfFewBytes(t *testing.T) {
	t.Parallel()
	key := NewJustRandomKeyIdempotencyKey()
	if got, err := ParseJustRandomKeyIdempotencyKey(key.String()); err != nil || got != key {
		t.Errorf("parsing %s: %s, %v", key, got, err)
	}
}

// A required body that does not arrive, as from code of an older document, is
// empty: the handler runs and decides.
func TestBodyIsMissing(t *testing.T) {
	t.Parallel()
	dropBody := func(next StrictHandlerFunc, _ string) StrictHandlerFunc {
		return func(ctx context.Context, w http.ResponseWriter, r *http.Request, _ any) (any, error) {
			return next(ctx, w, r, RawFingerprintRequestObject{})
		}
	}
	s := new(server)
	srv := httptest.NewServer(Handler(NewIdempotentHandler(s, memstore.New(), idempotency.Unscoped, WithStrictServer(StrictHTTPServerOptions{}, dropBody))))
	t.Cleanup(srv.Close)
	request := drive.Request{Method: "POST", Path: "/raw", ContentType: "application/json", Body: `{"request_id":"a","amount":1}`}
	if got := drive.Send(t, srv.URL, request, "Idempotency-Key", "k"); got.Status != 204 || s.runs.Load() != 1 {
		t.Errorf("status %d, %d runs: %s", got.Status, s.runs.Load(), got.Body)
	}
}
