// Package gorm has the shape of gorm.
package gorm

import "context"

type DB struct{ Error error }

func (db *DB) WithContext(ctx context.Context) *DB { return db }
func (db *DB) Create(value any) *DB                { return db }
func (db *DB) First(dest any, conds ...any) *DB    { return db }
func (db *DB) Exec(sql string, values ...any) *DB  { return db }
