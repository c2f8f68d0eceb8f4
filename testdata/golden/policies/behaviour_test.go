package api

import (
	"context"
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

func (s *server) TokenKey(context.Context, struct{}, TokenKeyIdempotentRequest) (TokenKeyResponseObject, error) {
	s.runs.Add(1)
	return TokenKey204Response{}, nil
}

func TestKeyInAnotherHeader(t *testing.T) {
	t.Parallel()
	s := new(server)
	drive.Run(t, Handler(NewIdempotentHandler(s, memstore.New(), idempotency.Unscoped)), drive.Operation{
		Request:   drive.Request{Method: "POST", Path: "/token"},
		Status:    204,
		KeyHeader: "X-Request-Token",
		Key:       "0190163d-8694-739b-aea5-966c26f8ad91",
		Runs:      func() int { return int(s.runs.Load()) },
	})
}
