CREATE TABLE IF NOT EXISTS accounts (
	id      text PRIMARY KEY,
	balance bigint NOT NULL CHECK (balance >= 0)
);
CREATE TABLE IF NOT EXISTS payments (
	id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	sender  text NOT NULL REFERENCES accounts (id),
	payee   text NOT NULL REFERENCES accounts (id),
	amount  bigint NOT NULL CHECK (amount > 0)
);
INSERT INTO accounts (id, balance) VALUES ('alice', 10000), ('bob', 0) ON CONFLICT DO NOTHING;
