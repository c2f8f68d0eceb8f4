BEGIN;
SET LOCAL lock_timeout = '2s';
LOCK TABLE idempotency_records;
CREATE TABLE plain (LIKE idempotency_records INCLUDING ALL);
INSERT INTO plain SELECT * FROM idempotency_records WHERE expires_at > now();
DROP TABLE idempotency_records;
ALTER TABLE plain RENAME TO idempotency_records;
ALTER INDEX plain_pkey RENAME TO idempotency_records_pkey;
ALTER INDEX plain_expires_at_idx RENAME TO idempotency_records_expires_at;
GRANT SELECT, INSERT, UPDATE, DELETE ON idempotency_records TO app; -- the servers' user
COMMIT;
