// Package sqlx has the shape of sqlx.
package sqlx

import "database/sql"

type DB struct{ *sql.DB }

type Row struct{}

func (db *DB) NamedExec(query string, arg any) (sql.Result, error) { return nil, nil }
func (db *DB) QueryRowx(query string, args ...any) *Row            { return nil }
