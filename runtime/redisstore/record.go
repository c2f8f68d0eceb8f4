package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// record is a stored answer as the scripts return it.
type record struct {
	idempotency.Identity
	token                string // of its claim
	fingerprint          string
	status               int
	header, body         []byte
	createdAt, expiresAt time.Time
}

// decode reads the fields token, status, scope, operation, key, fingerprint,
// header, body, created_at and expires_at.
func decode(fields []any) (*record, error) {
	var text [10]string
	if len(fields) != len(text) {
		return nil, errDamaged(fmt.Sprintf("%d fields", len(fields)))
	}
	for i, f := range fields {
		s, ok := f.(string)
		if !ok {
			return nil, errDamaged(fmt.Sprintf("field %d is missing", i))
		}
		text[i] = s
	}
	status, err := strconv.Atoi(text[1])
	if err != nil || status < 100 || status > 999 {
		return nil, errDamaged(fmt.Sprintf("status %q", text[1]))
	}
	var times [2]time.Time
	for i := range times {
		ms, err := strconv.ParseInt(text[8+i], 10, 64)
		if err != nil {
			return nil, errDamaged(fmt.Sprintf("time %q", text[8+i]))
		}
		times[i] = time.UnixMilli(ms).UTC()
	}
	return &record{
		Identity:    idempotency.Identity{Scope: text[2], Operation: text[3], Key: text[4]},
		token:       text[0],
		fingerprint: text[5],
		status:      status,
		header:      []byte(text[6]),
		body:        []byte(text[7]),
		createdAt:   times[0],
		expiresAt:   times[1],
	}, nil
}

// answer replays r to req, unless it belongs to another request. Two
// identities that share an id are told apart here.
func (r *record) answer(ctx context.Context, c idempotency.Codec, req idempotency.Request) (idempotency.Result, error) {
	if r.Identity != req.Identity || !req.Matches([]byte(r.fingerprint)) {
		return idempotency.Result{}, idempotency.ErrMismatch
	}
	resp, err := r.response(ctx, c)
	return idempotency.Result{Response: resp, Replayed: err == nil}, err
}

// response decodes the stored answer.
func (r *record) response(ctx context.Context, c idempotency.Codec) (idempotency.Response, error) {
	return idempotency.DecodeAnswer(ctx, c, idempotency.StoredAnswer{
		Identity: r.Identity, Fingerprint: []byte(r.fingerprint), Status: r.status, Header: r.header, Body: r.body,
	})
}
