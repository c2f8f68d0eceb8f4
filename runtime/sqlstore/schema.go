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

// Schema returns the statements that create the store's table and its index,
// for a migration of your own. They do nothing where both are there. Of the
// options only [WithTable] counts; its error is the only one.
func Schema(d Dialect, opts ...Option) (string, error) {
	c := newConfig(opts)
	if err := checkTable(c.table); err != nil {
		return "", err
	}
	return strings.ReplaceAll(d.schema(), defaultTable, c.table), nil
}

const (
	// migrateTimeout limits how long Migrate waits for others.
	migrateTimeout = 10 * time.Second
	// migratePause is how long it waits each time.
	migratePause = 20 * time.Millisecond
)

// Migrate creates the store's table and its index where they are missing. It
// is a step of its own, to be run before [New]. Several processes may run it
// at the same time: it waits up to 10 s for the others. Of the options only
// [WithTable] counts.
func Migrate(ctx context.Context, db *sql.DB, d Dialect, opts ...Option) error {
	schema, err := Schema(d, opts...)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, migrateTimeout)
	defer cancel()
	for statement := range strings.SplitSeq(schema, ";\n") {
		if strings.TrimSpace(statement) == "" {
			continue
		}
		if err := migrate(ctx, db, d, statement); err != nil {
			return fmt.Errorf("sqlstore: migrate: %w", err)
		}
	}
	return nil
}

// migrate executes a statement, again while others are in its way. Those that
// turn a new SQLite file to WAL mode at the same time fail at once, whatever
// their busy_timeout is.
func migrate(ctx context.Context, db *sql.DB, d Dialect, statement string) error {
	for {
		_, err := db.ExecContext(ctx, statement)
		if err == nil || !d.conflict(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(migratePause):
		}
	}
}
