package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql" // also the driver "mysql"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/internal/testenv"
	"github.com/idemgen/idemgen/runtime/sqlstore"
	"github.com/idemgen/idemgen/runtime/storetest"
)

// openMySQL opens a pool of at most conns connections; 0 is no limit. params
// are added to the data source name.
func openMySQL(t testing.TB, dsn string, params map[string]string, conns int) *sql.DB {
	t.Helper()
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	query := ""
	for name, value := range params {
		query += "&" + name + "=" + value
	}
	db, err := sql.Open("mysql", cfg.FormatDSN()+"?"+query)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(conns)
	return db
}

// newMySQL returns a pool on a new database with the store's table and one of
// effects, and its data source name.
func newMySQL(t testing.TB) (*sql.DB, string) {
	t.Helper()
	dsn := testenv.MariaDB(t)
	db := openMySQL(t, dsn, nil, 0)
	fillMySQL(t, db)
	return db, dsn
}

func fillMySQL(t testing.TB, db *sql.DB) {
	t.Helper()
	if err := sqlstore.Migrate(t.Context(), db, sqlstore.MySQL); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE effects (label VARBINARY(2048) NOT NULL) ENGINE=InnoDB"); err != nil {
		t.Fatal(err)
	}
}

// pay is work that makes one effect.
func pay(label string) idempotency.Work[*sql.Tx] {
	return func(ctx context.Context, tx *sql.Tx) (idempotency.Response, error) {
		return created(label), effect(ctx, tx, label)
	}
}

// ignored sends statements as a careless handler does.
func ignored(queries ...string) func(context.Context, *sql.Tx) error {
	return func(ctx context.Context, tx *sql.Tx) error {
		for _, q := range queries {
			if _, err := tx.ExecContext(ctx, q); err != nil {
				return err
			}
		}
		return nil
	}
}

// Every check has tables of its own in one database for each variant. The
// replica has a pool of its own, whose sessions are in another time zone.
//
// Covers STO-08, STO-09, STO-11, STO-20, EXP-08.
func TestConformanceOnMySQL(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		params map[string]string
		conns  int
		leases bool
	}{
		{name: "Defaults", conns: 6},
		{name: "EverySetting", conns: 3, leases: true, params: map[string]string{
			"clientFoundRows": "true", "interpolateParams": "true", "multiStatements": "true",
			"parseTime": "true", "loc": "America%2FNew_York", "time_zone": "%27-08%3A00%27", "tx_isolation": "%27READ-COMMITTED%27",
		}},
		{name: "Serializable", conns: 6, params: map[string]string{
			"tx_isolation": "%27SERIALIZABLE%27", "charset": "latin1", "sql_mode": "%27ANSI_QUOTES,NO_BACKSLASH_ESCAPES%27",
		}},
		{name: "Oracle", conns: 6, leases: true, params: map[string]string{"sql_mode": "ORACLE", "sql_safe_updates": "1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dsn := testenv.MariaDB(t)
			var tables atomic.Int32
			harness := mysqlHarness(func(t *testing.T) storetest.Fixture[*sql.Tx] {
				return mysqlServer().fixture(t, openMySQL(t, dsn, c.params, c.conns), openMySQL(t, dsn, elsewhere(c.params), c.conns), tables.Add(1))
			})
			storetest.Run(t, harness)
			if !c.leases {
				return
			}
			t.Run("Leases", func(t *testing.T) {
				t.Parallel()
				storetest.RunLeases(t, harness)
			})
		})
	}
}

// elsewhere returns params for sessions 13 hours ahead, of a process that reads
// times as those of a place that changes its clocks.
func elsewhere(params map[string]string) map[string]string {
	params = maps.Clone(params)
	if params == nil {
		params = map[string]string{}
	}
	params["time_zone"], params["parseTime"], params["loc"] = "%27%2B13%3A00%27", "true", "Pacific%2FAuckland"
	return params
}

func mysqlHarness(open func(t *testing.T) storetest.Fixture[*sql.Tx]) storetest.Harness[*sql.Tx] {
	return storetest.Harness[*sql.Tx]{
		Open: open,
		Faults: map[string]func(context.Context, *sql.Tx) error{
			"Commit":                 func(_ context.Context, tx *sql.Tx) error { return tx.Commit() },
			"Rollback":               func(_ context.Context, tx *sql.Tx) error { return tx.Rollback() },
			"COMMIT as text":         ignored("COMMIT"),
			"ROLLBACK as text":       ignored("ROLLBACK"),
			"COMMIT and BEGIN":       ignored("COMMIT", "START TRANSACTION"),
			"COMMIT AND CHAIN":       ignored("COMMIT AND CHAIN"),
			"nested BEGIN":           ignored("START TRANSACTION"),
			"DDL":                    ignored("CREATE OR REPLACE TABLE scratch (a INT)"),
			"LOCK TABLES":            ignored("CREATE TABLE IF NOT EXISTS scratch2 (a INT)", "LOCK TABLES scratch2 WRITE"),
			"autocommit on":          ignored("SET autocommit = 0", "SET autocommit = 1"),
			"a statement that fails": ignored("INSERT INTO nowhere VALUES (1)"),
			"savepoint left open":    ignored("SAVEPOINT mine"),
			"savepoint undone":       ignored("SAVEPOINT mine", "ROLLBACK TO mine"),
		},
		Conflict: func(context.Context, *sql.Tx) error {
			return fmt.Errorf("debit: %w", &mysql.MySQLError{Number: 1213, SQLState: [5]byte([]byte("40001")), Message: "Deadlock found when trying to get lock; try restarting transaction"})
		},
	}
}

// codeOf returns the code of a refusal.
func codeOf(err error) (idempotency.Code, bool) {
	var refusal *idempotency.Error
	if !errors.As(err, &refusal) {
		return "", false
	}
	return refusal.Code, true
}
