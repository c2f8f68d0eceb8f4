package sqlstore

import (
	"context"
	"database/sql"
	_ "embed" // for the schema
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// SQLite is the dialect of SQLite 3.16 and later, through any driver.
var SQLite Dialect = sqlite{}

type sqlite struct{}

//go:embed schema/sqlite.sql
var sqliteSchema string

func (sqlite) own() string { return "SELECT sqlite_version()" }

func (sqlite) checkTable(name string) error { return checkPlain(name) }

func (sqlite) schema(table string) string { return named(sqliteSchema, table) }

func (d sqlite) migrate(ctx context.Context, db *sql.DB, table string) error {
	for statement := range strings.SplitSeq(d.schema(table), ";\n") {
		if strings.TrimSpace(statement) == "" {
			continue
		}
		if err := migrateSQLite(ctx, db, statement); err != nil {
			return err
		}
	}
	err := verifySQLiteTable(ctx, db, table)
	if !errors.Is(err, errEarlier) {
		return err
	}
	for _, column := range sqliteLeaseColumns {
		// It fails where the column is there. What there is in the end counts.
		err = migrateSQLite(ctx, db, addColumns(`"`+table+`"`, []string{column}))
	}
	if now := verifySQLiteTable(ctx, db, table); now != nil {
		return errors.Join(now, err)
	}
	return nil
}

// migrateSQLite executes a statement, again while others are in its way. Those
// that turn a new file to WAL mode at the same time fail at once, whatever
// their busy_timeout is.
func migrateSQLite(ctx context.Context, db *sql.DB, statement string) error {
	_, err := db.ExecContext(ctx, statement)
	for err != nil && sqliteConflict(err) && sleep(ctx, migratePause) == nil {
		_, err = db.ExecContext(ctx, statement)
	}
	return err
}

// sqliteLeaseColumns are what tables of earlier versions lack.
var sqliteLeaseColumns = []string{"lease_token BLOB", "lease_until INTEGER"}

// migratePause is how long a migration waits each time for others.
const migratePause = 20 * time.Millisecond

// sqliteNow is the time in Unix milliseconds. SQLite keeps it as that number
// internally; julianday is the way to it that every version has.
const sqliteNow = "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)"

func (d sqlite) open(ctx context.Context, db *sql.DB, c config) (engine, error) {
	if c.reader == nil {
		c.reader = db
	}
	if err := d.verify(ctx, db, c); err != nil {
		return nil, err
	}
	e := &sqliteEngine{db: db, reader: c.reader, table: `main."` + c.table + `"`}
	r := strings.NewReplacer("$table", e.table, "$now", sqliteNow)
	e.expire = r.Replace(`DELETE FROM $table WHERE id = ? AND lease_until <= $now`)
	e.leases = newSQLiteLeases(r)
	e.purge = r.Replace(`DELETE FROM $table WHERE id IN (SELECT id FROM $table WHERE expires_at <= $now ORDER BY expires_at LIMIT ?)`)
	find := r.Replace(`SELECT $now, r.scope, r.operation, r.key, r.fingerprint, r.status, r.header, r.body, r.created_at, r.expires_at, r.lease_token, r.lease_until
		FROM (SELECT 1) LEFT JOIN $table AS r ON r.id = ?`)
	for _, x := range []struct {
		into  **sql.Stmt
		query string
	}{
		// A transaction whose first statement writes waits for its turn by
		// busy_timeout. One that reads first fails at once when another has
		// written since (SQLITE_BUSY_SNAPSHOT).
		{&e.turn, r.Replace(`DELETE FROM $table WHERE id = ? AND expires_at <= $now`)},
		{&e.mark, `SAVEPOINT idemgen_claim`},
		{&e.unmark, `RELEASE idemgen_claim`},
		{&e.look, find},
		{&e.store, r.Replace(`INSERT INTO $table (id, scope, operation, key, fingerprint, status, header, body, created_at, expires_at, lease_token)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, $now, $now + ?, ?)`)},
	} {
		var err error
		if *x.into, err = db.PrepareContext(ctx, x.query); err != nil {
			return nil, fmt.Errorf("sqlstore: prepare %s: %w", x.query, err)
		}
	}
	var err error
	if e.peek, err = c.reader.PrepareContext(ctx, find); err != nil {
		return nil, fmt.Errorf("sqlstore: the reader cannot read the store's table: open it on the same database: %w", err)
	}
	return e, nil
}

// sqliteEngine has its statements parsed once for each connection.
type sqliteEngine struct {
	db, reader *sql.DB
	table      string // quoted
	// turn (id) deletes the record if it is expired, and in any case keeps
	// other writers out until the transaction ends.
	turn *sql.Stmt
	// mark opens a savepoint, and unmark closes it. A transaction that was
	// ended in between, by whatever means, has no such savepoint any more.
	mark, unmark *sql.Stmt
	look, peek   *sql.Stmt // (id): the record, in the transaction or through the reader
	store        *sql.Stmt

	purge  string
	expire string // a claim whose lease has passed
	leases leaseStatements
}

func (*sqliteEngine) oneWriter() bool { return true }

func (*sqliteEngine) proves() bool { return true }

func (e *sqliteEngine) claim(ctx context.Context, k key) (*attempt, error) {
	return e.begin(ctx, k.id, func(a *attempt) (err error) {
		a.now, a.record, err = scan(a.tx.StmtContext(ctx, e.look).QueryRowContext(ctx, k.id[:]))
		return err
	})
}

func (e *sqliteEngine) plain(ctx context.Context) (*attempt, error) {
	return e.begin(ctx, [16]byte{}, func(*attempt) error { return nil }) // nobody's id: only the turn to write counts
}

// begin waits for the turn to write and deletes the record of id if it is
// expired.
func (e *sqliteEngine) begin(ctx context.Context, id [16]byte, enter func(*attempt) error) (*attempt, error) {
	a := &attempt{held: true}
	err := a.begin(ctx, e.db, nil, func(tx *sql.Tx) error {
		if _, err := tx.StmtContext(ctx, e.turn).ExecContext(ctx, id[:]); err != nil {
			return err
		}
		if _, err := tx.StmtContext(ctx, e.mark).ExecContext(ctx); err != nil {
			return err
		}
		return enter(a)
	})
	if err != nil {
		return nil, err
	}
	return a, nil
}

func (e *sqliteEngine) check(ctx context.Context, a *attempt) error {
	if _, err := a.tx.StmtContext(ctx, e.unmark).ExecContext(ctx); err != nil {
		return transactionEnded(err)
	}
	return nil
}

func (e *sqliteEngine) insert(ctx context.Context, a *attempt, k key, req idempotency.Request, kept answer) error {
	if a.record != nil { // the claim of a lease that has passed
		if _, err := a.tx.ExecContext(ctx, e.expire, k.id[:]); err != nil {
			return err
		}
	}
	token := newToken()
	return stored(a.tx.StmtContext(ctx, e.store).ExecContext(ctx, k.id[:], req.Scope, req.Operation, req.Key,
		req.Fingerprint[:], kept.status, kept.header, nonNil(kept.body), milliseconds(req.Retention), token[:]))
}

func (e *sqliteEngine) reread(ctx context.Context, a *attempt, k key) (*record, error) {
	_, r, err := scan(a.tx.StmtContext(ctx, e.look).QueryRowContext(ctx, k.id[:]))
	return r, err
}

func (*sqliteEngine) remedy(err error) string {
	if strings.Contains(err.Error(), "readonly database") { // SQLITE_READONLY
		return "the pool must be able to write: was the reader of WithReader passed in its place? Leave query_only and mode=ro out of its data source name, and let the process write the file and its directory"
	}
	return ""
}

func (e *sqliteEngine) find(ctx context.Context, id [16]byte) (int64, *record, error) {
	return scan(e.peek.QueryRowContext(ctx, id[:]))
}

func (e *sqliteEngine) sweep(ctx context.Context, limit int) (int64, error) {
	return affected(e.db.ExecContext(ctx, e.purge, limit))
}

func (e *sqliteEngine) listing() listing {
	return listing{
		reader: e.reader,
		writer: e.db,
		sql: strings.NewReplacer("$reads", "", "$table", e.table, "$clock", sqliteNow, "$key", "key", "$body", "body",
			"$created", "created_at", "$expires", "expires_at", "$until", "lease_until", "$digits", "hex(id)",
			"$version", "CASE WHEN lease_until IS NULL THEN 'answer ' ELSE 'claim ' END || CASE WHEN lease_token IS NULL THEN created_at ELSE hex(lease_token) END"),
		id: func(digits string) string { return "x'" + digits + "'" },
		text: func(s string, args *[]any) string {
			*args = append(*args, s)
			return "?"
		},
		terminate: func(key) string { return "it runs in this process" },
	}
}

// judge knows no error that proves more than a lost turn: SQLite is asked what
// became of the others.
func (e *sqliteEngine) judge(err error) verdict {
	if sqliteConflict(err) {
		return conflict
	}
	return unclear
}

// sqliteConflict recognises SQLITE_BUSY (5) and SQLITE_LOCKED (6), with or without
// an extended code in the higher bytes, where the driver's error tells its
// code, and their messages where it does not. A code alone is not enough: a
// handler's own error can have one that means something else.
func sqliteConflict(err error) bool {
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
	if err := verifySQLiteTable(ctx, first, c.table); err != nil {
		return fmt.Errorf("sqlstore: %w", err)
	}
	return nil
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
	if file == "" && db.Stats().MaxOpenConnections != 1 {
		return errors.New("sqlstore: the database is in memory, where each connection has its own: use a file, or call SetMaxOpenConns(1) for a test")
	}
	patience := c.claimTimeout.Milliseconds()
	var wrong, right []string
	refuse := func(because, pragma string) {
		wrong, right = append(wrong, "\n"+because), append(right, "_pragma="+pragma)
	}
	if busyTimeout <= 0 {
		refuse("PRAGMA busy_timeout is 0, so that concurrent requests fail instead of waiting for each other", fmt.Sprintf("busy_timeout(%d)", min(5000, patience)))
	}
	if busyTimeout > patience { // not every driver lets a context end this wait
		refuse(fmt.Sprintf("PRAGMA busy_timeout is %d ms, longer than a request may wait for its claim; or raise WithClaimTimeout", busyTimeout), fmt.Sprintf("busy_timeout(%d)", patience))
	}
	if file != "" && (journal == "off" || journal == "memory") {
		refuse("PRAGMA journal_mode is "+journal+", which does not survive a crash", "journal_mode(wal)")
	}
	if file != "" && synchronous < 2 {
		refuse("PRAGMA synchronous is below FULL, so that a power failure can lose an answer that was sent", "synchronous(full)")
	}
	if wrong != nil {
		return fmt.Errorf("sqlstore: the connections cannot keep the guarantee: put %s into the data source name, for each connection (so for modernc.org/sqlite; the package's documentation has it for another driver)%s",
			strings.Join(right, "&"), strings.Join(wrong, ""))
	}
	return nil
}

// verifySQLiteTable refuses a missing or foreign table.
func verifySQLiteTable(ctx context.Context, db querier, table string) error {
	var kind, columns string
	var unique, sorted bool
	err := db.QueryRowContext(ctx, `SELECT
		coalesce((SELECT type FROM sqlite_master WHERE name = ?1 COLLATE NOCASE AND type IN ('table', 'view')), ''),
		(SELECT ',' || coalesce(group_concat(name), '') || ',' FROM pragma_table_info(?1)),
		EXISTS (SELECT 1 FROM pragma_index_list(?1) AS l WHERE l."unique" AND NOT l.partial AND (SELECT group_concat(coalesce(name, '')) FROM pragma_index_info(l.name)) = 'id'),
		EXISTS (SELECT 1 FROM pragma_index_list(?1) AS l, pragma_index_info(l.name) AS i WHERE NOT l.partial AND i.seqno = 0 AND i.name = 'expires_at')`,
		table).Scan(&kind, &columns, &unique, &sorted)
	switch {
	case err != nil:
		return fmt.Errorf("read the schema of table %s: %w", table, err)
	case kind == "":
		return missingTable(table, "sqlite", "sqlite3 FILE")
	case kind == "view":
		return errView(table)
	}
	has := func(column string) bool { return strings.Contains(columns, ","+column+",") }
	var f faults
	for _, column := range []string{"id", "scope", "operation", "key", "fingerprint", "status", "header", "body", "created_at", "expires_at"} {
		if !has(column) {
			f.absent = append(f.absent, column)
		}
	}
	if !unique && has("id") {
		f.wrong = append(f.wrong, fmt.Sprintf(`no unique index on id alone, which the guarantee rests on: CREATE UNIQUE INDEX "%s_id" ON "%[1]s" (id);`, table))
	}
	if !sorted && has("expires_at") {
		f.wrong = append(f.wrong, fmt.Sprintf(`no index on expires_at, which Sweep needs: CREATE INDEX "%s_expires_at" ON "%[1]s" (expires_at);`, table))
	}
	var add []string
	for _, column := range sqliteLeaseColumns {
		if name, _, _ := strings.Cut(column, " "); !has(name) {
			add = append(add, addColumns(`"`+table+`"`, []string{column})+";")
		}
	}
	f.add = strings.Join(add, " ")
	return f.of(table, schemaCommand("sqlite", table))
}
