package sqlstore

import (
	"context"
	"database/sql"
	_ "embed" // for the schema
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// PostgreSQL is the dialect of PostgreSQL 12 and later, through any driver. Its
// table, locks and records are those of package pgxstore: both can serve the
// same keys at the same time.
var PostgreSQL Dialect = postgresql{}

type postgresql struct{}

//go:embed schema/postgresql.sql
var postgresqlSchema string

func (postgresql) own() string { return "SELECT current_setting('server_version')" }

// postgresqlName is a table's name, led by that of its schema or not. It leaves
// room for the suffix of the index's name in PostgreSQL's 63 bytes.
var postgresqlName = regexp.MustCompile(`^(?:[A-Za-z_][A-Za-z0-9_]{0,62}\.)?[A-Za-z_][A-Za-z0-9_]{0,54}$`)

func (postgresql) checkTable(name string) error {
	if !postgresqlName.MatchString(name) {
		return fmt.Errorf("sqlstore: %q cannot be a table's name on PostgreSQL: use name or schema.name, of letters, digits and underscores, a digit not first, the name at most 55 of them", name)
	}
	return nil
}

// quotedTable is a table's name as SQL has it.
func quotedTable(table string) string { return `"` + strings.ReplaceAll(table, ".", `"."`) + `"` }

func (postgresql) schema(table string) string {
	name := table[strings.LastIndexByte(table, '.')+1:]
	return strings.NewReplacer(
		`"idempotency_records_expires_at"`, `"`+name+`_expires_at"`, // is in the schema of its table
		`"idempotency_records"`, quotedTable(table),
	).Replace(postgresqlSchema)
}

// migrate looks into the catalog first, and again under a lock, which is the
// one that pgxstore.Migrate takes.
func (d postgresql) migrate(ctx context.Context, db *sql.DB, table string) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, found, err := inspectPostgreSQL(ctx, conn, table); !errors.Is(err, errEarlier) && (found || err != nil) {
		return err
	}
	tx, err := conn.BeginTx(ctx, readCommitted)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock($1)", nameHash("migrate "+quotedTable(table))); err != nil {
		return err
	}
	switch name, found, err := inspectPostgreSQL(ctx, tx, table); {
	case errors.Is(err, errEarlier):
		return upgradePostgreSQL(ctx, tx, name)
	case found || err != nil:
		return err // another process was first
	}
	for statement := range strings.SplitSeq(d.schema(table), ";\n") {
		if strings.TrimSpace(statement) == "" {
			continue
		}
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	if err := compress(ctx, tx, table); err != nil {
		return err
	}
	return tx.Commit()
}

// upgradePostgreSQL adds what a table of an earlier version lacks.
func upgradePostgreSQL(ctx context.Context, tx *sql.Tx, table string) error {
	if _, err := tx.ExecContext(ctx, fmt.Sprintf("SET LOCAL lock_timeout = %d", alterPatience.Milliseconds())); err != nil {
		return err
	}
	columns := []string{"IF NOT EXISTS lease_token uuid", "IF NOT EXISTS lease_until timestamptz"}
	if _, err := tx.ExecContext(ctx, addColumns(table, columns)); err != nil {
		return fmt.Errorf("the columns that %s lacks could not be added; run Migrate again: %w", table, err)
	}
	return tx.Commit()
}

// compress asks for lz4, which is four times as fast as the default at bodies
// of 20 KB. Servers before 14 do not know the clause, others may be built
// without it.
func compress(ctx context.Context, tx *sql.Tx, table string) error {
	if _, err := tx.ExecContext(ctx, "SAVEPOINT idemgen_lz4"); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "ALTER TABLE "+quotedTable(table)+" ALTER COLUMN body SET COMPRESSION lz4")
	switch sqlState(err) {
	case stateSyntax, stateNotSupported:
		_, err = tx.ExecContext(ctx, "ROLLBACK TO SAVEPOINT idemgen_lz4")
	}
	return err
}

// nameHash makes the number of an advisory lock out of a table's name, as
// pgxstore does.
func nameHash(name string) int64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return int64(h.Sum64())
}

// postgresqlEngine sends its statements as the driver sends the handler's, so
// that what makes a driver work behind a pooler makes the store work as well.
type postgresqlEngine struct {
	db    *sql.DB
	table string // with the schema's name, quoted
	space int64  // tells this table's advisory locks from another's

	enter, look, store, expire, purge string
	leases                            leaseStatements
}

const (
	postgresqlRecord = `r.scope, r.operation, r.key, r.fingerprint, r.status, r.header, r.body,
		floor(extract(epoch from r.created_at) * 1000)::bigint, floor(extract(epoch from r.expires_at) * 1000)::bigint,
		uuid_send(r.lease_token), floor(extract(epoch from r.lease_until) * 1000)::bigint`
	postgresqlNow     = `floor(extract(epoch from now()) * 1000)::bigint`
	postgresqlCreated = `floor(extract(epoch from created_at) * 1000)::bigint`
	// noClaim is the mark of a transaction without a claim.
	noClaim = "none"
)

func newPostgreSQLEngine(db *sql.DB, table string) *postgresqlEngine {
	r := strings.NewReplacer("$table", table, "$now", postgresqlNow, "$record", postgresqlRecord, "$created", postgresqlCreated)
	return &postgresqlEngine{
		db:    db,
		table: table,
		space: nameHash(table),
		// A replay takes no lock: a request that comes when the record has gone
		// could not tell it from a claim. The setting ends with the transaction,
		// and so tells whether it is still the same one.
		enter: r.Replace(`SELECT CASE WHEN r.expires_at > now() AND (r.lease_until IS NULL OR r.lease_until > now()) THEN NULL ELSE pg_try_advisory_xact_lock($1::bigint) END,
			set_config('idemgen.claim', $2::text, true), current_setting('transaction_read_only') = 'on', $now, $record
			FROM (SELECT 1) AS one LEFT JOIN $table AS r ON r.id = $2::text::uuid`),
		look: r.Replace(`SELECT current_setting('transaction_read_only') = 'on', $now, $record FROM (SELECT 1) AS one LEFT JOIN $table AS r ON r.id = $1::text::uuid`),
		store: r.Replace(`INSERT INTO $table (id, created_at, expires_at, status, scope, operation, key, fingerprint, header, body)
			VALUES ($1::text::uuid, statement_timestamp(), statement_timestamp() + $9::bigint * interval '1 millisecond',
			CASE WHEN current_setting('idemgen.claim', true) = $1::text THEN $6::smallint END, $2, $3, $4, $5, $7, $8)`),
		expire: r.Replace(`DELETE FROM $table WHERE id = $1::text::uuid AND (expires_at <= now() OR lease_until <= now())`),
		// As an array the ids are looked up in the index, whatever the planner
		// thinks of the table's size.
		purge: r.Replace(`DELETE FROM $table WHERE id = ANY(ARRAY(SELECT id FROM $table
			WHERE expires_at <= now() ORDER BY expires_at LIMIT $1::bigint FOR UPDATE SKIP LOCKED))`),
		leases: newPostgreSQLLeases(r),
	}
}

func (*postgresqlEngine) oneWriter() bool { return false }

func (*postgresqlEngine) proves() bool { return true }

// errReadOnly is what a pool leads to when it has followed a failover to the
// wrong server. Nothing is replayed there: a standby may have a record that was
// released since.
var errReadOnly = errors.New("the database takes no writes: it is a standby, or default_transaction_read_only is on; connect to the primary (target_session_attrs=read-write finds it)")

// readCommitted lets each statement see what was committed before it.
var readCommitted = &sql.TxOptions{Isolation: sql.LevelReadCommitted}

// claim reads the record twice: a statement that takes the lock cannot see what
// was committed between its snapshot and the lock, the next one does.
func (e *postgresqlEngine) claim(ctx context.Context, k key) (*attempt, error) {
	a := &attempt{patient: true}
	err := a.begin(ctx, e.db, readCommitted, func(tx *sql.Tx) error {
		var held sql.NullBool
		var mark string
		var readOnly bool
		var err error
		a.now, a.record, err = scan(tx.QueryRowContext(ctx, e.enter, k.lock^e.space, uuid(k.id)), &held, &mark, &readOnly)
		a.held = held.Bool
		if readOnly && err == nil {
			err = errReadOnly
		}
		if err != nil || a.record.live() {
			a.later = err == nil
			return err
		}
		a.now, a.record, err = scan(tx.QueryRowContext(ctx, e.look, uuid(k.id)), &readOnly)
		return err
	})
	if err != nil {
		return nil, err
	}
	return a, nil
}

func (e *postgresqlEngine) plain(ctx context.Context) (*attempt, error) {
	a := &attempt{patient: true}
	err := a.begin(ctx, e.db, readCommitted, func(tx *sql.Tx) error {
		var mark string
		var readOnly bool
		err := tx.QueryRowContext(ctx, "SELECT set_config('idemgen.claim', '"+noClaim+"', true), current_setting('transaction_read_only') = 'on'").Scan(&mark, &readOnly)
		if readOnly && err == nil {
			err = errReadOnly
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return a, nil
}

// check has nothing to do where a record is inserted, which looks by itself.
func (e *postgresqlEngine) check(ctx context.Context, a *attempt) error {
	if a.held {
		return nil
	}
	var same sql.NullBool
	err := a.tx.QueryRowContext(ctx, "SELECT current_setting('idemgen.claim', true) = '"+noClaim+"'").Scan(&same)
	if err == nil && !same.Bool {
		return transactionEnded(errors.New("the settings of the transaction are gone"))
	}
	return explained(err)
}

func (e *postgresqlEngine) insert(ctx context.Context, a *attempt, k key, req idempotency.Request, kept answer) error {
	if a.record != nil { // over
		if _, err := a.tx.ExecContext(ctx, e.expire, uuid(k.id)); err != nil {
			return explained(err)
		}
	}
	return explained(stored(a.tx.ExecContext(ctx, e.store, uuid(k.id), req.Scope, req.Operation, req.Key, req.Fingerprint[:],
		kept.status, kept.header, nonNil(kept.body), milliseconds(req.Retention))))
}

func (e *postgresqlEngine) reread(ctx context.Context, a *attempt, k key) (*record, error) {
	var readOnly bool
	_, r, err := scan(a.tx.QueryRowContext(ctx, e.look, uuid(k.id)), &readOnly)
	return r, err
}

func (e *postgresqlEngine) remedy(err error) string {
	if errors.Is(err, errHidden) || sqlState(err) == stateDenied {
		return "if the table has row-level security, let a policy for this user allow all, or ALTER TABLE " + e.table + " DISABLE ROW LEVEL SECURITY;"
	}
	return ""
}

// explained says what an error means that comes after work.
func explained(err error) error {
	if sqlState(err) == stateAborted {
		return &abortedError{err}
	}
	return err
}

func (e *postgresqlEngine) find(ctx context.Context, id [16]byte) (int64, *record, error) {
	var readOnly bool
	now, r, err := scan(e.db.QueryRowContext(ctx, e.look, uuid(id)), &readOnly)
	if readOnly && err == nil {
		return 0, nil, errReadOnly
	}
	return now, r, err
}

// sweep makes each batch a transaction that skips records locked by others.
func (e *postgresqlEngine) sweep(ctx context.Context, limit int) (int64, error) {
	tx, err := e.db.BeginTx(ctx, readCommitted)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	var alone bool
	if err := tx.QueryRowContext(ctx, "SELECT pg_try_advisory_xact_lock($1::bigint)", e.space).Scan(&alone); err != nil || !alone {
		return 0, err
	}
	n, err := affected(tx.ExecContext(ctx, e.purge, limit))
	if err != nil {
		return 0, err
	}
	return n, tx.Commit()
}

func (e *postgresqlEngine) listing() listing {
	milliseconds := func(column string) string { return "floor(extract(epoch from " + column + ") * 1000)::bigint" }
	return listing{
		reader: e.db,
		writer: e.db,
		own:    readCommitted,
		sql: strings.NewReplacer("$reads", "", "$table", e.table, "$clock", "now()", "$key", "key", "$body", "body",
			"$created", milliseconds("created_at"), "$expires", milliseconds("expires_at"), "$until", milliseconds("lease_until"),
			"$digits", "replace(id::text, '-', '')",
			// An answer is told by its microsecond, as in pgxstore.
			"$version", "CASE WHEN lease_until IS NULL THEN (extract(epoch from created_at) * 1000000)::bigint::text ELSE lease_token::text END"),
		id: func(digits string) string { return "'" + digits + "'::uuid" },
		text: func(s string, args *[]any) string {
			*args = append(*args, s)
			return "$" + strconv.Itoa(len(*args)) + "::text"
		},
		terminate: func(k key) string {
			number := uint64(k.lock ^ e.space)
			return fmt.Sprintf("this does it, and rolls back what it has written: SELECT pg_terminate_backend(pid) FROM pg_locks"+
				" WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"+
				" AND classid = %d AND objid = %d AND objsubid = 1", number>>32, number&math.MaxUint32)
		},
	}
}

// uuid writes an id as PostgreSQL's type does, which is also its text.
func uuid(id [16]byte) string {
	s := hex.EncodeToString(id[:])
	return fmt.Sprintf("%s-%s-%s-%s-%s", s[:8], s[8:12], s[12:16], s[16:20], s[20:])
}

// SQLSTATEs (PostgreSQL, appendix A).
const (
	stateNotNull          = "23502"
	stateUnique           = "23505"
	stateSerialization    = "40001"
	stateDeadlock         = "40P01"
	stateCompletionUnsure = "40003"
	stateAborted          = "25P02" // the transaction failed before
	stateSyntax           = "42601"
	stateNotSupported     = "0A000"
	stateDenied           = "42501"
	stateIdleTooLong      = "25P03" // idle_in_transaction_session_timeout
	stateTooLong          = "25P04" // transaction_timeout
	classConnection       = "08"
	classIntervention     = "57" // such as the server's shutdown
)

// judge takes an error of the server for the proof that a COMMIT was not
// carried out, unless it says that the connection ends. Status is null, which
// the table refuses, where the transaction is not the one that was begun.
func (*postgresqlEngine) judge(err error) verdict {
	state := sqlState(err)
	switch {
	case errors.Is(err, sql.ErrTxDone), state == stateNotNull:
		return ended
	case state == stateSerialization, state == stateDeadlock:
		return conflict
	case state == stateUnique:
		return taken
	case state == "", state == stateCompletionUnsure, state == stateIdleTooLong, state == stateTooLong,
		state[:2] == classConnection, state[:2] == classIntervention:
		return unclear
	}
	return refused
}

// sqlState returns the server's code in err, or "". Drivers tell it by a method.
func sqlState(err error) string {
	var coded interface {
		error
		SQLState() string
	}
	if errors.As(err, &coded) && len(coded.SQLState()) == 5 {
		return coded.SQLState()
	}
	return ""
}
