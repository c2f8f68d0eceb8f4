package sqlstore

import (
	"context"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// newMySQLLeases writes the statements. All but the completion hold their values
// in their text, strings in hexadecimal, so that each is one round trip.
func newMySQLLeases(r *strings.Replacer) leaseStatements {
	return leaseStatements{
		insert: r.Replace("INSERT INTO $table (id, lease_token, created_at, lease_until, expires_at, status, scope, operation, `key`, fingerprint, header, `body`)" +
			" SELECT $id, $token, $now, $now + $lease, $now + $kept, 0, $scope, $operation, $key, $fingerprint, x'', x'' FROM DUAL WHERE IS_FREE_LOCK('$lock')"),
		takeOver: r.Replace("UPDATE $table SET lease_token = $token, created_at = $now, lease_until = $now + $lease, expires_at = $now + $kept," +
			" status = 0, scope = $scope, operation = $operation, `key` = $key, fingerprint = $fingerprint, header = x'', `body` = x''" +
			" WHERE id = $id AND created_at = $seen AND (expires_at <= $now OR lease_until <= $now) AND IS_FREE_LOCK('$lock')"),
		extend: r.Replace("UPDATE $table SET lease_until = GREATEST(lease_until, $now + $lease), expires_at = GREATEST(expires_at, $now + $kept)" +
			" WHERE id = $id AND lease_token = $token AND lease_until IS NOT NULL"),
		complete: r.Replace("UPDATE $table SET lease_until = NULL, created_at = $now, expires_at = $now + ?, status = ?, header = ?, `body` = ?" +
			" WHERE id = ? AND lease_token = ?"),
		free: r.Replace("DELETE FROM $table WHERE id = $id AND lease_token = $token AND lease_until IS NOT NULL"),
	}
}

// literal is a binary string in a statement.
func literal[T string | []byte](v T) string { return "x'" + hex.EncodeToString([]byte(v)) + "'" }

// lasting writes a token and how long its claim lasts into a statement.
func lasting(statement string, token idempotency.LeaseToken, lease, retention time.Duration) string {
	ms := milliseconds(lease)
	return strings.NewReplacer(
		"$token", literal(token[:]),
		"$lease", strconv.FormatInt(ms, 10),
		"$kept", strconv.FormatInt(ms+milliseconds(retention), 10),
	).Replace(statement)
}

// seize looks whether the lock is free and takes none. A transaction that begins
// at this very moment loses to the claim when it stores its record.
func (e *mysqlEngine) seize(ctx context.Context, k key, req idempotency.Request, token idempotency.LeaseToken, over *record) (int64, error) {
	statement, seen := e.leases.insert, ""
	if over != nil {
		statement, seen = e.leases.takeOver, strconv.FormatInt(over.created, 10)
	}
	statement = strings.NewReplacer(
		"$scope", literal(req.Scope),
		"$operation", literal(req.Operation),
		"$key", literal(req.Key),
		"$fingerprint", literal(req.Fingerprint[:]),
		"$seen", seen,
	).Replace(lasting(statement, token, req.Lease, req.Retention))
	return affected(e.db.ExecContext(ctx, e.at(k.id, statement)))
}

func (e *mysqlEngine) extend(ctx context.Context, id [16]byte, token idempotency.LeaseToken, d, retention time.Duration) (int64, error) {
	return affected(e.db.ExecContext(ctx, e.at(id, lasting(e.leases.extend, token, d, retention))))
}

func (e *mysqlEngine) settle(ctx context.Context, id [16]byte, token idempotency.LeaseToken, retention time.Duration, kept answer) (int64, error) {
	if err := e.fits(len(kept.header) + len(kept.body)); err != nil {
		return 0, err
	}
	return affected(e.complete.ExecContext(ctx, milliseconds(retention), kept.status, kept.header, nonNil(kept.body), id[:], token[:]))
}

func (e *mysqlEngine) free(ctx context.Context, id [16]byte, token idempotency.LeaseToken) (int64, error) {
	return once(ctx, e.db, e.at(id, lasting(e.leases.free, token, 0, 0)))
}
