package sqlstore_test

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/idemgen/idemgen/runtime/internal/testenv"
	"github.com/idemgen/idemgen/runtime/sqlstore"
)

// New refuses what cannot keep the guarantee, and says what to do.
//
// Covers STO-17, STO-22, EXP-10.
func TestNewRefusesOnPostgreSQL(t *testing.T) {
	t.Parallel()
	after := func(queries ...string) func(*testing.T, *sql.DB) {
		return func(t *testing.T, db *sql.DB) {
			t.Helper()
			if err := sqlstore.Migrate(t.Context(), db, sqlstore.PostgreSQL); err != nil {
				t.Fatal(err)
			}
			for _, query := range queries {
				if _, err := db.ExecContext(t.Context(), query); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	altered := func(change string) func(*testing.T, *sql.DB) {
		return after("ALTER TABLE idempotency_records " + change)
	}
	partitioned := func(by string, more ...string) func(*testing.T, *sql.DB) {
		return after(append([]string{
			"CREATE TABLE parted (LIKE idempotency_records INCLUDING ALL) PARTITION BY " + by,
			"DROP TABLE idempotency_records", "ALTER TABLE parted RENAME TO idempotency_records",
		}, more...)...)
	}
	for name, c := range map[string]struct {
		params  string
		prepare func(*testing.T, *sql.DB)
		opts    []sqlstore.Option
		want    string // "" means accepted
	}{
		"good":             {prepare: after()},
		"one more column":  {prepare: altered("ADD note TEXT")},
		"another schema":   {prepare: after("CREATE SCHEMA app", "ALTER TABLE idempotency_records SET SCHEMA app"), params: "&search_path=nowhere,app"},
		"no table":         {want: "create it with sqlstore.Migrate"},
		"not on the path":  {prepare: after(), params: "&search_path=pg_catalog", want: "give WithTable its name as schema.table"},
		"unlogged":         {prepare: altered("SET UNLOGGED"), want: `ALTER TABLE "public"."idempotency_records" SET LOGGED`},
		"another type":     {prepare: altered("ALTER body TYPE text USING ''"), want: `column body is text instead of bytea: ALTER TABLE "public"."idempotency_records" ALTER body TYPE bytea USING body::bytea;`},
		"null":             {prepare: altered("ALTER body DROP NOT NULL"), want: "ALTER body SET NOT NULL"},
		"old schema":       {prepare: altered("DROP COLUMN header"), want: "it has no header"},
		"without leases":   {prepare: altered("DROP lease_token"), want: `ALTER TABLE "public"."idempotency_records" ADD COLUMN lease_token uuid`},
		"view":             {prepare: after("ALTER TABLE idempotency_records RENAME TO hidden", "CREATE VIEW idempotency_records AS SELECT * FROM hidden"), want: "is a view"},
		"mandatory column": {prepare: altered("ADD tenant INT NOT NULL"), want: "column tenant is not the store's"},
		"no primary key":   {prepare: altered("DROP CONSTRAINT idempotency_records_pkey"), want: `CREATE UNIQUE INDEX ON "public"."idempotency_records" (id);`},
		"no index":         {prepare: after("DROP INDEX idempotency_records_expires_at"), want: `CREATE INDEX ON "public"."idempotency_records" (expires_at)`},
		"read-only":        {prepare: after(), params: "&default_transaction_read_only=on", want: "connect to the primary"},
		"without rights": {
			prepare: after("GRANT SELECT ON idempotency_records TO pg_monitor"), params: "&role=pg_monitor",
			want: `GRANT SELECT, INSERT, UPDATE, DELETE ON "public"."idempotency_records" TO "pg_monitor"`,
		},
		"locks for show": {
			prepare: after("CREATE SCHEMA broken", "CREATE FUNCTION broken.pg_try_advisory_xact_lock(bigint) RETURNS boolean LANGUAGE sql AS 'SELECT true'"),
			params:  "&search_path=broken,public,pg_catalog", want: "use package pgxstore",
		},
		"partitions by time without default": {
			prepare: partitioned("RANGE (id)"), want: "no default partition",
		},
		"partitions by hash":  {prepare: partitioned("HASH (id)", "CREATE TABLE part PARTITION OF idempotency_records FOR VALUES WITH (MODULUS 1, REMAINDER 0)")},
		"no partition":        {prepare: partitioned("HASH (id)"), want: "no partition"},
		"reader":              {prepare: after(), opts: []sqlstore.Option{sqlstore.WithReader(new(sql.DB))}, want: "WithReader is for SQLite"},
		"a long name":         {opts: []sqlstore.Option{sqlstore.WithTable(strings.Repeat("a", 56))}, want: "at most 55"},
		"three names":         {opts: []sqlstore.Option{sqlstore.WithTable("a.b.c")}, want: "use name or schema.name"},
		"a name with a quote": {opts: []sqlstore.Option{sqlstore.WithTable(`a".b`)}, want: "use name or schema.name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := testenv.Postgres(t)
			if c.prepare != nil {
				c.prepare(t, openPostgreSQL(t, "pgx", dsn, 0))
			}
			for _, driver := range postgresqlDrivers {
				_, err := sqlstore.New(t.Context(), openPostgreSQL(t, driver, dsn+c.params, 0), sqlstore.PostgreSQL, c.opts...)
				if c.want == "" && err != nil {
					t.Errorf("%s: %v", driver, err)
				}
				if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
					t.Errorf("%s: error %v, want one with %q", driver, err, c.want)
				}
			}
		})
	}
}

// Nothing of a server that is not there is a surprise on the first request.
func TestNewWithoutServer(t *testing.T) {
	t.Parallel()
	for driver, dsn := range map[string]string{
		"mysql":    "root@tcp(127.0.0.1:1)/shop",
		"pgx":      "postgres://127.0.0.1:1/shop",
		"postgres": "postgres://127.0.0.1:1/shop?sslmode=disable",
	} {
		db, err := sql.Open(driver, dsn)
		if err != nil {
			t.Fatal(err)
		}
		dialect := sqlstore.PostgreSQL
		if driver == "mysql" {
			dialect = sqlstore.MySQL
		}
		if _, err := sqlstore.New(t.Context(), db, dialect); err == nil || !strings.Contains(err.Error(), "connect") {
			t.Errorf("%s: %v", driver, err)
		}
		db.Close()
	}
}
