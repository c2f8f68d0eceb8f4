-- Records of answered requests, for github.com/idemgen/idemgen/runtime/sqlstore
-- on PostgreSQL: the table of runtime/pgxstore, which both can use at once.
--
-- The first columns have a fixed width, so that rows carry no padding.
-- id is 16 bytes of a hash over scope, operation and key, led by the key's own
-- time where the key is a UUIDv7.
CREATE TABLE "idempotency_records" (
	id          uuid        NOT NULL,
	created_at  timestamptz NOT NULL,
	expires_at  timestamptz NOT NULL,
	status      smallint    NOT NULL,
	scope       text        COLLATE "C" NOT NULL,
	operation   text        COLLATE "C" NOT NULL,
	key         text        COLLATE "C" NOT NULL,
	fingerprint bytea       NOT NULL,
	header      bytea       NOT NULL,
	body        bytea       NOT NULL,
	lease_token uuid,        -- of the lease that the row is, or was, the claim of
	lease_until timestamptz, -- NULL in stored answers
	PRIMARY KEY (id)
);

-- A B-tree, at 66 bytes of log for each row: a BRIN index is smaller, but once
-- space is reused its ranges hold old and new rows alike, and sweeping reads
-- the whole table.
CREATE INDEX "idempotency_records_expires_at" ON "idempotency_records" (expires_at);
