package pgxstore

import (
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// rows, row and batchResults are pgx's own behind the guard: reading goes on
// while work runs and ends with it.
type rows struct {
	pgx.Rows
	*guard
}

func (r *rows) Next() bool {
	if r.enter() != nil {
		return false
	}
	defer r.leave()
	if r.Rows.Next() {
		return true
	}
	_ = r.note(r.Rows.Err())
	return false
}

func (r *rows) Close() {
	if r.enter() != nil {
		return
	}
	defer r.leave()
	r.Rows.Close()
	_ = r.note(r.Rows.Err())
}

func (r *rows) Err() error {
	if err := r.enter(); err != nil {
		return err
	}
	defer r.leave()
	return r.Rows.Err()
}

func (r *rows) Scan(dest ...any) error {
	if err := r.enter(); err != nil {
		return err
	}
	defer r.leave()
	return r.Rows.Scan(dest...)
}

func (r *rows) Values() ([]any, error) {
	if err := r.enter(); err != nil {
		return nil, err
	}
	defer r.leave()
	return r.Rows.Values()
}

func (r *rows) RawValues() [][]byte {
	if r.enter() != nil {
		return nil
	}
	defer r.leave()
	return r.Rows.RawValues()
}

func (r *rows) CommandTag() pgconn.CommandTag {
	if r.enter() != nil {
		return pgconn.CommandTag{}
	}
	defer r.leave()
	return r.Rows.CommandTag()
}

func (r *rows) FieldDescriptions() []pgconn.FieldDescription {
	if r.enter() != nil {
		return nil
	}
	defer r.leave()
	return r.Rows.FieldDescriptions()
}

type row struct {
	pgx.Row
	*guard
}

func (r *row) Scan(dest ...any) error {
	if err := r.enter(); err != nil {
		return err
	}
	defer r.leave()
	return r.note(r.Row.Scan(dest...))
}

type batchResults struct {
	pgx.BatchResults
	*guard
}

func (b *batchResults) Exec() (pgconn.CommandTag, error) {
	if err := b.enter(); err != nil {
		return pgconn.CommandTag{}, err
	}
	defer b.leave()
	tag, err := b.BatchResults.Exec()
	return tag, b.note(err)
}

func (b *batchResults) Query() (pgx.Rows, error) {
	if err := b.enter(); err != nil {
		return failedRows{err}, err
	}
	defer b.leave()
	r, err := b.BatchResults.Query()
	if err != nil {
		return failedRows{err}, b.note(err)
	}
	return &rows{r, b.guard}, nil
}

func (b *batchResults) QueryRow() pgx.Row {
	if err := b.enter(); err != nil {
		return failedRows{err}
	}
	defer b.leave()
	return &row{b.BatchResults.QueryRow(), b.guard}
}

func (b *batchResults) Close() error {
	if err := b.enter(); err != nil {
		return err
	}
	defer b.leave()
	return b.note(b.BatchResults.Close())
}

// Tx returns nil: the transaction has begun before any batch of work.
func (b *batchResults) Tx() pgx.Tx { return nil }

// failedRows are what a query that was not sent returns.
type failedRows struct{ err error }

func (failedRows) Close()                                       {}
func (r failedRows) Err() error                                 { return r.err }
func (failedRows) CommandTag() pgconn.CommandTag                { return pgconn.CommandTag{} }
func (failedRows) FieldDescriptions() []pgconn.FieldDescription { return nil }
func (failedRows) Next() bool                                   { return false }
func (r failedRows) Scan(...any) error                          { return r.err }
func (r failedRows) Values() ([]any, error)                     { return nil, r.err }
func (failedRows) RawValues() [][]byte                          { return nil }
func (failedRows) TypeMap() *pgtype.Map                         { return nil }
func (failedRows) Conn() *pgx.Conn                              { return nil }
