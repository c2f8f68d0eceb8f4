-- Records of answered requests, for github.com/idemgen/idemgen/runtime/sqlstore.
-- A row is written once, in the commit of the effects that it answers for; under
-- a lease twice, as a claim of status 0 and as its answer.
-- WITHOUT ROWID would write a quarter more per commit where keys are random
-- (19 KB of WAL instead of 15 KB, with answers of 512 bytes).
CREATE TABLE IF NOT EXISTS "idempotency_records" (
	id          BLOB    NOT NULL PRIMARY KEY, -- 16 bytes, from scope, operation and key
	scope       TEXT    NOT NULL,
	operation   TEXT    NOT NULL,
	key         TEXT    NOT NULL,
	fingerprint BLOB    NOT NULL,
	status      INTEGER NOT NULL,
	header      BLOB    NOT NULL, -- one "Name: value" line for each value, or the format of a codec
	body        BLOB    NOT NULL, -- as it was sent, or as a codec has written it
	created_at  INTEGER NOT NULL, -- Unix time in milliseconds, as is expires_at
	expires_at  INTEGER NOT NULL CHECK (expires_at > created_at),
	lease_token BLOB,   -- 16 random bytes, of the lease or transaction that made the row
	lease_until INTEGER -- as created_at; NULL in stored answers
);
CREATE INDEX IF NOT EXISTS "idempotency_records_expires_at" ON "idempotency_records" (expires_at);
