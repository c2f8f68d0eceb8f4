CREATE TABLE IF NOT EXISTS bookings (
	id        INTEGER PRIMARY KEY AUTOINCREMENT,
	room      TEXT NOT NULL,
	price     INTEGER NOT NULL,
	charge_id INTEGER NOT NULL UNIQUE -- in the database of charges
);
