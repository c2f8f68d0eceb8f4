package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// defaultTable is the name that the files in schema/ use.
const defaultTable = "idempotency_records"

// tableName is what SQLite, MySQL and PostgreSQL all take as an identifier.
var tableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// checkPlain refuses what is not such an identifier.
func checkPlain(table string) error {
	if !tableName.MatchString(table) {
		return fmt.Errorf("sqlstore: %q cannot be a table's name: use 1 to 63 letters, digits and underscores, a digit not first", table)
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
	if err := d.checkTable(c.table); err != nil {
		return "", err
	}
	return d.schema(c.table), nil
}

// errEarlier is matched by the error for a table that lacks the columns of
// leases and nothing else, as tables of earlier versions do.
var errEarlier = errors.New("run sqlstore.Migrate, which adds what is missing")

// faults are what is wrong with a table. Statements are for pasting: each ends its
// line, with a semicolon.
type faults struct {
	absent []string // the columns that it lacks, but for those of leases
	wrong  []string // what else, each with its statement if there is one
	add    string   // the statements that add the columns of leases which it lacks
}

// of is the error for a table, nil where nothing is wrong. Command prints what it
// is to be.
func (f faults) of(table, command string) error {
	if f.absent == nil && f.wrong == nil && f.add != "" {
		return fmt.Errorf("the table %s is of an earlier version, without the columns of leases; %w, or: %s", table, errEarlier, f.add)
	}
	var lines []string
	if f.absent != nil {
		lines = append(lines, "it has no "+strings.Join(f.absent, ", ")+", and may be another table than the store's: choose another name with sqlstore.WithTable, or rename it and run sqlstore.Migrate")
	}
	lines = append(lines, f.wrong...)
	if f.add != "" {
		lines = append(lines, "the columns of leases are missing: "+f.add)
	}
	if lines == nil {
		return nil
	}
	return fmt.Errorf("the table %s is not as this version needs it; %s prints what it is to be:\n%s", table, command, strings.Join(lines, "\n"))
}

// addColumns is the statement that adds columns to a table.
func addColumns(table string, columns []string) string {
	return "ALTER TABLE " + table + " ADD COLUMN " + strings.Join(columns, ", ADD COLUMN ")
}

const (
	// migrateTimeout limits how long Migrate waits for others.
	migrateTimeout = 10 * time.Second
	// alterPatience limits how long Migrate waits for those who use a table that
	// it adds columns to: others wait behind it.
	alterPatience = 5 * time.Second
)

// Migrate creates the store's table and its index where they are missing. It
// is a step of its own, to be run before [New]. Several processes may run it
// at the same time: it waits up to 10 s for the others. Of the options only
// [WithTable] counts.
//
// A table of an earlier version gets the columns that it lacks. That rewrites no
// row, except on MySQL before 8.0.12, and waits 5 s at most for transactions
// that use the table. Any other table is only checked.
func Migrate(ctx context.Context, db *sql.DB, d Dialect, opts ...Option) error {
	c := newConfig(opts)
	if err := d.checkTable(c.table); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, migrateTimeout)
	defer cancel()
	if err := recognize(ctx, db, d); err != nil {
		return fmt.Errorf("sqlstore: migrate: %w", err)
	}
	if err := d.migrate(ctx, db, c.table); err != nil {
		return fmt.Errorf("sqlstore: migrate: %w", err)
	}
	return nil
}
