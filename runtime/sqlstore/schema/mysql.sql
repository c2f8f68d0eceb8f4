-- Records of answered requests, for github.com/idemgen/idemgen/runtime/sqlstore
-- on MySQL and MariaDB. A row is written once, in the commit of the effects that
-- it answers for; under a lease twice, as a claim of status 0 and as its answer.
-- Texts are UTF-8 in binary columns, so that no collation takes two keys for one
-- and no connection's character set changes them; read them with
-- CONVERT(`key` USING utf8mb4). No column cuts a value short in a session that is
-- not strict.
CREATE TABLE IF NOT EXISTS `idempotency_records` (
	`id`          BINARY(16)    NOT NULL, -- from scope, operation and key
	`scope`       LONGBLOB      NOT NULL,
	`operation`   LONGBLOB      NOT NULL,
	`key`         LONGBLOB      NOT NULL,
	`fingerprint` VARBINARY(64) NOT NULL,
	`status`      SMALLINT      NOT NULL,
	`header`      LONGBLOB      NOT NULL, -- one "Name: value" line for each value, or the format of a codec
	`body`        LONGBLOB      NOT NULL, -- as it was sent, or as a codec has written it
	`created_at`  BIGINT        NOT NULL, -- Unix time in milliseconds, as is expires_at
	`expires_at`  BIGINT        NOT NULL,
	`lease_token` BINARY(16),             -- random, of the lease or transaction that made the row
	`lease_until` BIGINT,                 -- as created_at; NULL in stored answers
	PRIMARY KEY (`id`),
	KEY `idempotency_records_expires_at` (`expires_at`)
) ENGINE=InnoDB;
