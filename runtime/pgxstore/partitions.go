package pgxstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// ahead is how many partitions there are beyond the one of the present.
	ahead = 7
	// attempts is how often a change of partitions is tried in one sweep.
	attempts = 3
	// partitionSuffix is the time, in UTC, that ends a partition's name.
	partitionSuffix = "_2006010215"
)

// span is a range of the times that lead ids, in Unix milliseconds; to is the
// first after it.
type span struct{ from, to int64 }

// end is beyond all ids: their times have 48 bits.
const end = 1 << 48

// leastID returns the least id of a time as SQL.
func leastID(ms int64) string {
	return fmt.Sprintf("'%08x-%04x-0000-0000-000000000000'", ms>>16, ms&0xffff)
}

// partition is a part of the table. The default one has an empty span at the end.
type partition struct {
	span
	name string // quoted, with its schema
}

// upkeep makes partitions before they are needed and drops those that are over.
//
// Every request that runs holds a lock on the table, so that whatever needs the
// table for itself waits for the longest of them, and later requests wait behind
// it. Each such step therefore gives up after a while; what it leaves is done by
// a later sweep.
type upkeep struct {
	*config
	space int64 // the lock of sweepers
	begun bool  // no other sweeper was at work
	tried int   // how often a partition could not be dropped
}

func newUpkeep(cfg *config, t table) *upkeep {
	own := *cfg
	own.table = t
	return &upkeep{config: &own, space: space(t)}
}

// errBusy says that a step has given up.
var errBusy = errors.New("requests would have had to wait for too long")

// step runs do in a transaction that holds the lock of sweepers. If another sweeper
// holds it, the first step does nothing. Later ones wait for those who have begun
// in between: were they to give way, two could give way to each other.
func (u *upkeep) step(ctx context.Context, conn *pgx.Conn, do func(tx pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if u.begun {
			if _, err := tx.Exec(ctx, fmt.Sprintf("select pg_advisory_xact_lock(%d)", u.space)); err != nil {
				return err
			}
			return do(tx)
		}
		if err := tryLock(ctx, tx, u.space, &u.begun); err != nil || !u.begun {
			return err
		}
		return do(tx)
	})
}

// briefly runs statements that make requests wait, in a savepoint, and lets them
// take no longer than the configuration allows, waiting for locks included. It
// returns errBusy if that is not enough.
func (u *upkeep) briefly(ctx context.Context, tx pgx.Tx, statements ...string) error {
	deadline := time.Now().Add(u.wait)
	err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		for _, sql := range statements {
			left := time.Until(deadline).Milliseconds()
			if left < 1 {
				return errBusy
			}
			if _, err := tx.Exec(ctx, fmt.Sprintf("set local statement_timeout = %d; %s", left, sql)); err != nil {
				return err
			}
		}
		return nil
	})
	if s := state(err); s == stateCanceled || s == stateLockTimeout || s == stateDeadlock {
		return errBusy
	}
	return err
}

// list returns the partitions of the table in order, the default one last, and the
// server's time. It is an error if the default one has been taken away. Where no
// option says how wide partitions are to be, they are as wide as the newest.
func (u *upkeep) list(ctx context.Context, tx pgx.Tx) (parts []partition, now int64, err error) {
	if err := tx.QueryRow(ctx, "select (extract(epoch from now()) * 1000)::bigint", pgx.QueryExecModeExec).Scan(&now); err != nil {
		return nil, 0, err
	}
	rows, err := tx.Query(ctx, `select format('%I.%I', nspname, relname), bound = 'DEFAULT', coalesce(substring(bound from 'FROM \(''([0-9a-f-]+)'), ''), coalesce(substring(bound from 'TO \(''([0-9a-f-]+)'), '')
		from (select relname, relnamespace, pg_get_expr(relpartbound, oid) as bound from pg_class
			where oid in (select inhrelid from pg_inherits where inhparent = $1::text::regclass)) as p
		join pg_namespace as n on n.oid = relnamespace`, pgx.QueryExecModeExec, u.table.quoted())
	if err != nil {
		return nil, 0, err
	}
	var p partition
	var isDefault bool
	var from, to string
	_, err = pgx.ForEachRow(rows, []any{&p.name, &isDefault, &from, &to}, func() error {
		p.span = span{from: parseBound(from, 0), to: parseBound(to, end)}
		if isDefault {
			p.from = end
		}
		parts = append(parts, p)
		return nil
	})
	slices.SortFunc(parts, func(a, b partition) int { return cmp.Compare(a.from, b.from) })
	if err == nil && (len(parts) == 0 || parts[len(parts)-1].from != end) {
		err = noDefault(u.table)
	}
	if !u.partitions {
		for _, p := range parts {
			if p.from > 0 && p.to < end {
				u.width = time.Duration(p.to-p.from) * time.Millisecond
			}
		}
	}
	return parts, now, err
}

// parseBound returns the time of a bound, rounded down, or without if there is none.
func parseBound(uuid string, without int64) int64 {
	ms, err := strconv.ParseInt(strings.ReplaceAll(uuid, "-", "")[:min(len(uuid), 12)], 16, 64)
	if err != nil {
		return without
	}
	return ms
}

// gap returns the first span from at on, before until, that no partition has,
// as wide as a partition is to be and aligned to its width; or an empty one.
func gap(parts []partition, at, until, width int64) span {
	for _, p := range parts {
		if p.to <= at {
			continue
		}
		if p.from > at {
			break
		}
		at = p.to
	}
	if at >= until {
		return span{}
	}
	to := at - at%width + width
	for _, p := range parts {
		if p.from > at {
			to = min(to, p.from)
		}
	}
	return span{from: at, to: to}
}

// create makes the partitions of the present and of the time ahead that are not
// there. It fails only if those of the next width cannot be made.
func (u *upkeep) create(ctx context.Context, conn *pgx.Conn) error {
	var done int64 // looked after up to here
	for tried := 0; ; {
		var next span
		var now, width int64
		err := u.step(ctx, conn, func(tx pgx.Tx) error {
			parts, t, err := u.list(ctx, tx)
			if err != nil {
				return err
			}
			now, width = t, u.width.Milliseconds()
			start := now - now%width
			if next = gap(parts, max(done, start), start+(ahead+1)*width, width); next.to == 0 {
				return nil
			}
			return u.attach(ctx, tx, next, parts[len(parts)-1].name)
		})
		switch {
		case err == nil && next.to == 0: // none is missing, or another sweeper is at work
			return nil
		case err == nil:
			done, tried = next.to, 0
		case !errors.Is(err, errBusy):
			return err
		default:
			if tried++; tried < attempts {
				if err := sleep(ctx, u.wait); err != nil {
					return err
				}
				continue
			}
			if next.from > now+width {
				return nil // there is time
			}
			return fmt.Errorf("no partition could be made for keys of %s: their records go to the default partition, whose records are deleted one by one; it may be locked by long transactions, or be too large to be looked through within %v: apply pgxstore.Migrate when there is little to do, or raise pgxstore.WithSweepWait: %w",
				time.UnixMilli(next.from).UTC().Format(time.RFC3339), u.wait, err)
		}
	}
}

// attach makes the partition of s, and moves the records of s into it that the
// default one has. If these are many, it makes none: they expire where they are.
func (u *upkeep) attach(ctx context.Context, tx pgx.Tx, s span, other string) error {
	theirs := " from " + other + " where id >= " + leastID(s.from) + " and id < " + leastID(s.to)
	var n int
	if err := tx.QueryRow(ctx, fmt.Sprintf("select count(*) from (select%s limit %d) as p", theirs, u.batch+1), pgx.QueryExecModeExec).Scan(&n); err != nil || n > u.batch {
		return err
	}
	// Named by hand, since a default partition that was a table of its own may have
	// its columns in another order.
	var columns string
	err := tx.QueryRow(ctx, `select string_agg(quote_ident(attname), ', ') from pg_attribute
		where attrelid = $1::text::regclass and attnum > 0 and not attisdropped and attgenerated = ''`, pgx.QueryExecModeExec, u.table.quoted()).Scan(&columns)
	if err != nil {
		return err
	}
	name := table{schema: u.table.schema, name: u.table.name + time.UnixMilli(s.from).UTC().Format(partitionSuffix)}.quoted()
	if _, err := tx.Exec(ctx, "create table "+name+" (like "+u.table.quoted()+" including all)"); err != nil {
		return err
	}
	return u.briefly(ctx, tx,
		"lock table only "+other+" in access exclusive mode",
		"with moved as (delete"+theirs+" returning *) insert into "+name+" ("+columns+") select "+columns+" from moved",
		"alter table "+u.table.quoted()+" attach partition "+name+" for values from ("+leastID(s.from)+") to ("+leastID(s.to)+")")
}

// drop drops the partitions that are over and whose records have all expired. It
// returns how many records these had, and the partitions whose records are to be
// deleted one by one.
func (u *upkeep) drop(ctx context.Context, conn *pgx.Conn) (dropped int64, rest []string, err error) {
	var parts []partition
	var now int64
	err = u.step(ctx, conn, func(tx pgx.Tx) (err error) {
		parts, now, err = u.list(ctx, tx)
		return err
	})
	if err != nil {
		return 0, nil, err
	}
	other := parts[len(parts)-1].name
	for _, p := range parts {
		if p.to == end {
			rest = append(rest, p.name)
		}
		if p.to > now {
			continue
		}
		var n int64
		var mixed bool
		err := u.step(ctx, conn, func(tx pgx.Tx) (err error) {
			n, mixed, err = u.dropOne(ctx, tx, p.name, other)
			return err
		})
		switch {
		case state(err) == stateNoTable: // another sweeper was first
		case errors.Is(err, errBusy): // the next sweep tries again
		case err != nil:
			return dropped, rest, err
		case mixed:
			rest = append(rest, p.name)
		default:
			dropped += n
		}
	}
	return dropped, rest, nil
}

// dropOne drops a partition if all its records have expired, and returns how many
// it had. If its last record has much longer to go, records of several retentions
// are mixed in it.
//
// expires_at alone decides: in a claim of a lease it lies after the lease's end.
func (u *upkeep) dropOne(ctx context.Context, tx pgx.Tx, name, other string) (n int64, mixed bool, err error) {
	var live bool
	err = tx.QueryRow(ctx, fmt.Sprintf("select coalesce(max(expires_at) > now(), false), coalesce(max(expires_at) > now() + interval '%d ms', false) from %s",
		2*u.width.Milliseconds(), name), pgx.QueryExecModeExec).Scan(&live, &mixed)
	if err != nil || live {
		return 0, mixed, err
	}
	if err := tx.QueryRow(ctx, "select count(*) from "+name, pgx.QueryExecModeExec).Scan(&n); err != nil {
		return 0, false, err
	}
	// A request can have renewed a record meanwhile. Under the lock none can.
	check := "do $$ begin if exists (select from " + name + " where expires_at > statement_timestamp()) then raise exception using errcode = '" + stateLive + "'; end if; end $$"
	for u.tried < attempts {
		err := u.briefly(ctx, tx, "lock table only "+u.table.quoted()+", only "+other+", only "+name+" in access exclusive mode", check, "drop table "+name)
		switch {
		case state(err) == stateLive:
			return 0, false, nil
		case !errors.Is(err, errBusy):
			return n, false, err
		}
		u.tried++
		if err := sleep(ctx, u.wait); err != nil {
			return 0, false, err
		}
	}
	// To empty it, it is enough that no request that runs has a key of its time.
	if n == 0 {
		return 0, false, nil
	}
	if err := u.briefly(ctx, tx, "lock table only "+name+" in access exclusive mode", check, "truncate only "+name); err != nil {
		if state(err) == stateLive {
			err = nil
		}
		return 0, false, err
	}
	return n, false, nil
}

// checkOwner refuses a user who may not make and drop partitions.
func (u *upkeep) checkOwner(ctx context.Context, conn *pgx.Conn) error {
	var user, owner string
	var owns bool
	err := conn.QueryRow(ctx, `select current_user, pg_get_userbyid(relowner), pg_has_role(relowner, 'USAGE') from pg_class
		where oid = $1::text::regclass`, pgx.QueryExecModeExec, u.table.quoted()).Scan(&user, &owner, &owns)
	if err == nil && !owns {
		err = fmt.Errorf("the user %s does not own the partitioned table %s, and so cannot make and drop its partitions: sweep as %s, from a job of its own (idemctl sweep)", user, u.table.quoted(), owner)
	}
	return err
}
