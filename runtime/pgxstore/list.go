package pgxstore

import (
	"context"
	"encoding/hex"
	"errors"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// listPage is how many records a page of List goes over. Those that the filter
// drops count as well, so that no statement takes long.
const listPage = 500

// version is [idempotency.Entry.Version]: the token of a claim, and the
// microsecond in which an answer was stored. A record's release and its successor
// take longer than that.
const version = `case when lease_until is null then (extract(epoch from created_at) * 1000000)::bigint::text else lease_token::text end`

// listed is what List and Stats read. The rows of claims made without advisory
// locks are no records, see [record.placeholder].
const listed = `(select id, scope, operation, key, status, octet_length(header)::bigint + octet_length(body) as bytes,
	created_at, expires_at, lease_until, ` + version + ` as version,
	case when expires_at <= now() then 4 when lease_until is null then 1 when lease_until > now() then 2 else 3 end as state
	from $table where status <> 0 or lease_until is not null) as r`

// List implements [idempotency.Lister]. A page is a transaction that reads 500
// records at most, within the claim timeout.
func (s *Store) List(ctx context.Context, filter idempotency.Filter) iter.Seq2[idempotency.Entry, error] {
	return func(yield func(idempotency.Entry, error) bool) {
		for after, more := "", true; more; {
			entries, end, err := s.listPage(ctx, filter, after)
			if err != nil {
				yield(idempotency.Entry{}, unavailable("the records could not be listed", err))
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

// listPage reads the page that follows the id after, and returns the id that
// the next page follows; "" after the last one.
func (s *Store) listPage(ctx context.Context, filter idempotency.Filter, after string) (entries []idempotency.Entry, end string, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.claimTimeout)
	defer cancel()
	where := &conditions{args: []any{pgx.QueryExecModeExec}}
	if after != "" {
		where.add("id > $::text::uuid", after)
	}
	err = s.reading(ctx, func(tx pgx.Tx) error {
		if filter.ID == [16]byte{} {
			// Unqualified, id would be the text, whose order no index has.
			last := s.onTable("select id::text from $table as r" + where.sql() + " order by r.id limit 1 offset " + strconv.Itoa(listPage-1))
			if err := tx.QueryRow(ctx, last, where.args...).Scan(&end); err != nil && !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
		}
		where.addFilter(filter, end)
		rows, err := tx.Query(ctx, s.onTable("select scope, operation, key, state, status, bytes, created_at, expires_at, lease_until, version from "+
			listed+where.sql()+" order by id"), where.args...)
		if err != nil {
			return err
		}
		entries, err = pgx.CollectRows(rows, scanEntry)
		return err
	})
	return entries, end, err
}

// Stats implements [idempotency.Lister]: one statement reads the whole table, but
// not what is stored of long bodies. While it runs, vacuum keeps what it can
// still see. It has no time limit but that of ctx.
func (s *Store) Stats(ctx context.Context) (stats idempotency.Stats, err error) {
	err = s.reading(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, s.onTable(`select operation, count(*) filter (where state = 1), count(*) filter (where state = 2),
			count(*) filter (where state = 3), count(*) filter (where state = 4), sum(bytes)::bigint, min(created_at), max(created_at)
			from `+listed+` group by operation`), pgx.QueryExecModeExec)
		if err != nil {
			return err
		}
		var operation string
		var c idempotency.Counts
		_, err = pgx.ForEachRow(rows, []any{&operation, &c.Answers, &c.Claims, &c.Passed, &c.Expired, &c.Bytes, &c.Oldest, &c.Newest}, func() error {
			c.Oldest, c.Newest = c.Oldest.UTC(), c.Newest.UTC()
			stats.Add(operation, c)
			return nil
		})
		return err
	})
	if err != nil {
		return idempotency.Stats{}, unavailable("the records could not be counted", err)
	}
	return stats, nil
}

// reading runs f in a transaction that locks nothing, whatever isolation level
// the session has by default.
func (s *Store) reading(ctx context.Context, f func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadOnly}, f)
}

func (s *Store) onTable(sql string) string {
	return strings.ReplaceAll(sql, "$table", s.cfg.table.quoted())
}

// conditions are those of a WHERE, with the arguments that pgx takes: the mode,
// then those of the conditions.
type conditions struct {
	all  []string
	args []any
}

// add adds a condition in which $ stands for arg.
func (c *conditions) add(condition string, arg any) {
	c.args = append(c.args, arg)
	c.all = append(c.all, strings.Replace(condition, "$", "$"+strconv.Itoa(len(c.args)-1), 1))
}

// addFilter adds those of filter, and that of a page which ends with the id end,
// unless it is "".
func (c *conditions) addFilter(filter idempotency.Filter, end string) {
	if end != "" {
		c.add("id <= $::text::uuid", end)
	}
	if filter.ID != [16]byte{} {
		c.add("id = $::text::uuid", hex.EncodeToString(filter.ID[:]))
	}
	if filter.Scope != "" {
		c.add("scope = $::text", filter.Scope)
	}
	if filter.Operation != "" {
		c.add("operation = $::text", filter.Operation)
	}
	if filter.State != 0 {
		c.add("state = $::int", int(filter.State))
	}
}

func (c *conditions) sql() string {
	if len(c.all) == 0 {
		return ""
	}
	return " where " + strings.Join(c.all, " and ")
}

func scanEntry(row pgx.CollectableRow) (e idempotency.Entry, err error) {
	var leaseUntil *time.Time
	err = row.Scan(&e.Scope, &e.Operation, &e.Key, (*int)(&e.State), &e.Status, &e.Bytes, &e.CreatedAt, &e.ExpiresAt, &leaseUntil, &e.Version)
	e.CreatedAt, e.ExpiresAt = e.CreatedAt.UTC(), e.ExpiresAt.UTC()
	if leaseUntil != nil {
		e.LeaseUntil = leaseUntil.UTC()
	}
	return e, err
}
