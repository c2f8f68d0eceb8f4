ALTER TABLE idempotency_records ADD COLUMN lease_token BLOB;
ALTER TABLE idempotency_records ADD COLUMN lease_until INTEGER;
