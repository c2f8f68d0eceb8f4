// Package db has the shape of sqlc's output, and a repository by hand.
package db

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

type DBTX interface {
	Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
	Query(context.Context, string, ...any) (pgx.Rows, error)
	QueryRow(context.Context, string, ...any) pgx.Row
}

func New(db DBTX) *Queries { return &Queries{db: db} }

type Queries struct{ db DBTX }

func (q *Queries) WithTx(tx pgx.Tx) *Queries { return &Queries{db: tx} }

const insertOrder = `-- name: InsertOrder :one
INSERT INTO orders (amount) VALUES ($1) RETURNING id`

func (q *Queries) InsertOrder(ctx context.Context, amount int64) (int64, error) { // want InsertOrder:"writes\\(receiver\\)"
	row := q.db.QueryRow(ctx, insertOrder, amount)
	var id int64
	return id, row.Scan(&id)
}

const getOrder = `-- name: GetOrder :one
SELECT amount FROM orders WHERE id = $1`

func (q *Queries) GetOrder(ctx context.Context, id int64) (int64, error) {
	row := q.db.QueryRow(ctx, getOrder, id)
	var amount int64
	return amount, row.Scan(&amount)
}

// Repository writes through a pool of its own.
type Repository struct{ pool *pgxpool.Pool }

func (r *Repository) save(ctx context.Context, amount int64) error { // want save:"writes\\(receiver\\)"
	_, err := r.pool.Exec(ctx, "UPDATE orders SET amount = $1", amount)
	return err
}

func (r *Repository) Save(ctx context.Context, amount int64) error { // want Save:"writes\\(receiver\\)"
	return r.save(ctx, amount)
}

// SaveIn writes through what it is given.
func (r *Repository) SaveIn(ctx context.Context, db DBTX, amount int64) error { // want SaveIn:"writes\\(1\\)"
	return InsertWith(ctx, db, amount)
}

func InsertWith(ctx context.Context, db DBTX, amount int64) error { // want InsertWith:"writes\\(1\\)"
	_, err := db.Exec(ctx, "INSERT INTO orders (amount) VALUES ($1)", amount)
	return err
}

type txKey struct{}

// SaveFrom writes through the transaction in ctx, if there is one.
func (r *Repository) SaveFrom(ctx context.Context, amount int64) error {
	_, err := r.from(ctx).Exec(ctx, "UPDATE orders SET amount = $1", amount)
	return err
}

func (r *Repository) from(ctx context.Context) DBTX {
	if tx, ok := ctx.Value(txKey{}).(pgx.Tx); ok {
		return tx
	}
	return r.pool
}

var shared *pgxpool.Pool

// Log writes through this package's pool.
func Log(ctx context.Context, line string) error { // want Log:"writes\\(package\\)"
	_, err := shared.Exec(ctx, "INSERT INTO log (line) VALUES ($1)", line)
	return err
}

func LogTwice(ctx context.Context, line string) error { // want LogTwice:"writes\\(package\\)"
	if err := Log(ctx, line); err != nil {
		return err
	}
	return Log(ctx, line)
}

// Run writes what its caller says.
func (r *Repository) Run(ctx context.Context, sql string) error {
	_, err := r.pool.Exec(ctx, sql)
	return err
}
