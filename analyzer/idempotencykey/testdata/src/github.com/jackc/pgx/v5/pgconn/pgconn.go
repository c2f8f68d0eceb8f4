// Package pgconn has the shape of pgx's package of that name.
package pgconn

type CommandTag struct{}

func (CommandTag) RowsAffected() int64 { return 0 }
