package pgxstore

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// record is a row of the table as it was read.
type record struct {
	idempotency.Identity
	Fingerprint          []byte
	status               int
	header, body         []byte
	createdAt, expiresAt time.Time
	expired              bool

	token      idempotency.LeaseToken // of the lease that made it, or zero
	leaseUntil time.Time              // zero in a stored answer
	passed     bool                   // the lease
}

// claim reports whether r is the claim of a lease.
func (r *record) claim() bool { return !r.leaseUntil.IsZero() }

// placeholder reports whether r is the row of a claim made without advisory
// locks, and so no record.
func (r *record) placeholder() bool { return r.status == 0 && !r.claim() }

// of says why r cannot be the record of req, or nil. Another identity with the
// same 16 bytes is a mismatch, never its record.
func (r *record) of(req idempotency.Request) error {
	if r.Identity != req.Identity || !req.Matches(r.Fingerprint) {
		return idempotency.ErrMismatch
	}
	return nil
}

// answers says why r holds no answer to req, or nil.
func (r *record) answers(req idempotency.Request) error {
	if err := r.of(req); err != nil || !r.claim() {
		return err
	}
	return idempotency.ErrInFlight
}

// response decodes the stored answer.
func (r *record) response(ctx context.Context, c idempotency.Codec) (idempotency.Response, error) {
	return idempotency.DecodeAnswer(ctx, c, idempotency.StoredAnswer{
		Identity: r.Identity, Fingerprint: r.Fingerprint, Status: r.status, Header: r.header, Body: r.body,
	})
}

var errProtocol = errors.New("pgxstore: the server's answer does not have the expected columns")

// decodeRecord decodes the columns of the row statement, in binary format.
func decodeRecord(v [][]byte) (*record, error) {
	if len(v) != 13 || len(v[4]) != 2 || len(v[7]) != 8 || len(v[8]) != 8 || len(v[9]) != 1 ||
		v[10] != nil && len(v[10]) != 16 || v[11] != nil && len(v[11]) != 8 || v[11] != nil && len(v[12]) != 1 {
		return nil, errProtocol
	}
	r := &record{
		Identity:    idempotency.Identity{Scope: string(v[0]), Operation: string(v[1]), Key: string(v[2])},
		Fingerprint: slices.Clone(v[3]),
		status:      int(int16(binary.BigEndian.Uint16(v[4]))),
		header:      slices.Clone(v[5]),
		body:        slices.Clone(v[6]),
		createdAt:   decodeTime(v[7]),
		expiresAt:   decodeTime(v[8]),
		expired:     v[9][0] == 1,
	}
	copy(r.token[:], v[10])
	if v[11] != nil {
		r.leaseUntil, r.passed = decodeTime(v[11]), v[12][0] == 1
	}
	return r, nil
}

// epoch is the Unix time, in microseconds, from which the server counts the
// microseconds of its binary timestamps: 1 January 2000, UTC.
const epoch = 946_684_800_000_000

func decodeTime(b []byte) time.Time {
	return time.UnixMicro(int64(binary.BigEndian.Uint64(b)) + epoch).UTC()
}

func decodeUint4(b []byte) uint32 { return binary.BigEndian.Uint32(b) }

func encodeInt8(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

func encodeBool(b bool) []byte {
	if b {
		return []byte{1}
	}
	return []byte{0}
}

func encodeInt2(n int) []byte { return binary.BigEndian.AppendUint16(nil, uint16(n)) }

// encodeInterval encodes d, rounded up to the microsecond, as an interval
// without days and months: a day in it is 24 hours in every time zone.
func encodeInterval(d time.Duration) []byte {
	us := int64(d / time.Microsecond)
	if d%time.Microsecond > 0 && us < math.MaxInt64 {
		us++
	}
	return append(encodeInt8(us), 0, 0, 0, 0, 0, 0, 0, 0)
}
