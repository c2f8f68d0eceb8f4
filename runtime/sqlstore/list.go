package sqlstore

import (
	"context"
	"database/sql"
	"encoding/hex"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// listing is what differs between dialects where operators look at records.
type listing struct {
	reader, writer *sql.DB
	// own are the options of a transaction that locks nothing by reading. Nil
	// where no transaction is needed for that.
	own *sql.TxOptions
	// sql writes what begins a query that $reads, the $table, its $clock, the
	// columns $key, $body, $created, $expires and $until (the end of a lease), the
	// times in Unix milliseconds, $digits, an id in hexadecimal, and $version, the
	// entry's.
	sql *strings.Replacer
	// id writes such digits as an id.
	id func(digits string) string
	// text writes a text, or a parameter for it, which it adds to args.
	text func(s string, args *[]any) string
	// terminate says how an operator ends the transaction that holds the claim
	// of k.
	terminate func(k key) string
}

// listPage is how many records a page of List goes over. Those that the filter
// drops count as well, so that no statement takes long.
const listPage = 500

// listed are the records as List and Stats read them.
const listed = ` FROM (SELECT id, scope, operation, $key AS idempotency_key, status, length(header) + length($body) AS bytes,
	$created AS created, $expires AS expires, $until AS lease_until, $version AS version,
	CASE WHEN expires_at <= $clock THEN 4 WHEN lease_until IS NULL THEN 1 WHEN lease_until > $clock THEN 2 ELSE 3 END AS state
	FROM $table) AS r`

// List implements [idempotency.Lister]. A page is two statements of 500 records
// at most. On SQLite they read through the pool of [WithReader], where there is
// one.
func (s *Store) List(ctx context.Context, filter idempotency.Filter) iter.Seq2[idempotency.Entry, error] {
	return func(yield func(idempotency.Entry, error) bool) {
		for after, more := "", true; more; {
			entries, end, err := s.engine.listing().page(ctx, filter, after)
			if err != nil {
				yield(idempotency.Entry{}, unreadable("listed", err))
				return
			}
			for _, e := range entries {
				if !yield(e, nil) {
					return
				}
			}
			after, more = end, end != ""
		}
	}
}

// page reads the page that follows the id after, and returns the id that the
// next page follows; "" after the last one. Ids are hexadecimal digits.
func (l listing) page(ctx context.Context, filter idempotency.Filter, after string) (entries []idempotency.Entry, end string, err error) {
	var where []string
	if after != "" {
		where = append(where, "id > "+l.id(after))
	}
	if filter.ID == [16]byte{} {
		last := "$readsSELECT $digits FROM $table" + all(where) + " ORDER BY id LIMIT 1 OFFSET " + strconv.Itoa(listPage-1)
		if err := l.read(ctx, last, nil, func(row scanner) error { return row.Scan(&end) }); err != nil {
			return nil, "", err
		}
	} else {
		where = append(where, "id = "+l.id(hex.EncodeToString(filter.ID[:])))
	}
	if end != "" {
		where = append(where, "id <= "+l.id(end))
	}
	var args []any
	equal := func(column, value string) {
		if value != "" {
			where = append(where, column+" = "+l.text(value, &args))
		}
	}
	equal("scope", filter.Scope)
	equal("operation", filter.Operation)
	if filter.State != 0 {
		where = append(where, "state = "+strconv.Itoa(int(filter.State)))
	}
	page := "$readsSELECT scope, operation, idempotency_key, state, status, bytes, created, expires, lease_until, version" + listed + all(where) + " ORDER BY id"
	err = l.read(ctx, page, args, func(row scanner) error {
		var e idempotency.Entry
		var created, expires int64
		var until sql.NullInt64
		if err := row.Scan(&e.Scope, &e.Operation, &e.Key, &e.State, &e.Status, &e.Bytes, &created, &expires, &until, &e.Version); err != nil {
			return err
		}
		e.CreatedAt, e.ExpiresAt = time.UnixMilli(created).UTC(), time.UnixMilli(expires).UTC()
		if until.Valid {
			e.LeaseUntil = time.UnixMilli(until.Int64).UTC()
		}
		entries = append(entries, e)
		return nil
	})
	return entries, end, err
}

// read runs a query and calls each with its rows.
func (l listing) read(ctx context.Context, query string, args []any, each func(scanner) error) error {
	return l.within(ctx, l.reader, func(db statements) error {
		rows, err := db.QueryContext(ctx, l.sql.Replace(query), args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if err := each(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}

// statements is a pool or a transaction.
type statements interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// within calls f with db, or with a transaction where one is needed.
func (l listing) within(ctx context.Context, db *sql.DB, f func(statements) error) error {
	if l.own == nil {
		return f(db)
	}
	tx, err := db.BeginTx(ctx, l.own)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// all writes a WHERE.
func all(conditions []string) string {
	if conditions == nil {
		return ""
	}
	return " WHERE " + strings.Join(conditions, " AND ")
}

// Stats implements [idempotency.Lister]: one statement reads the whole table. It
// locks nothing, and has no time limit but that of ctx. On SQLite it holds the
// pool's only connection meanwhile, unless there is a [WithReader].
func (s *Store) Stats(ctx context.Context) (idempotency.Stats, error) {
	stats, err := s.engine.listing().stats(ctx)
	if err != nil {
		return idempotency.Stats{}, unreadable("counted", err)
	}
	return stats, nil
}

func (l listing) stats(ctx context.Context) (stats idempotency.Stats, err error) {
	const count = "$readsSELECT operation, sum(CASE WHEN state = 1 THEN 1 ELSE 0 END), sum(CASE WHEN state = 2 THEN 1 ELSE 0 END)," +
		" sum(CASE WHEN state = 3 THEN 1 ELSE 0 END), sum(CASE WHEN state = 4 THEN 1 ELSE 0 END), sum(bytes), min(created), max(created)" +
		listed + " GROUP BY operation"
	err = l.read(ctx, count, nil, func(row scanner) error {
		var operation string
		var c idempotency.Counts
		var oldest, newest int64
		if err := row.Scan(&operation, &c.Answers, &c.Claims, &c.Passed, &c.Expired, &c.Bytes, &oldest, &newest); err != nil {
			return err
		}
		c.Oldest, c.Newest = time.UnixMilli(oldest).UTC(), time.UnixMilli(newest).UTC()
		stats.Add(operation, c)
		return nil
	})
	return stats, err
}

// ReleaseEntry implements [idempotency.Lister]. Of claims it releases those of
// leases alone; others are locks, and end with their transaction.
func (s *Store) ReleaseEntry(ctx context.Context, e idempotency.Entry) error {
	k := keyOf(e.Identity)
	if err := s.releasable(ctx, k, e.Identity); err != nil {
		return err
	}
	n, err := s.engine.listing().release(ctx, k.id, e)
	if err != nil {
		return &idempotency.Error{
			Code: idempotency.CodeUnavailable, Detail: "the record could not be deleted, or nobody knows; look it up", Err: err,
		}
	}
	if n > 0 {
		return nil
	}
	_, r, err := s.engine.find(ctx, k.id)
	switch {
	case err != nil:
		return unreadable("read", err)
	case r == nil, r.Identity != e.Identity:
		return idempotency.ErrNotFound
	case r.claim() && r.live():
		return idempotency.ErrInFlight
	}
	return idempotency.ErrChanged
}

func (l listing) release(ctx context.Context, id [16]byte, e idempotency.Entry) (n int64, err error) {
	var args []any
	where := []string{"id = " + l.id(hex.EncodeToString(id[:])), "$version = " + l.text(e.Version, &args)}
	if e.State != idempotency.StateClaim {
		where = append(where, "(lease_until IS NULL OR lease_until <= $clock)")
	}
	err = l.within(ctx, l.writer, func(db statements) (err error) {
		n, err = affected(db.ExecContext(ctx, l.sql.Replace("DELETE FROM $table"+all(where)), args...))
		return err
	})
	return n, err
}

func unreadable(done string, err error) error {
	return &idempotency.Error{Code: idempotency.CodeUnavailable, Detail: "the records could not be " + done, Err: err}
}
