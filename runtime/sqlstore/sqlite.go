package sqlstore

import (
	"context"
	"database/sql"
	_ "embed" // for the schema
	"errors"
	"fmt"
	"strings"
)

// SQLite is the dialect of SQLite 3.16 and later, through any driver.
var SQLite Dialect = sqlite{}

type sqlite struct{}

//go:embed schema/sqlite.sql
var sqliteSchema string

func (sqlite) schema() string { return sqliteSchema }

// sqliteNow is the time in Unix milliseconds. SQLite keeps it as that number
// internally; julianday is the way to it that every version has.
const sqliteNow = "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)"

func (sqlite) statements(table string) statements {
	r := strings.NewReplacer("$table", `main."`+table+`"`, "$now", sqliteNow)
	return statements{
		// A transaction whose first statement writes waits for its turn by
		// busy_timeout. One that reads first fails at once when another has
		// written since (SQLITE_BUSY_SNAPSHOT).
		claim: r.Replace(`DELETE FROM $table WHERE id = ? AND expires_at <= $now`),
		find: r.Replace(`SELECT $now, scope, operation, key, fingerprint, status, header, body, created_at, expires_at
			FROM $table WHERE id = ?`),
		clock:  r.Replace(`SELECT $now`),
		mark:   `SAVEPOINT idemgen_claim`,
		unmark: `RELEASE idemgen_claim`,
		insert: r.Replace(`INSERT INTO $table (id, scope, operation, key, fingerprint, status, header, body, created_at, expires_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, $now, $now + ?)`),
		release: r.Replace(`DELETE FROM $table WHERE id = ? AND created_at = ?`),
		sweep:   r.Replace(`DELETE FROM $table WHERE id IN (SELECT id FROM $table WHERE expires_at <= $now ORDER BY expires_at LIMIT ?)`),
	}
}

// conflict recognises SQLITE_BUSY (5) and SQLITE_LOCKED (6), with or without
// an extended code in the higher bytes, where the driver's error tells its
// code, and their messages where it does not. A code alone is not enough: a
// handler's own error can have one that means something else.
func (sqlite) conflict(err error) bool {
	var coded interface {
		error
		Code() int
	}
	if errors.As(err, &coded) {
		primary := coded.Code() & 0xff
		if (primary == 5 || primary == 6) && strings.Contains(coded.Error(), "locked") {
			return true
		}
	}
	text := err.Error()
	return strings.HasSuffix(text, "database is locked") || strings.Contains(text, "database table is locked")
}

func (d sqlite) verify(ctx context.Context, db *sql.DB, c config) error {
	first, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("sqlstore: connect: %w", err)
	}
	defer first.Close()
	if err := d.verifyConn(ctx, db, first, c); err != nil {
		return err
	}
	// Pragmas belong to a connection. One that was set through the pool after
	// opening it holds for a single connection; a second one shows that.
	if db.Stats().MaxOpenConnections != 1 {
		second, err := db.Conn(ctx)
		if err != nil {
			return fmt.Errorf("sqlstore: connect: %w", err)
		}
		defer second.Close()
		if err := d.verifyConn(ctx, db, second, c); err != nil {
			return err
		}
	}
	if c.reader != db {
		if err := verifySQLiteReader(ctx, first, c.reader); err != nil {
			return err
		}
	}
	return verifySQLiteTable(ctx, first, c.table)
}

// sqliteFile asks for the absolute path of a connection's file, "" in memory.
const sqliteFile = `SELECT file FROM pragma_database_list WHERE name = 'main'`

// verifySQLiteReader refuses a reader on another file, such as a copy, which
// can hold records that are no longer so.
func verifySQLiteReader(ctx context.Context, conn *sql.Conn, reader *sql.DB) error {
	var ours, theirs string
	if err := conn.QueryRowContext(ctx, sqliteFile).Scan(&ours); err != nil {
		return fmt.Errorf("sqlstore: %s: %w", sqliteFile, err)
	}
	if err := reader.QueryRowContext(ctx, sqliteFile).Scan(&theirs); err != nil {
		return fmt.Errorf("sqlstore: the reader's file is not known: %w", err)
	}
	if ours != theirs {
		return fmt.Errorf("sqlstore: the reader's file is %s, the store's is %s: open the reader on the same database", theirs, ours)
	}
	return nil
}

func (sqlite) verifyConn(ctx context.Context, db *sql.DB, conn *sql.Conn, c config) error {
	var file, journal string
	var synchronous, busyTimeout int64
	for _, p := range []struct {
		query string
		into  any
	}{
		{sqliteFile, &file},
		{`PRAGMA journal_mode`, &journal},
		{`PRAGMA synchronous`, &synchronous},
		{`PRAGMA busy_timeout`, &busyTimeout},
	} {
		if err := conn.QueryRowContext(ctx, p.query).Scan(p.into); err != nil {
			return fmt.Errorf("sqlstore: %s: %w", p.query, err)
		}
	}
	switch {
	case file == "" && db.Stats().MaxOpenConnections != 1:
		return errors.New("sqlstore: the database is in memory, where each connection has its own: use a file, or call SetMaxOpenConns(1) for a test")
	case file != "" && (journal == "off" || journal == "memory"):
		return fmt.Errorf("sqlstore: PRAGMA journal_mode is %s, which does not survive a crash: set it to wal", journal)
	case file != "" && synchronous < 2:
		return errors.New("sqlstore: PRAGMA synchronous is below FULL, so that a power failure can lose an answer that was sent: set it to FULL in the DSN, for each connection")
	case busyTimeout <= 0:
		return errors.New("sqlstore: PRAGMA busy_timeout is 0, so that concurrent requests fail instead of waiting for each other: set it to 5000 in the DSN, for each connection")
	// Not every driver lets a context end this wait.
	case busyTimeout > c.claimTimeout.Milliseconds():
		return fmt.Errorf("sqlstore: PRAGMA busy_timeout is %d ms, longer than a request may wait for its claim: set it to at most %d in the DSN, or raise WithClaimTimeout",
			busyTimeout, c.claimTimeout.Milliseconds())
	}
	return nil
}

// verifySQLiteTable refuses a missing or foreign table.
func verifySQLiteTable(ctx context.Context, conn *sql.Conn, table string) error {
	var all, ours, index int
	var primary string
	err := conn.QueryRowContext(ctx, `SELECT
		(SELECT count(*) FROM pragma_table_info(?1)),
		(SELECT count(*) FROM pragma_table_info(?1) WHERE name IN ('id', 'scope', 'operation', 'key',
			'fingerprint', 'status', 'header', 'body', 'created_at', 'expires_at')),
		(SELECT coalesce(group_concat(name), '') FROM pragma_table_info(?1) WHERE pk > 0),
		(SELECT count(*) FROM pragma_index_list(?1) AS l, pragma_index_info(l.name) AS i WHERE i.seqno = 0 AND i.name = 'expires_at')`,
		table).Scan(&all, &ours, &primary, &index)
	switch {
	case err != nil:
		return fmt.Errorf("sqlstore: read the schema of table %s: %w", table, err)
	case all == 0:
		return fmt.Errorf("sqlstore: table %s does not exist: create it with Migrate, or with the statements of Schema in your own migrations", table)
	case ours != 10 || primary != "id":
		return fmt.Errorf("sqlstore: table %s has other columns than those of Schema: choose another name with WithTable, or migrate it", table)
	case index == 0:
		return fmt.Errorf("sqlstore: table %s has no index on expires_at, which Sweep needs: create it as in Schema", table)
	}
	return nil
}
