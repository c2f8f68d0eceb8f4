package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	_ "embed" // for the schema
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// MySQL is the dialect of MySQL 5.7, MariaDB 10.3 and later, Galera clusters
// included, through any driver.
var MySQL Dialect = mysql{}

type mysql struct{}

//go:embed schema/mysql.sql
var mysqlSchema string

func (mysql) own() string { return "SELECT DATABASE()" }

func (mysql) checkTable(name string) error { return checkPlain(name) }

func (mysql) schema(table string) string { return named(mysqlSchema, table) }

// migrate needs no lock: the one statement does nothing where another process
// was first, or fails where that one has added the columns.
func (d mysql) migrate(ctx context.Context, db *sql.DB, table string) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	found, err := inspectMySQL(ctx, conn, table)
	switch {
	case errors.Is(err, errEarlier):
		return upgradeMySQL(ctx, conn, table)
	case found || err != nil:
		return err
	}
	_, err = conn.ExecContext(ctx, d.schema(table))
	return err
}

// upgradeMySQL adds what a table of an earlier version lacks.
func upgradeMySQL(ctx context.Context, conn *sql.Conn, table string) error {
	defer discard(conn) // its setting goes with it
	if _, err := conn.ExecContext(ctx, fmt.Sprintf("SET SESSION lock_wait_timeout = %d", int(alterPatience.Seconds()))); err != nil {
		return err
	}
	f, err := faultsOfMySQL(ctx, conn, table)
	if err != nil {
		return err
	}
	_, err = conn.ExecContext(ctx, f.add)
	if _, wrong := inspectMySQL(ctx, conn, table); wrong != nil {
		return errors.Join(wrong, err)
	}
	return nil
}

const (
	// mysqlNow is the time in Unix milliseconds, whatever the session's time zone
	// is: UNIX_TIMESTAMP would read a local time that a night in autumn has twice.
	mysqlNow = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000"
	// mysqlReadOnly says whether the server takes no writes. The variable is a
	// number on one server and a text on another.
	mysqlReadOnly = "CONCAT(@@global.read_only) NOT IN ('0', 'OFF')"
	// mysqlRecord is what scan reads of a record r.
	mysqlRecord = mysqlNow + ", r.scope, r.operation, r.`key`, r.fingerprint, r.status, r.header, r.`body`, r.created_at, r.expires_at, r.lease_token, r.lease_until"
)

// mysqlEngine writes ids and lock names, which are hashes of the store's own,
// into the text of its statements. A driver then needs one round trip for each,
// where parameters would cost another one to prepare the statement.
type mysqlEngine struct {
	db    *sql.DB
	table string // with the database's name, quoted
	locks string // leads the names of this table's locks
	// cluster says that a claim holds on one node of several.
	cluster bool
	// synced leads statements that must see what other nodes have committed.
	synced string
	// maxPacket is how many bytes the server takes in one message.
	maxPacket int

	store, complete *sql.Stmt // parsed once for each connection
	// The others hold $id and $lock, the name of the claim's lock; purge $ids.
	enter, look, expire string
	due, purge          string
	leases              leaseStatements
}

// write makes the statements.
func (e *mysqlEngine) write() {
	r := strings.NewReplacer("$table", e.table, "$now", mysqlNow, "$record", mysqlRecord, "$synced", e.synced,
		"$readOnly", mysqlReadOnly)
	// The id that is looked for depends on what GET_LOCK answers, so the record
	// is read when the lock is held; and InnoDB makes a statement's snapshot when
	// it reads the first row. So what the last holder of the lock has committed
	// is seen, at every isolation level but READ UNCOMMITTED, which open refuses.
	e.enter = r.Replace("$syncedSELECT l.held, $readOnly, $record FROM (SELECT GET_LOCK('$lock', 0) AS held) AS l" +
		" LEFT JOIN $table AS r ON r.id = IF(l.held IS NULL, $id, $id)")
	e.look = r.Replace("$syncedSELECT $readOnly, $record FROM (SELECT 1 AS one) AS l LEFT JOIN $table AS r ON r.id = $id")
	e.expire = r.Replace("DELETE FROM $table WHERE id = $id AND (expires_at <= $now OR lease_until <= $now)")
	e.leases = newMySQLLeases(r)
	e.due = r.Replace("SELECT HEX(id) FROM $table WHERE expires_at <= $now ORDER BY expires_at LIMIT ")
	e.purge = r.Replace("DELETE FROM $table WHERE id IN ($ids) AND expires_at <= $now")
}

// lock is the name of a claim's lock: on the server, whose databases all share
// the names, no other, and at most 64 bytes.
func (e *mysqlEngine) lock(id [16]byte) string { return e.locks + hex.EncodeToString(id[:]) }

// at writes an id into a statement.
func (e *mysqlEngine) at(id [16]byte, statement string) string {
	statement = strings.ReplaceAll(statement, "$id", "x'"+hex.EncodeToString(id[:])+"'")
	return strings.ReplaceAll(statement, "$lock", e.lock(id))
}

func (*mysqlEngine) oneWriter() bool { return false }

func (e *mysqlEngine) proves() bool { return !e.cluster }

// errMySQLReadOnly is also what a pool leads to when its server was demoted.
// Nothing is replayed there: a replica may have a record that was released since.
var errMySQLReadOnly = errors.New("the server, or the session, takes no writes (read_only): connect to the primary")

// claim takes the lock and reads the record outside a transaction: inside a
// SERIALIZABLE one the read would lock the gap that a new record falls into. A
// lock belongs to the session. It is given back by its name, and where that
// fails together with the session.
func (e *mysqlEngine) claim(ctx context.Context, k key) (*attempt, error) {
	conn, err := e.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	a := new(attempt)
	var held sql.NullBool
	var readOnly bool
	a.now, a.record, err = scan(conn.QueryRowContext(ctx, e.at(k.id, e.enter)), &held, &readOnly)
	if err == nil && !held.Valid {
		err = errors.New("sqlstore: GET_LOCK failed")
	}
	if r := a.record; err == nil && !held.Bool && r.live() && !r.claim() && a.now-r.created < flushPatience.Milliseconds() {
		held, err = e.flushed(ctx, conn, k)
	}
	if err != nil {
		discard(conn) // it may hold the lock
		conn.Close()
		return nil, err
	}
	a.held = held.Bool
	a.free = func() {
		if a.held && unlock(conn, e.lock(k.id)) != nil || a.spoiled {
			discard(conn)
		}
		conn.Close()
	}
	if readOnly {
		a.end(endTimeout)
		return nil, errMySQLReadOnly
	}
	if !a.held || a.record.live() {
		return a, nil
	}
	if err := a.begin(ctx, conn, nil, markMySQL(ctx)); err != nil {
		return nil, err
	}
	return a, nil
}

// flushPatience limits how long a replay waits for the end of a COMMIT. An attempt
// that has vanished keeps its lock until the server notices that.
const flushPatience = time.Second

// flushed waits for the lock of an attempt whose record is there. Without a binary
// log InnoDB shows a commit to others before it is on the disk: a server that
// crashes then has lost it, and an answer that was replayed would be lost.
func (e *mysqlEngine) flushed(ctx context.Context, conn *sql.Conn, k key) (held sql.NullBool, err error) {
	seconds := strconv.Itoa(int(flushPatience.Seconds()))
	err = conn.QueryRowContext(ctx, "SELECT GET_LOCK('"+e.lock(k.id)+"', "+seconds+")").Scan(&held)
	return held, err
}

func (e *mysqlEngine) plain(ctx context.Context) (*attempt, error) {
	a := new(attempt)
	err := a.begin(ctx, e.db, nil, func(tx *sql.Tx) error {
		var readOnly bool
		err := tx.QueryRowContext(ctx, "SELECT "+mysqlReadOnly).Scan(&readOnly)
		if readOnly && err == nil {
			err = errMySQLReadOnly
		}
		if err != nil {
			return err
		}
		return markMySQL(ctx)(tx)
	})
	if err != nil {
		return nil, err
	}
	return a, nil
}

// markMySQL opens a savepoint. A transaction that was ended by whatever means,
// such as a statement that commits by itself, has no such savepoint any more.
func markMySQL(ctx context.Context) func(*sql.Tx) error {
	return func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "SAVEPOINT idemgen_claim")
		return err
	}
}

func (e *mysqlEngine) check(ctx context.Context, a *attempt) error {
	_, err := a.tx.ExecContext(ctx, "RELEASE SAVEPOINT idemgen_claim")
	a.spoiled = e.judge(err) == ended
	return err
}

func (e *mysqlEngine) insert(ctx context.Context, a *attempt, k key, req idempotency.Request, kept answer) error {
	if err := e.fits(len(kept.header) + len(kept.body) + len(req.Scope) + len(req.Operation) + len(req.Key)); err != nil {
		return err
	}
	if a.record != nil { // over
		if _, err := a.tx.ExecContext(ctx, e.at(k.id, e.expire)); err != nil {
			return err
		}
	}
	token := newToken()
	return stored(a.tx.StmtContext(ctx, e.store).ExecContext(ctx, k.id[:], []byte(req.Scope), []byte(req.Operation), []byte(req.Key),
		req.Fingerprint[:], kept.status, kept.header, nonNil(kept.body), milliseconds(req.Retention), token[:]))
}

func (e *mysqlEngine) reread(ctx context.Context, a *attempt, k key) (*record, error) {
	var readOnly bool
	_, r, err := scan(a.tx.QueryRowContext(ctx, e.at(k.id, e.look)), &readOnly)
	return r, err
}

func (*mysqlEngine) remedy(error) string { return "" }

// fits refuses a record of this size that the server does not take in one message.
func (e *mysqlEngine) fits(size int) error {
	size += 1 << 10 // what the message holds besides
	if size <= e.maxPacket {
		return nil
	}
	return &idempotency.Error{
		Code: idempotency.CodeResponseTooLarge,
		Err:  fmt.Errorf("sqlstore: the answer and its key are a message of %d bytes, and the server's max_allowed_packet is %d: raise it", size, e.maxPacket),
	}
}

func (e *mysqlEngine) find(ctx context.Context, id [16]byte) (int64, *record, error) {
	var readOnly bool
	now, r, err := scan(e.db.QueryRowContext(ctx, e.at(id, e.look)), &readOnly)
	if readOnly && err == nil {
		return 0, nil, errMySQLReadOnly
	}
	return now, r, err
}

// sweep finds the records without locks and deletes them by their ids: a DELETE
// with LIMIT would lock the gaps in the index on expires_at, and requests would
// wait for it.
func (e *mysqlEngine) sweep(ctx context.Context, limit int) (int64, error) {
	conn, err := e.db.Conn(ctx)
	if err != nil {
		return 0, err
	}
	lock := e.locks + "sweep"
	var alone sql.NullBool
	if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK('"+lock+"', 0)").Scan(&alone); err != nil {
		discard(conn)
		conn.Close()
		return 0, err
	}
	if !alone.Bool {
		conn.Close()
		return 0, nil
	}
	defer func() {
		if unlock(conn, lock) != nil {
			discard(conn)
		}
		conn.Close()
	}()
	ids, err := expiredMySQL(ctx, conn, e.due+strconv.Itoa(limit))
	if len(ids) == 0 || err != nil {
		return 0, err
	}
	n, err := affected(conn.ExecContext(ctx, strings.ReplaceAll(e.purge, "$ids", "x'"+strings.Join(ids, "', x'")+"'")))
	if e.judge(err) == conflict { // a sweeper on another node
		return 0, nil
	}
	return n, err
}

// listing has no parameters, as the other statements, and sees what other nodes
// have committed.
func (e *mysqlEngine) listing() listing {
	return listing{
		reader: e.db,
		writer: e.db,
		sql: strings.NewReplacer("$reads", e.synced, "$table", e.table, "$clock", mysqlNow, "$key", "`key`", "$body", "`body`",
			"$created", "created_at", "$expires", "expires_at", "$until", "lease_until", "$digits", "HEX(id)",
			"$version", "CONCAT(CASE WHEN lease_until IS NULL THEN 'answer ' ELSE 'claim ' END, COALESCE(HEX(lease_token), created_at))"),
		id:   func(digits string) string { return "x'" + digits + "'" },
		text: func(s string, _ *[]any) string { return "x'" + hex.EncodeToString([]byte(s)) + "'" },
		terminate: func(k key) string {
			return "KILL, with the session's number, ends it and rolls back what it has written: SELECT IS_USED_LOCK('" + e.lock(k.id) + "')"
		},
	}
}

func expiredMySQL(ctx context.Context, conn *sql.Conn, query string) (ids []string, err error) {
	rows, err := conn.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// unlockTimeout limits how long a lock is given back by its name.
const unlockTimeout = 5 * time.Second

// unlock gives a lock back.
func unlock(conn *sql.Conn, lock string) error {
	ctx, cancel := context.WithTimeout(context.Background(), unlockTimeout)
	defer cancel()
	_, err := conn.ExecContext(ctx, "DO RELEASE_LOCK('"+lock+"')")
	return err
}

// discard ends a session instead of giving it back to the pool.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
}

// Errors of MySQL and MariaDB.
const (
	mysqlChangedSinceRead = 1020 // ER_CHECKREAD, of innodb_snapshot_isolation
	mysqlDuplicate        = 1062 // ER_DUP_ENTRY
	mysqlDenied           = 1142 // ER_TABLEACCESS_DENIED_ERROR
	mysqlColumnDenied     = 1143 // ER_COLUMNACCESS_DENIED_ERROR
	mysqlDeadlock         = 1213 // ER_LOCK_DEADLOCK; in a Galera cluster also a COMMIT that was too late
	mysqlNoSavepoint      = 1305 // ER_SP_DOES_NOT_EXIST
	mysqlRolledBack       = 3101 // ER_TRANSACTION_ROLLBACK_DURING_COMMIT, of Group Replication
)

// judge takes no error of COMMIT for the proof that it was not carried out,
// except for a lost conflict. A lock wait that has timed out (1205) is none:
// it has taken its time already.
func (*mysqlEngine) judge(err error) verdict {
	if err == nil {
		return unclear
	}
	switch mysqlNumber(err) {
	case mysqlDeadlock, mysqlChangedSinceRead, mysqlRolledBack:
		return conflict
	case mysqlDuplicate:
		return taken
	case mysqlNoSavepoint:
		return ended
	}
	if errors.Is(err, sql.ErrTxDone) {
		return ended
	}
	return unclear
}

// mysqlMessage is how drivers write the server's error: "Error 1213 (40001): …".
var mysqlMessage = regexp.MustCompile(`^(?i:error) ([0-9]{4,5})(?: \([0-9A-Z]{5}\))?: `)

// mysqlNumber returns the number of the server's error in err, or 0. No driver
// tells it by a method.
func mysqlNumber(err error) (number int) {
	matches(err, func(err error) bool {
		m := mysqlMessage.FindStringSubmatch(err.Error())
		if m == nil {
			return false
		}
		number, _ = strconv.Atoi(m[1]) // it is one
		return true
	})
	return number
}
