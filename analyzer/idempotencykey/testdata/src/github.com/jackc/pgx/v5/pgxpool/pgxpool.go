// Package pgxpool has the shape of pgx's package of that name.
package pgxpool

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

type Pool struct{}

func (*Pool) Acquire(ctx context.Context) (*Conn, error) { return nil, nil }
func (*Pool) Begin(ctx context.Context) (pgx.Tx, error)  { return nil, nil }
func (*Pool) Exec(ctx context.Context, sql string, arguments ...any) (pgconn.CommandTag, error) {
	return pgconn.CommandTag{}, nil
}
func (*Pool) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) { return nil, nil }
func (*Pool) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row        { return nil }
func (*Pool) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults         { return nil }
func (*Pool) CopyFrom(ctx context.Context, tableName pgx.Identifier, columnNames []string, rowSrc pgx.CopyFromSource) (int64, error) {
	return 0, nil
}

type Conn struct{}

func (*Conn) Release() {}
func (*Conn) Exec(ctx context.Context, sql string, arguments ...any) (pgconn.CommandTag, error) {
	return pgconn.CommandTag{}, nil
}
