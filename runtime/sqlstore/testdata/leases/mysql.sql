ALTER TABLE idempotency_records ADD COLUMN lease_token BINARY(16), ADD COLUMN lease_until BIGINT;
