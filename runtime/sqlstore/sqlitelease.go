package sqlstore

import (
	"context"
	"strings"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

func newSQLiteLeases(r *strings.Replacer) leaseStatements {
	return leaseStatements{
		insert: r.Replace(`INSERT INTO $table (id, lease_token, created_at, lease_until, expires_at, status, scope, operation, key, fingerprint, header, body)
			SELECT ?1, ?2, $now, $now + ?3, $now + ?4, 0, ?5, ?6, ?7, ?8, x'', x'' WHERE NOT EXISTS (SELECT 1 FROM $table WHERE id = ?1)`),
		takeOver: r.Replace(`UPDATE $table SET lease_token = ?2, created_at = $now, lease_until = $now + ?3, expires_at = $now + ?4,
			status = 0, scope = ?5, operation = ?6, key = ?7, fingerprint = ?8, header = x'', body = x''
			WHERE id = ?1 AND created_at = ?9 AND (expires_at <= $now OR lease_until <= $now)`),
		extend: r.Replace(`UPDATE $table SET lease_until = max(lease_until, $now + ?3), expires_at = max(expires_at, $now + ?4)
			WHERE id = ?1 AND lease_token = ?2 AND lease_until IS NOT NULL`),
		complete: r.Replace(`UPDATE $table SET lease_until = NULL, created_at = $now, expires_at = $now + ?3, status = ?4, header = ?5, body = ?6
			WHERE id = ?1 AND lease_token = ?2`),
		free: r.Replace(`DELETE FROM $table WHERE id = ?1 AND lease_token = ?2 AND lease_until IS NOT NULL`),
	}
}

// seize waits for the turn to write, so that no transaction is at work.
func (e *sqliteEngine) seize(ctx context.Context, k key, req idempotency.Request, token idempotency.LeaseToken, over *record) (int64, error) {
	lease := milliseconds(req.Lease)
	statement, args := e.leases.insert, []any{
		k.id[:], token[:], lease, lease + milliseconds(req.Retention), req.Scope, req.Operation, req.Key, req.Fingerprint[:],
	}
	if over != nil {
		statement, args = e.leases.takeOver, append(args, over.created)
	}
	return affected(e.db.ExecContext(ctx, statement, args...))
}

func (e *sqliteEngine) extend(ctx context.Context, id [16]byte, token idempotency.LeaseToken, d, retention time.Duration) (int64, error) {
	lease := milliseconds(d)
	return affected(e.db.ExecContext(ctx, e.leases.extend, id[:], token[:], lease, lease+milliseconds(retention)))
}

func (e *sqliteEngine) settle(ctx context.Context, id [16]byte, token idempotency.LeaseToken, retention time.Duration, kept answer) (int64, error) {
	return affected(e.db.ExecContext(ctx, e.leases.complete, id[:], token[:],
		milliseconds(retention), kept.status, kept.header, nonNil(kept.body)))
}

func (e *sqliteEngine) free(ctx context.Context, id [16]byte, token idempotency.LeaseToken) (int64, error) {
	return affected(e.db.ExecContext(ctx, e.leases.free, id[:], token[:]))
}
