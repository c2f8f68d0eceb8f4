package sqlstore

import (
	"context"
	"strings"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// newPostgreSQLLeases writes the statements. A claim takes the advisory lock for
// as long as its statement, so that no transaction is at work.
func newPostgreSQLLeases(r *strings.Replacer) leaseStatements {
	return leaseStatements{
		insert: r.Replace(`INSERT INTO $table (id, lease_token, created_at, lease_until, expires_at, status, scope, operation, key, fingerprint, header, body)
			SELECT $1::text::uuid, $2::text::uuid, now(), now() + $3::bigint * interval '1 millisecond', now() + $4::bigint * interval '1 millisecond',
			0, $5::text, $6::text, $7::text, $8::bytea, '', '' WHERE pg_try_advisory_xact_lock($9::bigint) ON CONFLICT DO NOTHING`),
		takeOver: r.Replace(`UPDATE $table SET lease_token = $2::text::uuid, created_at = now(),
			lease_until = now() + $3::bigint * interval '1 millisecond', expires_at = now() + $4::bigint * interval '1 millisecond',
			status = 0, scope = $5::text, operation = $6::text, key = $7::text, fingerprint = $8::bytea, header = '', body = ''
			WHERE id = $1::text::uuid AND $created = $10::bigint AND (expires_at <= now() OR lease_until <= now()) AND pg_try_advisory_xact_lock($9::bigint)`),
		extend: r.Replace(`UPDATE $table SET lease_until = greatest(lease_until, now() + $3::bigint * interval '1 millisecond'),
			expires_at = greatest(expires_at, now() + $4::bigint * interval '1 millisecond')
			WHERE id = $1::text::uuid AND lease_token = $2::text::uuid AND lease_until IS NOT NULL`),
		complete: r.Replace(`UPDATE $table SET lease_until = NULL, created_at = now(), expires_at = now() + $3::bigint * interval '1 millisecond',
			status = $4::smallint, header = $5::bytea, body = $6::bytea WHERE id = $1::text::uuid AND lease_token = $2::text::uuid`),
		free: r.Replace(`DELETE FROM $table WHERE id = $1::text::uuid AND lease_token = $2::text::uuid AND lease_until IS NOT NULL`),
	}
}

func (e *postgresqlEngine) seize(ctx context.Context, k key, req idempotency.Request, token idempotency.LeaseToken, over *record) (int64, error) {
	lease := milliseconds(req.Lease)
	statement, args := e.leases.insert, []any{
		uuid(k.id), uuid(token), lease, lease + milliseconds(req.Retention),
		req.Scope, req.Operation, req.Key, req.Fingerprint[:], k.lock ^ e.space,
	}
	if over != nil {
		statement, args = e.leases.takeOver, append(args, over.created)
	}
	return patiently(ctx, e.db, statement, args...)
}

func (e *postgresqlEngine) extend(ctx context.Context, id [16]byte, token idempotency.LeaseToken, d, retention time.Duration) (int64, error) {
	lease := milliseconds(d)
	return patiently(ctx, e.db, e.leases.extend, uuid(id), uuid(token), lease, lease+milliseconds(retention))
}

func (e *postgresqlEngine) settle(ctx context.Context, id [16]byte, token idempotency.LeaseToken, retention time.Duration, kept answer) (int64, error) {
	return patiently(ctx, e.db, e.leases.complete, uuid(id), uuid(token),
		milliseconds(retention), kept.status, kept.header, nonNil(kept.body))
}

func (e *postgresqlEngine) free(ctx context.Context, id [16]byte, token idempotency.LeaseToken) (int64, error) {
	return patiently(ctx, e.db, e.leases.free, uuid(id), uuid(token))
}
