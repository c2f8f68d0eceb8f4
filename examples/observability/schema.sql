CREATE TABLE evening (
	left INTEGER NOT NULL CHECK (left >= 0)
);
CREATE TABLE sales (
	id      INTEGER PRIMARY KEY AUTOINCREMENT,
	tickets INTEGER NOT NULL CHECK (tickets > 0)
);
INSERT INTO evening (left) VALUES (10);
