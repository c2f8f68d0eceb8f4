package sqlstore_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"regexp"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/idemgen/idemgen/runtime/sqlstore"
)

// The statements that New's error names make the table right, one after the
// other, as they stand.
//
// Covers STO-22.
func TestRemediesHold(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		server
		breaking []string
		user     func(t *testing.T, admin *sql.DB, dsn string) string // returns the store's own dsn
		want     int                                                  // statements
	}{
		{sqliteServer(), []string{
			"DROP TABLE idempotency_records",
			`CREATE TABLE idempotency_records (id BLOB NOT NULL, scope TEXT, operation TEXT, key TEXT, fingerprint BLOB, status INTEGER, header BLOB, body BLOB,
				created_at INTEGER, expires_at INTEGER, note TEXT, PRIMARY KEY (id, created_at))`,
			"CREATE INDEX some ON idempotency_records (expires_at) WHERE status = 200",
		}, func(_ *testing.T, _ *sql.DB, dsn string) string { return dsn }, 4},
		{mysqlServer(), []string{
			`ALTER TABLE idempotency_records ADD tenant INT NOT NULL, ADD note VARCHAR(9) CHARACTER SET latin1 NOT NULL, DROP PRIMARY KEY, ADD PRIMARY KEY (tenant, status),
				MODIFY id BINARY(8), MODIFY header TEXT NOT NULL, MODIFY body LONGBLOB, MODIFY lease_until BIGINT NOT NULL, DROP lease_token,
				DROP KEY idempotency_records_expires_at, ENGINE=MyISAM`,
		}, strangerOnMySQL, 11},
		{postgresqlServer("pgx"), []string{
			`ALTER TABLE idempotency_records ADD "Tenant" INT NOT NULL, ADD "Extra" TEXT NOT NULL, DROP CONSTRAINT idempotency_records_pkey, ADD PRIMARY KEY ("Tenant", id),
				ALTER header TYPE text USING '', ALTER status DROP NOT NULL, ALTER lease_until SET NOT NULL, DROP lease_token, SET UNLOGGED`,
			"DROP INDEX idempotency_records_expires_at",
			"ALTER TABLE idempotency_records ENABLE ROW LEVEL SECURITY",
		}, strangerOnPostgreSQL, 11},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			admin, dsn := c.pool(t)
			for _, query := range c.breaking {
				if _, err := admin.ExecContext(t.Context(), query); err != nil {
					t.Fatal(err)
				}
			}
			db := c.open(t, c.user(t, admin, dsn), 0)
			applied := 0
			for {
				_, err := sqlstore.New(t.Context(), db, c.dialect)
				if err == nil {
					break
				}
				remedies := regexp.MustCompile(`\b(ALTER|CREATE|GRANT) [^;\n]*;`).FindAllString(err.Error(), -1)
				if len(remedies) == 0 || applied > 30 {
					t.Fatalf("after %d statements: %v", applied, err)
				}
				for _, query := range remedies {
					if _, err := admin.ExecContext(t.Context(), query); err != nil {
						t.Fatalf("%s: %v", query, err)
					}
					applied++
				}
			}
			if applied != c.want {
				t.Errorf("%d statements were applied, want %d", applied, c.want)
			}
		})
	}
}

// strangerOnMySQL makes a user with an awkward name and a right to another table.
func strangerOnMySQL(t *testing.T, admin *sql.DB, dsn string) string {
	t.Helper()
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	cfg.User, cfg.Passwd = "o'b`"+rand.Text()[:16], ""
	account := "`" + strings.ReplaceAll(cfg.User, "`", "``") + "`"
	for _, query := range []string{"CREATE USER " + account, "GRANT SELECT ON effects TO " + account} {
		if _, err := admin.ExecContext(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _, _ = admin.ExecContext(context.Background(), "DROP USER "+account) })
	return cfg.FormatDSN()
}

// strangerOnPostgreSQL makes a role without rights.
func strangerOnPostgreSQL(t *testing.T, admin *sql.DB, dsn string) string {
	t.Helper()
	role := "idem_" + strings.ToLower(rand.Text()) // roles belong to the whole server
	if _, err := admin.ExecContext(t.Context(), "CREATE ROLE "+role+" LOGIN"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = admin.ExecContext(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role) })
	return dsn + "&user=" + role
}
