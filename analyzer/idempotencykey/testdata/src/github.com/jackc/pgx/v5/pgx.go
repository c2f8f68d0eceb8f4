// Package pgx has the shape of pgx.
package pgx

import (
	"context"

	"github.com/jackc/pgx/v5/pgconn"
)

type (
	Row  interface{ Scan(dest ...any) error }
	Rows interface {
		Row
		Next() bool
		Close()
	}
	TxOptions struct{}
	Batch     struct{}

	Identifier     []string
	CopyFromSource interface{ Next() bool }
	BatchResults   interface{ Close() error }
)

func (b *Batch) Queue(query string, arguments ...any) {}

type Tx interface {
	Begin(ctx context.Context) (Tx, error)
	Commit(ctx context.Context) error
	Rollback(ctx context.Context) error
	Exec(ctx context.Context, sql string, arguments ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) Row
	SendBatch(ctx context.Context, b *Batch) BatchResults
	CopyFrom(ctx context.Context, tableName Identifier, columnNames []string, rowSrc CopyFromSource) (int64, error)
}

func BeginFunc(ctx context.Context, db interface {
	Begin(ctx context.Context) (Tx, error)
}, fn func(Tx) error) error {
	return nil
}
