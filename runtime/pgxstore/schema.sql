CREATE TABLE idempotency_records (
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
	PRIMARY KEY (id)
);

CREATE INDEX idempotency_records_expires_at ON idempotency_records (expires_at);
