package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// defaultTable is the name that the files in schema/ use.
const defaultTable = "idempotency_records"

// tableName is what SQLite, MySQL and PostgreSQL all take as an identifier.
var tableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// checkTable refuses a name that could be more than a name.
func checkTable(name string) error {
	if !tableName.MatchString(name) {
		return fmt.Errorf("sqlstore: %q cannot be a table's name: use 1 to 63 letters, digits and underscores, a digit not first", name)
	}
	return nil
}

// named gives the statements of a schema another table's name.
func named(schema, table string) string { return strings.ReplaceAll(schema, defaultTable, table) }

// Schema returns the statements that create the store's table and its index,
// for a migration of your own. Of the options only [WithTable] counts; its
// error is the only one.
func Schema(d Dialect, opts ...Option) (string, error) {
	c := newConfig(opts)
	if err := checkTable(c.table); err != nil {
		return "", err
	}
	return named(d.schema(), c.table), nil
}

// migrateTimeout limits how long Migrate waits for others.
const migrateTimeout = 10 * time.Second

// Migrate creates the store's table and its index where they are missing. It
// is a step of its own, to be run before [New]. Several processes may run it
// at the same time: it waits up to 10 s for the others. Of the options only
// [WithTable] counts.
func Migrate(ctx context.Context, db *sql.DB, d Dialect, opts ...Option) error {
	c := newConfig(opts)
	if err := checkTable(c.table); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, migrateTimeout)
	defer cancel()
	if err := d.migrate(ctx, db, c.table); err != nil {
		return fmt.Errorf("sqlstore: migrate: %w", err)
	}
	return nil
}
