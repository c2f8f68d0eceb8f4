ALTER TABLE idempotency_records ADD COLUMN lease_token uuid, ADD COLUMN lease_until timestamptz;
