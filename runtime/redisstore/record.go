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
	token                string // where it was read by a claim
	fingerprint          string
	status               int
	header, body         []byte
	createdAt, expiresAt time.Time
}

// decode reads the fields status, scope, operation, key, fingerprint, header,
// body, created_at and expires_at.
func decode(fields []any) (*record, error) {
	var text [9]string
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
	status, err := strconv.Atoi(text[0])
	if err != nil || status < 100 || status > 999 {
		return nil, errDamaged(fmt.Sprintf("status %q", text[0]))
	}
	var times [2]time.Time
	for i := range times {
		ms, err := strconv.ParseInt(text[7+i], 10, 64)
		if err != nil {
			return nil, errDamaged(fmt.Sprintf("time %q", text[7+i]))
		}
		times[i] = time.UnixMilli(ms).UTC()
	}
	return &record{
		Identity:    idempotency.Identity{Scope: text[1], Operation: text[2], Key: text[3]},
		fingerprint: text[4],
		status:      status,
		header:      []byte(text[5]),
		body:        []byte(text[6]),
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
