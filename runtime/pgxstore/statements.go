package pgxstore

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"
)

// statements are all that a store sends, made once for its table and limits.
type statements struct {
	begin            *statement // at the isolation level of work
	beginOwn         *statement // for the store alone, at READ COMMITTED whatever the session's default is
	commit, rollback *statement

	// enter returns one row: whether the claim is held, now(), whether the
	// transaction is read-only, and the server process. It also sets limits.
	enter       *statement // takes the advisory lock $1, or returns null if the record $2 is live
	enterPlain  *statement // takes no lock
	enterInsert *statement // takes no lock, and shortens lock_timeout

	hold    *statement // locks the record $1 if it is over
	reserve *statement // inserts a placeholder $1, which is an expired record of status 0
	restore *statement // gives lock_timeout back
	row     *statement // reads the record $1
	recall  *statement // reads the record $1 from a server that takes writes

	remove *statement // deletes the record $1 if it is over
	insert *statement // inserts a finished record

	// Those of lease mode take the id $1 and the token $2. All but lease return
	// a row if they changed one.
	lease         *statement // inserts a claim
	extendLease   *statement // lets the lease of a claim last for $3
	completeLease *statement // makes a finished record of a claim
	releaseLease  *statement // deletes a claim

	// Those of operators delete the record $1, and return a row if they did.
	release      *statement // unless it is a live claim
	releaseEntry *statement // if its version is $2, and it is no live claim or $3 says that it may be one

	sweepLock *statement // takes the advisory lock $1 if it is free
	sweepWait *statement // takes the advisory lock $1
	sweep     *statement // deletes a batch of expired records
}

// lockPatience is how long a claim without advisory locks waits for another
// one before it is answered in flight.
const lockPatience = "50ms"

// newStatements writes the statements for a store.
func newStatements(cfg *config) *statements {
	table := cfg.table.quoted()
	// The limits ride along with the statement that enters the transaction, and
	// end with it: nothing is left on a connection that others use.
	entry := []string{"now()", "current_setting('transaction_read_only') = 'on'", "pg_backend_pid()"}
	for _, l := range cfg.limits {
		entry = append(entry, fmt.Sprintf("set_config('%s', '%s', true)", l.name, l.milliseconds()))
	}
	entered := strings.Join(entry, ", ")
	// A record is live until its retention is over, and a claim only until its
	// lease has passed. Columns of leases are null in other records.
	const live = "expires_at > now() and (lease_until is null or lease_until > now())"
	const over = "(expires_at <= now() or lease_until <= now())"
	const columns = "scope, operation, key, fingerprint, status, header, body, created_at, expires_at"
	s := &statements{
		begin:    &statement{sql: "begin isolation level " + string(cfg.isolation)},
		beginOwn: &statement{sql: "begin isolation level read committed"},
		commit:   &statement{sql: "commit"},
		rollback: &statement{sql: "rollback"},
		// A replay takes no lock: it would hold it beyond its answer, and a
		// request that comes when the record has gone could not tell it from a
		// claim.
		enter: &statement{
			sql: "select case when exists (select 1 from " + table + " where id = $2 and " + live + ")" +
				" then null else pg_try_advisory_xact_lock($1) end, " + entered,
			oids: []uint32{pgtype.Int8OID, pgtype.UUIDOID},
		},
		enterPlain: &statement{sql: "select true, " + entered},
		enterInsert: &statement{sql: "select true, " + entered +
			", set_config('idemgen.lock_timeout', current_setting('lock_timeout'), true)" +
			", set_config('lock_timeout', '" + lockPatience + "', true)"},
		hold: &statement{
			sql:  "select 1 from " + table + " where id = $1 and " + over + " for update",
			oids: []uint32{pgtype.UUIDOID},
		},
		reserve: &statement{
			sql: "insert into " + table + " (id, created_at, expires_at, status, scope, operation, key, fingerprint, header, body)" +
				" values ($1, now(), '-infinity', 0, '', '', '', '', '', '') on conflict do nothing",
			oids: []uint32{pgtype.UUIDOID},
		},
		restore: &statement{sql: "select set_config('lock_timeout', current_setting('idemgen.lock_timeout'), true)"},
		row: &statement{
			sql: "select " + columns + ", expires_at <= now(), lease_token, lease_until, lease_until <= now()" +
				" from " + table + " where id = $1",
			oids: []uint32{pgtype.UUIDOID},
		},
		remove: &statement{
			sql:  "delete from " + table + " where id = $1 and " + over,
			oids: []uint32{pgtype.UUIDOID},
		},
		// now() is the time at which the transaction began. If it is not the one
		// that the claim saw, work has ended the claim's transaction and begun
		// another: then status is null, which the table refuses.
		insert: &statement{
			stores: true,
			sql: "insert into " + table + " (id, created_at, expires_at, status, scope, operation, key, fingerprint, header, body)" +
				" values ($1, statement_timestamp(), statement_timestamp() + $2, case when now() = $3 then $4::smallint end, $5, $6, $7, $8, $9, $10)",
			oids: []uint32{
				pgtype.UUIDOID, pgtype.IntervalOID, pgtype.TimestamptzOID, pgtype.Int2OID,
				pgtype.TextOID, pgtype.TextOID, pgtype.TextOID, pgtype.ByteaOID, pgtype.ByteaOID, pgtype.ByteaOID,
			},
		},
		// A claim is kept for its retention after its lease, so that expires_at
		// alone tells a sweeper.
		lease: &statement{
			stores: true,
			sql: "insert into " + table + " (id, lease_token, created_at, lease_until, expires_at, status, scope, operation, key, fingerprint, header, body)" +
				" values ($1, $2, statement_timestamp(), statement_timestamp() + $3, statement_timestamp() + $3 + $4, 0, $5, $6, $7, $8, '', '')",
			oids: []uint32{
				pgtype.UUIDOID, pgtype.UUIDOID, pgtype.IntervalOID, pgtype.IntervalOID,
				pgtype.TextOID, pgtype.TextOID, pgtype.TextOID, pgtype.ByteaOID,
			},
		},
		extendLease: &statement{
			sql: "update " + table + " set lease_until = greatest(lease_until, statement_timestamp() + $3)," +
				" expires_at = greatest(expires_at, statement_timestamp() + $3 + $4)" +
				" where id = $1 and lease_token = $2 and lease_until is not null returning 1",
			oids: []uint32{pgtype.UUIDOID, pgtype.UUIDOID, pgtype.IntervalOID, pgtype.IntervalOID},
		},
		// The token stays, so that a completion whose answer was lost can be
		// repeated.
		completeLease: &statement{
			sql: "update " + table + " set lease_until = null, created_at = statement_timestamp(), expires_at = statement_timestamp() + $3," +
				" status = $4, header = $5, body = $6 where id = $1 and lease_token = $2 returning 1",
			oids: []uint32{pgtype.UUIDOID, pgtype.UUIDOID, pgtype.IntervalOID, pgtype.Int2OID, pgtype.ByteaOID, pgtype.ByteaOID},
		},
		releaseLease: &statement{
			sql:  "delete from " + table + " where id = $1 and lease_token = $2 and lease_until is not null returning 1",
			oids: []uint32{pgtype.UUIDOID, pgtype.UUIDOID},
		},
		release: &statement{
			sql:  "delete from " + table + " where id = $1 and (lease_until is null or lease_until <= now()) returning 1",
			oids: []uint32{pgtype.UUIDOID},
		},
		releaseEntry: &statement{
			sql:  "delete from " + table + " where id = $1 and " + version + " = $2 and (lease_until is null or lease_until <= now() or $3) returning 1",
			oids: []uint32{pgtype.UUIDOID, pgtype.TextOID, pgtype.BoolOID},
		},
		sweepLock: &statement{
			sql:  "select pg_try_advisory_xact_lock($1)",
			oids: []uint32{pgtype.Int8OID},
		},
		sweepWait: &statement{
			sql:  "select pg_advisory_xact_lock($1) is not null",
			oids: []uint32{pgtype.Int8OID},
		},
		sweep: sweepStatement(table, cfg.batch),
	}
	// A standby that lags may have a record that has been released.
	s.recall = &statement{sql: s.row.sql + " and current_setting('transaction_read_only') = 'off'", oids: s.row.oids}
	for _, st := range []*statement{
		s.begin, s.beginOwn, s.commit, s.rollback, s.enterPlain, s.enterInsert, s.reserve, s.restore, s.insert, s.lease, s.sweepLock, s.sweepWait,
	} {
		st.prepare()
	}
	if cfg.table.partitioned {
		// A plan that is kept may lock every partition, for as long as its
		// transaction lasts; one that is made for its parameters locks one.
		return s
	}
	for _, st := range []*statement{
		s.enter, s.hold, s.row, s.recall, s.remove, s.extendLease, s.completeLease, s.releaseLease, s.release,
		s.releaseEntry, s.sweep,
	} {
		st.prepare()
	}
	return s
}

// sweepStatement deletes a batch of the expired records of a table. As an array
// the ids are looked up in the index, whatever the planner thinks of the table's
// size.
func sweepStatement(table string, batch int) *statement {
	return &statement{
		sql: "delete from " + table + " where id = any(array(select id from " + table +
			" where expires_at <= now() order by expires_at limit " + strconv.Itoa(batch) + " for update skip locked))",
	}
}

// prepare lets s stay prepared.
func (s *statement) prepare() { s.name = "idemgen_" + strconv.FormatUint(hash(s.sql), 16) }

// space is the number by which advisory locks tell tables apart.
func space(t table) int64 { return int64(hash(t.quoted())) }

// hash names a statement by its text, so that two stores on one pool share
// those that are equal and no others.
func hash(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return h.Sum64()
}
