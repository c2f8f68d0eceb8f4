CREATE TABLE IF NOT EXISTS accounts (
	id      TEXT PRIMARY KEY,
	balance INTEGER NOT NULL CHECK (balance >= 0)
);
CREATE TABLE IF NOT EXISTS payments (
	id      INTEGER PRIMARY KEY AUTOINCREMENT,
	sender  TEXT NOT NULL REFERENCES accounts (id),
	payee   TEXT NOT NULL REFERENCES accounts (id),
	amount  INTEGER NOT NULL CHECK (amount > 0)
);
INSERT INTO accounts (id, balance) VALUES ('alice', 10000), ('bob', 0) ON CONFLICT DO NOTHING;
