package pgxstore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed schema.sql
var schema string

//go:embed partitions.sql
var partitionsSchema string

// Schema returns the SQL that creates the table and its index, for goose,
// golang-migrate, Atlas or psql: plain statements that no tool has to quote.
// [WithTable] chooses another name, [WithPartitions] a partitioned table, whose
// first sweep makes the partitions of the present; other options do not matter.
func Schema(opts ...Option) (string, error) {
	cfg, err := newConfig(opts)
	if err != nil {
		return "", err
	}
	return cfg.schemaSQL(), nil
}

func (cfg *config) schemaSQL() string {
	t, sql := cfg.table, schema
	if cfg.partitions {
		const end = "PRIMARY KEY (id)\n)"
		sql = strings.Replace(sql, end, end+" PARTITION BY RANGE (id)", 1) + partitionsSchema
	}
	return strings.NewReplacer(
		"idempotency_records_expires_at", table{name: t.name + "_expires_at"}.quoted(),
		"idempotency_records_hashed", table{schema: t.schema, name: t.name + "_hashed"}.quoted(),
		"idempotency_records_default", table{schema: t.schema, name: t.name + "_default"}.quoted(),
		"idempotency_records", t.quoted(),
	).Replace(sql)
}

// migrateWait is how long Migrate lets requests wait.
const migrateWait = 5 * time.Second

// Migrate creates the table where it is missing, in one transaction. It is a
// step of its own before servers start, and safe when several start it at
// once. A table of an earlier version gets the columns that it lacks, which
// rewrites no row and waits 5 s at most for transactions that use the table.
// Any other table is only checked: Migrate changes nothing, and returns an error
// if it is not as this version needs it. [WithTable] chooses another name,
// [WithPartitions] a partitioned table, whose partitions of the time ahead are
// made where they are missing, with the same patience; other options do not
// matter.
func Migrate(ctx context.Context, pool *pgxpool.Pool, opts ...Option) error {
	cfg, err := newConfig(opts)
	if err != nil {
		return err
	}
	err = pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		if err := cfg.migrate(ctx, conn.Conn()); err != nil || !cfg.partitions {
			return err
		}
		return cfg.makePartitions(ctx, conn.Conn())
	})
	if err != nil {
		return fmt.Errorf("pgxstore: migrate: %w", err)
	}
	return nil
}

func (cfg *config) migrate(ctx context.Context, conn *pgx.Conn) error {
	t := cfg.table
	if _, found, err := t.inspect(ctx, conn); !errors.Is(err, errEarlier) && (found || err != nil) {
		return err
	}
	if err := checkWritable(ctx, conn); err != nil {
		return err
	}
	// READ COMMITTED sees what was created before the lock was had.
	return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		err := optional(ctx, tx, fmt.Sprintf("select pg_advisory_xact_lock(%d)", int64(hash("migrate "+t.quoted()))), stateNoFunction, stateNotSupported)
		if err != nil {
			return err
		}
		switch _, found, err := t.inspect(ctx, tx); {
		case errors.Is(err, errEarlier):
			return t.upgrade(ctx, tx)
		case found || err != nil:
			return err // another one was first
		}
		if _, err := tx.Exec(ctx, cfg.schemaSQL()); err != nil {
			return err
		}
		tables := []table{t}
		if cfg.partitions {
			tables = append(tables, table{schema: t.schema, name: t.name + "_hashed"}, table{schema: t.schema, name: t.name + "_default"})
		}
		for _, t := range tables {
			// lz4 is four times as fast as the default at bodies of 20 KB. Servers
			// before 14 do not know the clause, others may be built without it.
			err := optional(ctx, tx, "ALTER TABLE "+t.quoted()+" ALTER COLUMN body SET COMPRESSION lz4", stateSyntax, stateNotSupported)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// makePartitions makes the partitions of the time ahead that are missing.
func (cfg *config) makePartitions(ctx context.Context, conn *pgx.Conn) error {
	t, _, err := cfg.table.inspect(ctx, conn)
	if err == nil {
		err = cfg.checkPartitioned(t)
	}
	if err != nil {
		return err
	}
	u := newUpkeep(cfg, t)
	u.wait = migrateWait
	return u.create(ctx, conn)
}

// checkPartitioned refuses a table that was to be partitioned and is not.
func (cfg *config) checkPartitioned(t table) error {
	if cfg.partitions && !t.partitioned {
		return fmt.Errorf("the table %s is not partitioned by the range of id: leave pgxstore.WithPartitions out, or convert the table: https://github.com/idemgen/idemgen/blob/main/docs/migrations.md", t.quoted())
	}
	return nil
}

// schemaCommand is the command that prints what [Schema] returns.
func (cfg *config) schemaCommand() string {
	name := cfg.table.name
	if cfg.table.schema != "" {
		name = cfg.table.schema + "." + name
	}
	command := "idemctl schema -store postgres -table " + name
	if cfg.partitions {
		command += " -partitioned"
	}
	return command
}

// errEarlier says of columns that tables of earlier versions lack them.
var errEarlier = errors.New("apply pgxstore.Migrate, which adds them")

// upgrade adds what a table of an earlier version lacks.
func (t table) upgrade(ctx context.Context, tx pgx.Tx) error {
	// Whoever uses the table waits behind an ALTER TABLE that waits.
	if _, err := tx.Exec(ctx, fmt.Sprintf("SET LOCAL lock_timeout = %d", migrateWait.Milliseconds())); err != nil {
		return err
	}
	var add []string
	for _, c := range columns {
		if c.nullable {
			add = append(add, "ADD COLUMN IF NOT EXISTS "+c.name+" "+c.kind)
		}
	}
	if _, err := tx.Exec(ctx, "ALTER TABLE "+t.quoted()+" "+strings.Join(add, ", ")); err != nil {
		return fmt.Errorf("the columns that %s lacks could not be added; apply pgxstore.Migrate again: %w", t.quoted(), err)
	}
	_, _, err := t.inspect(ctx, tx)
	return err
}

// optional runs sql and takes it for done if it fails with one of states.
func optional(ctx context.Context, tx pgx.Tx, sql string, states ...string) error {
	err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, sql)
		return err
	})
	if slices.Contains(states, state(err)) {
		return nil
	}
	return err
}

// columns is what the table must have. More columns are allowed if they can be
// left out of an INSERT.
var columns = []struct {
	name, kind string
	nullable   bool // and missing in tables of earlier versions
}{
	{name: "id", kind: "uuid"},
	{name: "created_at", kind: "timestamp with time zone"},
	{name: "expires_at", kind: "timestamp with time zone"},
	{name: "status", kind: "smallint"},
	{name: "scope", kind: "text"},
	{name: "operation", kind: "text"},
	{name: "key", kind: "text"},
	{name: "fingerprint", kind: "bytea"},
	{name: "header", kind: "bytea"},
	{name: "body", kind: "bytea"},
	{name: "lease_token", kind: "uuid", nullable: true},
	{name: "lease_until", kind: "timestamp with time zone", nullable: true},
}

// querier is a connection or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// inspect looks into the catalog and returns the table with the schema that it
// was found in, and whether it is there. An error says what is wrong with it.
func (t table) inspect(ctx context.Context, db querier) (table, bool, error) {
	var oid uint32
	var ordinary, permanent bool
	err := db.QueryRow(ctx, `select c.oid, nspname, relname, relkind in ('r', 'p'), relpersistence = 'p' from pg_class c join pg_namespace n on n.oid = relnamespace
		where c.oid = to_regclass($1)`, pgx.QueryExecModeExec, t.quoted()).Scan(&oid, &t.schema, &t.name, &ordinary, &permanent)
	if errors.Is(err, pgx.ErrNoRows) {
		return t, false, nil
	}
	if err != nil {
		return t, false, err
	}
	if !ordinary {
		return t, true, fmt.Errorf("%s is no table: it may be a view or a foreign table; choose another name with pgxstore.WithTable", t.quoted())
	}
	if !permanent {
		return t, true, fmt.Errorf("the table %s is UNLOGGED or TEMPORARY: a crash would lose answers and keep what handlers have done: ALTER TABLE %[1]s SET LOGGED;", t.quoted())
	}
	if err := t.check(ctx, db, oid); err != nil {
		return t, true, err
	}
	t.partitioned, err = t.checkPartitions(ctx, db, oid)
	return t, true, err
}

// checkPartitions reports whether the table is partitioned by the time of keys, and
// says what is wrong with its partitions.
func (t table) checkPartitions(ctx context.Context, db querier, oid uint32) (byTime bool, err error) {
	var complete bool
	var unfit string
	err = db.QueryRow(ctx, `select partstrat = 'r', partdefid <> 0, coalesce((select min(relname) from pg_inherits join pg_class as c on c.oid = inhrelid
			where inhparent = partrelid and (relkind <> 'r' or relpersistence <> 'p')), '')
		from pg_partitioned_table where partrelid = $1`, pgx.QueryExecModeExec, oid).Scan(&byTime, &complete, &unfit)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return false, nil
	case err != nil:
		return false, err
	case unfit != "":
		return false, fmt.Errorf("the partition %s of %s is UNLOGGED, foreign or partitioned itself; it must be an ordinary table", unfit, t.quoted())
	case byTime && !complete:
		return false, noDefault(t)
	case byTime:
		return true, t.checkLength()
	}
	return false, nil
}

func noDefault(t table) error {
	return fmt.Errorf("the table %s has no default partition: a record that falls into no other one is refused after its handler has run: CREATE TABLE %s PARTITION OF %[1]s DEFAULT;",
		t.quoted(), table{schema: t.schema, name: t.name + "_default"}.quoted())
}

// check says what is wrong with a table that is there.
func (t table) check(ctx context.Context, db querier, oid uint32) error {
	var wrong []error
	// quote_all_identifiers quotes the names of types too.
	rows, err := db.Query(ctx, `select attname, replace(format_type(atttypid, null), '"', ''), attnotnull and not atthasdef and attidentity = '' and attgenerated = '', attnotnull,
		coalesce((select 'DROP CONSTRAINT ' || quote_ident(conname) || ', ' from pg_constraint where conrelid = attrelid and contype = 'p' and attnum = any(conkey)), '')
		from pg_attribute where attrelid = $1 and attnum > 0 and not attisdropped`, pgx.QueryExecModeExec, oid)
	if err != nil {
		return err
	}
	type column struct {
		kind               string
		mandatory, notNull bool
		unkeyed            string // what drops a primary key that the column is a part of
	}
	found := make(map[string]column)
	var name string
	var c column
	if _, err := pgx.ForEachRow(rows, []any{&name, &c.kind, &c.mandatory, &c.notNull, &c.unkeyed}, func() error {
		found[name] = c
		return nil
	}); err != nil {
		return err
	}
	alter := "ALTER TABLE " + t.quoted() + " "
	var absent, add []string
	for _, want := range columns {
		got, ok := found[want.name]
		delete(found, want.name)
		if !ok {
			if want.nullable {
				add = append(add, "ADD COLUMN "+want.name+" "+want.kind)
			} else {
				absent = append(absent, want.name)
			}
			continue
		}
		if got.kind != want.kind {
			wrong = append(wrong, fmt.Errorf("column %s is %s instead of %s: %sALTER COLUMN %[1]s TYPE %[3]s USING %[1]s::%[3]s;", want.name, got.kind, want.kind, alter))
		}
		switch {
		case !got.notNull && !want.nullable:
			wrong = append(wrong, fmt.Errorf("column %s lacks NOT NULL: %sALTER COLUMN %[1]s SET NOT NULL;", want.name, alter))
		case got.notNull && want.nullable:
			wrong = append(wrong, fmt.Errorf("column %s has NOT NULL: %s%sALTER COLUMN %[1]s DROP NOT NULL;", want.name, alter, got.unkeyed))
		}
	}
	for name, c := range found {
		if c.mandatory {
			wrong = append(wrong, fmt.Errorf("column %s is not the store's, and NOT NULL without a default: %s%sALTER COLUMN %s DROP NOT NULL;", name, alter, c.unkeyed, pgx.Identifier{name}.Sanitize()))
		}
	}
	if absent != nil {
		wrong = append(wrong, fmt.Errorf("it has no %s, and may be another table than the store's: choose another name with pgxstore.WithTable, or rename it and apply pgxstore.Migrate", strings.Join(absent, ", ")))
	}
	if add != nil {
		wrong = append(wrong, fmt.Errorf("the columns of leases are missing; %w, or: %s%s;", errEarlier, alter, strings.Join(add, ", ")))
	}
	var unique, sorted bool
	err = db.QueryRow(ctx, `select
		coalesce(bool_or(indisunique and indimmediate and indnkeyatts = 1 and a.attname = 'id'), false),
		coalesce(bool_or(a.attname = 'expires_at'), false)
		from pg_index join pg_attribute a on a.attrelid = indrelid and a.attnum = indkey[0]
		where indrelid = $1 and indisvalid and indpred is null`, pgx.QueryExecModeExec, oid).Scan(&unique, &sorted)
	if err != nil {
		return err
	}
	if !unique && !slices.Contains(absent, "id") {
		wrong = append(wrong, fmt.Errorf("no unique index on (id), which the guarantee rests on: CREATE UNIQUE INDEX ON %s (id);", t.quoted()))
	}
	if !sorted && !slices.Contains(absent, "expires_at") {
		wrong = append(wrong, fmt.Errorf("no index on (expires_at), which sweeping needs: CREATE INDEX ON %s (expires_at);", t.quoted()))
	}
	if wrong != nil {
		return fmt.Errorf("the table %s is not as this version needs it; %s prints what it is to be:\n%w", t.quoted(), (&config{table: t}).schemaCommand(), errors.Join(wrong...))
	}
	return nil
}

// checkPrivileges refuses a table that the current user may not use.
func (t table) checkPrivileges(ctx context.Context, db querier) error {
	var allowed bool
	var user string
	err := db.QueryRow(ctx, `select current_user, has_table_privilege($1, 'SELECT') and has_table_privilege($1, 'INSERT')
		and has_table_privilege($1, 'UPDATE') and has_table_privilege($1, 'DELETE')`, pgx.QueryExecModeExec, t.quoted()).Scan(&user, &allowed)
	if err != nil {
		return err
	}
	if !allowed {
		return fmt.Errorf("the user %s may not use the table: GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO %s;", user, t.quoted(), pgx.Identifier{user}.Sanitize())
	}
	return nil
}
