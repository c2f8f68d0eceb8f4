package dynamostore

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// The attributes of an item. A claim has a lease and no status, a stored answer
// a status and no lease. An attribute whose value is empty is left out.
const (
	attrID          = "id"
	attrToken       = "token"
	attrScope       = "scope"
	attrOperation   = "operation"
	attrKey         = "key"
	attrLeaseUntil  = "lease_until" // in ms since 1970, as all times but the ttl
	attrStatus      = "status"
	attrFingerprint = "fingerprint"
	attrHeader      = "header"
	attrBody        = "body"
	attrBytes       = "answer_bytes" // of header and body, for those who list
	attrCreatedAt   = "created_at"
	attrExpiresAt   = "expires_at"
	attrTTL         = "ttl" // in s, from when on DynamoDB deletes the item
)

// item is what DynamoDB stores.
type item map[string]types.AttributeValue

func (i item) setString(name, v string) {
	if v != "" {
		i[name] = &types.AttributeValueMemberS{Value: v}
	}
}

func (i item) setBytes(name string, v []byte) {
	if len(v) > 0 {
		i[name] = &types.AttributeValueMemberB{Value: v}
	}
}

// has reports whether the attribute is this string.
func (i item) has(name, v string) bool {
	s, ok := i[name].(*types.AttributeValueMemberS)
	return ok && s.Value == v
}

func (i item) setTime(name string, t time.Time) { i[name] = number(t.UnixMilli()) }

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

// ttlGrace keeps DynamoDB, whose clock is not ours, from deleting what is still
// live.
const ttlGrace = 10 * time.Minute

// ttl is the value of the time to live of what ends at t.
func ttl(t time.Time) types.AttributeValue { return number(t.Add(ttlGrace).Unix()) }

// newItem returns an item of the attempt without what makes it a claim or an
// answer.
func (a *attempt) newItem() item {
	i := item{}
	i.setString(attrID, a.id)
	i.setString(attrToken, a.token)
	i.setString(attrScope, a.Scope)
	i.setString(attrOperation, a.Operation)
	i.setString(attrKey, a.Key)
	return i
}

// record is an item that was read.
type record struct {
	idempotency.Identity
	token                string
	leaseUntil           time.Time // of a claim
	fingerprint          []byte
	status               int // 0 for a claim
	header, body         []byte
	bytes                int64 // of header and body, which may not have been read
	createdAt, expiresAt time.Time
}

// version is [idempotency.Entry.Version]. An answer keeps the token of its claim.
func (r *record) version() string {
	if r.status == 0 {
		return "claim " + r.token
	}
	return "answer " + r.token
}

// decode reads an item.
func decode(i item) (*record, error) {
	d := decoder{item: i}
	r := &record{
		Identity: idempotency.Identity{Scope: d.text(attrScope), Operation: d.text(attrOperation), Key: d.text(attrKey)},
		token:    d.text(attrToken),
	}
	if r.token == "" {
		d.fail(attrToken)
	}
	if _, answered := i[attrStatus]; !answered {
		r.leaseUntil = d.time(attrLeaseUntil)
		return r, d.err
	}
	r.status = int(d.number(attrStatus))
	if r.status < 100 || r.status > 999 {
		d.fail(attrStatus)
	}
	r.fingerprint = d.bytes(attrFingerprint)
	r.header, r.body = d.bytes(attrHeader), d.bytes(attrBody)
	if i[attrBytes] != nil {
		r.bytes = d.number(attrBytes)
	}
	r.createdAt, r.expiresAt = d.time(attrCreatedAt), d.time(attrExpiresAt)
	return r, d.err
}

// decoder reads attributes and keeps the first error.
type decoder struct {
	item item
	err  error
}

func (d *decoder) fail(name string) {
	if d.err == nil {
		d.err = errDamaged(fmt.Sprintf("attribute %q is missing or of another kind", name))
	}
}

func (d *decoder) text(name string) string {
	switch v := d.item[name].(type) {
	case nil:
		return ""
	case *types.AttributeValueMemberS:
		return v.Value
	}
	d.fail(name)
	return ""
}

func (d *decoder) bytes(name string) []byte {
	switch v := d.item[name].(type) {
	case nil:
		return nil
	case *types.AttributeValueMemberB:
		return v.Value
	}
	d.fail(name)
	return nil
}

func (d *decoder) number(name string) int64 {
	v, ok := d.item[name].(*types.AttributeValueMemberN)
	if !ok {
		d.fail(name)
		return 0
	}
	n, err := strconv.ParseInt(v.Value, 10, 64)
	if err != nil {
		d.fail(name)
	}
	return n
}

func (d *decoder) time(name string) time.Time { return time.UnixMilli(d.number(name)).UTC() }

// answer replays r to req, unless it belongs to another request. Two
// identities that share an id are told apart here.
func (r *record) answer(ctx context.Context, c idempotency.Codec, req idempotency.Request) (idempotency.Result, error) {
	if r.Identity != req.Identity || !req.Matches(r.fingerprint) {
		return idempotency.Result{}, idempotency.ErrMismatch
	}
	resp, err := r.response(ctx, c)
	return idempotency.Result{Response: resp, Replayed: err == nil}, err
}

// response decodes the stored answer.
func (r *record) response(ctx context.Context, c idempotency.Codec) (idempotency.Response, error) {
	return idempotency.DecodeAnswer(ctx, c, idempotency.StoredAnswer{
		Identity: r.Identity, Fingerprint: r.fingerprint, Status: r.status, Header: r.header, Body: r.body,
	})
}
