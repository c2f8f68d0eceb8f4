CREATE TABLE IF NOT EXISTS orders (
	id       TEXT PRIMARY KEY,
	customer TEXT NOT NULL,
	cents    INTEGER NOT NULL CHECK (cents > 0)
);
-- How each order is paid. request is written with the order and never changes.
CREATE TABLE IF NOT EXISTS payments (
	order_id TEXT PRIMARY KEY REFERENCES orders (id),
	request  TEXT NOT NULL,                -- key and input: what is sent, each time
	state    TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'paid', 'declined', 'parked')),
	result   TEXT,                         -- the service's answer, or why the order is parked; JSON
	placed   INTEGER NOT NULL,             -- Unix time in milliseconds, as is due
	due      INTEGER NOT NULL,             -- when to send it, or send it again
	tries    INTEGER NOT NULL DEFAULT 0,
	CHECK ((state = 'open') = (result IS NULL))
);
CREATE INDEX IF NOT EXISTS payments_due ON payments (due) WHERE state = 'open';
