BEGIN;
SET LOCAL lock_timeout = '2s'; -- if a handler runs for longer, nothing happens: try again
LOCK TABLE idempotency_records;
ALTER TABLE idempotency_records RENAME TO idempotency_records_default;
ALTER INDEX idempotency_records_pkey RENAME TO idempotency_records_default_pkey;
ALTER INDEX idempotency_records_expires_at RENAME TO idempotency_records_default_expires_at;
CREATE TABLE idempotency_records (LIKE idempotency_records_default INCLUDING ALL) PARTITION BY RANGE (id);
ALTER TABLE idempotency_records ATTACH PARTITION idempotency_records_default DEFAULT;

-- Records whose id is a hash, if there are any, get the partition that they have in a new table.
CREATE TABLE idempotency_records_hashed (LIKE idempotency_records_default INCLUDING ALL);
WITH moved AS (DELETE FROM idempotency_records_default WHERE id >= '04000000-0000-0000-0000-000000000000' RETURNING *)
    INSERT INTO idempotency_records_hashed SELECT * FROM moved;
ALTER TABLE idempotency_records ATTACH PARTITION idempotency_records_hashed
    FOR VALUES FROM ('04000000-0000-0000-0000-000000000000') TO (MAXVALUE);

GRANT SELECT, INSERT, UPDATE, DELETE ON idempotency_records TO app; -- the servers' user
COMMIT;
