package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

func (postgresql) open(ctx context.Context, db *sql.DB, c config) (engine, error) {
	if c.reader != nil {
		return nil, errReader
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("sqlstore: connect: %w", err)
	}
	defer conn.Close()
	if err := checkPostgreSQLSession(ctx, conn); err != nil {
		return nil, fmt.Errorf("sqlstore: %w", err)
	}
	table, found, err := inspectPostgreSQL(ctx, conn, c.table)
	if err != nil {
		return nil, fmt.Errorf("sqlstore: %w", err)
	}
	if !found {
		return nil, fmt.Errorf("sqlstore: %w; if it is in a schema that is not on the search_path, give WithTable its name as schema.table", missingTable(c.table, "postgres", `psql -v ON_ERROR_STOP=1 "$DATABASE_URL"`))
	}
	if db.Stats().MaxOpenConnections != 1 {
		other, err := db.Conn(ctx)
		if err != nil {
			return nil, fmt.Errorf("sqlstore: connect: %w", err)
		}
		defer other.Close()
		if err := checkPostgreSQLLocks(ctx, conn, other); err != nil {
			return nil, fmt.Errorf("sqlstore: %w", err)
		}
	}
	return newPostgreSQLEngine(db, table), nil
}

func checkPostgreSQLSession(ctx context.Context, conn *sql.Conn) error {
	var readOnly, encoding string
	err := conn.QueryRowContext(ctx, "SELECT current_setting('transaction_read_only'), current_setting('client_encoding')").Scan(&readOnly, &encoding)
	switch {
	case err != nil:
		return err
	case readOnly != "off":
		return errReadOnly
	case encoding != "UTF8" && encoding != "SQL_ASCII":
		return fmt.Errorf("client_encoding is %s instead of UTF8: leave it out of the connection string", encoding)
	}
	return nil
}

// checkPostgreSQLLocks refuses a server whose advisory locks keep no other
// session out, as some that only speak PostgreSQL's protocol.
func checkPostgreSQLLocks(ctx context.Context, conn, other *sql.Conn) error {
	number := rand.Int64()
	take := func(conn *sql.Conn) (taken bool, end func(), err error) {
		tx, err := conn.BeginTx(ctx, nil)
		if err != nil {
			return false, nil, err
		}
		err = tx.QueryRowContext(ctx, "SELECT pg_try_advisory_xact_lock($1::bigint)", number).Scan(&taken)
		return taken, func() { _ = tx.Rollback() }, err // it holds nothing but the lock
	}
	first, end, err := take(conn)
	if end != nil {
		defer end()
	}
	if err != nil {
		return fmt.Errorf("advisory locks do not work here: use package pgxstore, which needs none: %w", err)
	}
	second, endSecond, err := take(other)
	if endSecond != nil {
		defer endSecond()
	}
	if err == nil && (!first || second) {
		err = errors.New("advisory locks keep no other session out here: use package pgxstore, which needs none")
	}
	return err
}

// querier is a connection or a transaction.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// postgresqlTypes are the columns of the table, by name. Those of leases can be
// null, and tables of earlier versions lack them.
var postgresqlTypes = map[string]string{
	"id":          "uuid",
	"created_at":  "timestamp with time zone",
	"expires_at":  "timestamp with time zone",
	"status":      "smallint",
	"scope":       "text",
	"operation":   "text",
	"key":         "text",
	"fingerprint": "bytea",
	"header":      "bytea",
	"body":        "bytea",
	"lease_token": "uuid",
	"lease_until": "timestamp with time zone",
}

// inspectPostgreSQL looks into the catalog. It returns the table's quoted name
// with the schema that it was found in, and whether it is there; its error says
// what is wrong with one that is.
func inspectPostgreSQL(ctx context.Context, db querier, table string) (name string, found bool, err error) {
	var oid int64
	var ordinary, permanent, allowed, unique, sorted, holed bool
	var schema, relation, user string
	err = db.QueryRowContext(ctx, `SELECT c.oid::bigint, nspname, relname, relkind IN ('r', 'p'), relpersistence = 'p', current_user,
		has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT') AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE'),
		EXISTS (SELECT 1 FROM pg_index JOIN pg_attribute AS a ON a.attrelid = indrelid AND a.attnum = indkey[0]
			WHERE indrelid = c.oid AND indisvalid AND indpred IS NULL AND indisunique AND indimmediate AND indnkeyatts = 1 AND a.attname = 'id'),
		EXISTS (SELECT 1 FROM pg_index JOIN pg_attribute AS a ON a.attrelid = indrelid AND a.attnum = indkey[0]
			WHERE indrelid = c.oid AND indisvalid AND indpred IS NULL AND a.attname = 'expires_at'),
		EXISTS (SELECT 1 FROM pg_partitioned_table WHERE partrelid = c.oid AND partstrat = 'r' AND partdefid = 0)
		FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace WHERE c.oid = to_regclass($1::text)`, quotedTable(table)).
		Scan(&oid, &schema, &relation, &ordinary, &permanent, &user, &allowed, &unique, &sorted, &holed)
	if errors.Is(err, sql.ErrNoRows) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	name = quoteIdentifier(schema) + "." + quoteIdentifier(relation)
	if !ordinary {
		return "", true, errView(name)
	}
	f, err := faultsOfPostgreSQL(ctx, db, oid, name)
	if err != nil {
		return "", true, err
	}
	if !permanent {
		f.wrong = append(f.wrong, "it is UNLOGGED or TEMPORARY, and a crash would lose answers and keep what handlers have done: ALTER TABLE "+name+" SET LOGGED;")
	}
	if !allowed {
		f.wrong = append(f.wrong, fmt.Sprintf("the user %s may not use it: GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO %s;", user, name, quoteIdentifier(user)))
	}
	if !unique && !slices.Contains(f.absent, "id") {
		f.wrong = append(f.wrong, "no unique index on id, which the guarantee rests on: CREATE UNIQUE INDEX ON "+name+" (id);")
	}
	if !sorted && !slices.Contains(f.absent, "expires_at") {
		f.wrong = append(f.wrong, "no index on expires_at, which Sweep needs: CREATE INDEX ON "+name+" (expires_at);")
	}
	if holed {
		f.wrong = append(f.wrong, "it has no default partition, and a record that falls into no other one would be refused after its handler has run: CREATE TABLE "+
			quoteIdentifier(schema)+"."+quoteIdentifier(relation+"_default")+" PARTITION OF "+name+" DEFAULT;")
	}
	return name, true, f.of(name, schemaCommand("postgres", table))
}

// faultsOfPostgreSQL returns what is wrong with the table's columns.
func faultsOfPostgreSQL(ctx context.Context, db querier, oid int64, table string) (f faults, err error) {
	// quote_all_identifiers quotes the names of types too.
	rows, err := db.QueryContext(ctx, `SELECT attname, replace(format_type(atttypid, NULL), '"', ''), attnotnull,
		attnotnull AND NOT atthasdef AND attidentity = '' AND attgenerated = '',
		coalesce((SELECT 'DROP CONSTRAINT ' || quote_ident(conname) || ', ' FROM pg_constraint WHERE conrelid = attrelid AND contype = 'p' AND attnum = ANY (conkey)), '')
		FROM pg_attribute WHERE attrelid = $1::bigint::oid AND attnum > 0 AND NOT attisdropped ORDER BY attnum`, oid)
	if err != nil {
		return faults{}, err
	}
	defer rows.Close()
	alter := "ALTER TABLE " + table + " "
	found := make(map[string]bool)
	for rows.Next() {
		var name, kind, unkeyed string // what drops a primary key that the column is a part of
		var notNull, mandatory bool
		if err := rows.Scan(&name, &kind, &notNull, &mandatory, &unkeyed); err != nil {
			return faults{}, err
		}
		want, ours := postgresqlTypes[name]
		found[name] = true
		if ours && kind != want {
			f.wrong = append(f.wrong, fmt.Sprintf("column %s is %s instead of %s: %sALTER %[1]s TYPE %[3]s USING %[1]s::%[3]s;", name, kind, want, alter))
		}
		switch {
		case !ours && mandatory:
			f.wrong = append(f.wrong, "column "+name+" is not the store's, and NOT NULL without a default: "+alter+unkeyed+"ALTER "+quoteIdentifier(name)+" DROP NOT NULL;")
		case ours && !notNull && !isOfLeases(name):
			f.wrong = append(f.wrong, fmt.Sprintf("column %s can be null: %sALTER %[1]s SET NOT NULL;", name, alter))
		case ours && notNull && isOfLeases(name):
			f.wrong = append(f.wrong, fmt.Sprintf("column %s cannot be null: %s%sALTER %[1]s DROP NOT NULL;", name, alter, unkeyed))
		}
	}
	var missing []string
	for name, kind := range postgresqlTypes {
		switch {
		case found[name]:
		case isOfLeases(name):
			missing = append(missing, name+" "+kind)
		default:
			f.absent = append(f.absent, name)
		}
	}
	slices.Sort(f.absent)
	if missing != nil {
		slices.Sort(missing)
		f.add = addColumns(table, missing) + ";"
	}
	return f, rows.Err()
}

func isOfLeases(column string) bool { return strings.HasPrefix(column, "lease_") }

func quoteIdentifier(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
