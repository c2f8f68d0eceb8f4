
-- Two partitions that stay. Ids that are hashes alone lie all over the range: 63
-- of 64 in the first, which begins where the times of keys end, in the year 2109.
-- The second takes what no other one does, so that no record is refused.
CREATE TABLE idempotency_records_hashed PARTITION OF idempotency_records
	FOR VALUES FROM ('04000000-0000-0000-0000-000000000000') TO (MAXVALUE);
CREATE TABLE idempotency_records_default PARTITION OF idempotency_records DEFAULT;
