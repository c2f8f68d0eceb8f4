package pgxstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// New returns a store on pool, which stays the caller's to close.
//
// It checks once what would otherwise fail requests: that the server takes
// writes, that the table is there (see [Migrate]), has the right columns and
// indexes and may be used, that a record can be stored and read (it is rolled
// back), and that an advisory lock taken on one connection keeps another one
// out; for this it opens a connection beside the pool's.
// Where the lock does not work, as behind some servers that only speak
// PostgreSQL's protocol, the store claims by inserting a row instead. Errors
// say what to do. All of it has 15 s.
func New(ctx context.Context, pool *pgxpool.Pool, opts ...Option) (*Store, error) {
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	s := &Store{pool: pool, cfg: cfg}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	err = pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		return s.start(ctx, conn.Conn())
	})
	if err != nil {
		return nil, fmt.Errorf("pgxstore: %w", err)
	}
	s.sql = newStatements(cfg)
	if err := s.probe(ctx); err != nil {
		return nil, fmt.Errorf("pgxstore: %w", err)
	}
	return s, nil
}

// probe stores a record as a request does, reads it as a retry does, and rolls
// back. It finds what no look into the catalog does: policies, triggers and rules
// that refuse, drop or hide records after their handlers have run.
func (s *Store) probe(ctx context.Context) error {
	req := idempotency.Request{Identity: idempotency.Identity{Scope: "probe", Operation: "probe", Key: strconv.FormatInt(rand.Int64(), 36)}, Retention: time.Hour}
	a, err := s.connect(ctx, req.Identity)
	if err != nil {
		return err
	}
	defer a.rollback()
	stop := context.AfterFunc(ctx, func() { _ = a.pc.Conn().SetDeadline(time.Now()) }) // elsewhere a cancelled context waits for its answer
	defer stop()
	if err := a.claim(a.sql.begin); err != nil {
		return err
	}
	statements := append(a.storing(req, 200, nonNil(nil), nil), a.sql.row.with(a.id[:]).into(a.found))
	a.record = nil
	_, _, err = pipeline(a.pc, a.claimBy, statements...)
	switch {
	case err == nil && a.record == nil:
		err = errHidden
	case err == nil && (a.record.of(req) != nil || a.record.status != 200 || !a.live()):
		err = errChanged
	}
	switch table := s.cfg.table.quoted(); {
	case err == nil:
		return nil
	case errors.Is(err, errHidden), state(err) == stateDenied:
		return fmt.Errorf("a record cannot be kept in the table %s: %w: if the table has row-level security, let a policy for this user allow all, or ALTER TABLE %[1]s DISABLE ROW LEVEL SECURITY;", table, err)
	default:
		return fmt.Errorf("a record cannot be kept in the table %s: %w", table, err)
	}
}

// errHidden and errChanged say that a retry would not find what was stored.
var (
	errHidden  = errors.New("it was stored and cannot be read, so that a retry would run its handler again: remove the trigger of the table that removes it or changes its id")
	errChanged = errors.New("it does not read as it was stored: a trigger of the table changes it; remove that")
)

func (s *Store) start(ctx context.Context, conn *pgx.Conn) error {
	if err := checkWritable(ctx, conn); err != nil {
		return err
	}
	if err := checkEncoding(conn); err != nil {
		return err
	}
	table, found, err := s.cfg.table.inspect(ctx, conn)
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf(`the table %s does not exist, or not on the search_path: create it with pgxstore.Migrate, or by %s | psql -v ON_ERROR_STOP=1 "$DATABASE_URL"`,
			s.cfg.table.quoted(), s.cfg.schemaCommand())
	}
	if err := s.cfg.checkPartitioned(table); err != nil {
		return err
	}
	s.cfg.table = table
	s.space = space(table)
	if err := s.cfg.table.checkPrivileges(ctx, conn); err != nil {
		return err
	}
	if s.cfg.limits, err = missingLimits(ctx, conn, s.cfg.limits); err != nil {
		return err
	}
	locks, err := locksWork(ctx, conn, s.pool.Config())
	s.insertFirst = !locks
	if err == nil && s.insertFirst && table.partitioned {
		err = fmt.Errorf("advisory locks do not work here, which the upkeep of the partitioned table %s needs: use an ordinary table", table.quoted())
	}
	return err
}

// checkWritable refuses a standby and a session that writes nothing by default.
func checkWritable(ctx context.Context, conn *pgx.Conn) error {
	var readOnly bool
	err := conn.QueryRow(ctx, "select current_setting('transaction_read_only') = 'on'", pgx.QueryExecModeExec).Scan(&readOnly)
	if err != nil {
		return err
	}
	if readOnly {
		return errors.New("the server takes no writes: it is a standby, or default_transaction_read_only is on; connect to the primary (target_session_attrs=read-write finds it)")
	}
	return nil
}

// checkEncoding refuses a session whose server would read the store's UTF-8 as
// something else: other sessions would not recognize what it writes.
func checkEncoding(conn *pgx.Conn) error {
	switch encoding := conn.PgConn().ParameterStatus("client_encoding"); encoding {
	case "", "UTF8", "SQL_ASCII": // not told, as it must be, or taken as it comes
		return nil
	default:
		return fmt.Errorf("client_encoding is %s instead of UTF8: leave it out of the connection string", encoding)
	}
}

// missingLimits returns those of limits that the session does not have by
// itself and that the server knows.
func missingLimits(ctx context.Context, conn *pgx.Conn, limits []sessionLimit) ([]sessionLimit, error) {
	var missing []sessionLimit
	for _, l := range limits {
		if l.value == 0 {
			continue
		}
		var own *string
		if err := conn.QueryRow(ctx, "select current_setting($1, true)", pgx.QueryExecModeExec, l.name).Scan(&own); err != nil {
			return nil, err
		}
		if own == nil || *own != "0" {
			continue
		}
		var set string
		err := conn.QueryRow(ctx, "select set_config($1, $2, true)", pgx.QueryExecModeExec, l.name, l.milliseconds()).Scan(&set)
		switch state(err) {
		case "":
			if err != nil {
				return nil, err
			}
			missing = append(missing, l)
		case stateInvalidParameter: // known, but not on this platform
		default:
			return nil, fmt.Errorf("set %s: %w; pgxstore.WithSessionLimits chooses another value", l.name, err)
		}
	}
	return missing, nil
}

// locksWork reports whether an advisory lock that conn holds keeps another
// connection out, and lets it in when it is given back.
func locksWork(ctx context.Context, conn *pgx.Conn, cfg *pgxpool.Config) (bool, error) {
	other, err := dial(ctx, cfg)
	if err != nil {
		return false, fmt.Errorf("a second connection, to see whether advisory locks work: %w", err)
	}
	defer other.Close(ctx)

	number := rand.Int64()
	var mine, theirs, after bool
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if err := tryLock(ctx, tx, number, &mine); err != nil {
			return err
		}
		return pgx.BeginFunc(ctx, other, func(tx pgx.Tx) error { return tryLock(ctx, tx, number, &theirs) })
	})
	if err == nil {
		err = pgx.BeginFunc(ctx, other, func(tx pgx.Tx) error { return tryLock(ctx, tx, number, &after) })
	}
	switch state(err) {
	case stateNoFunction, stateNotSupported:
		return false, nil
	}
	return mine && !theirs && after, err
}

func tryLock(ctx context.Context, tx pgx.Tx, number int64, got *bool) error {
	return tx.QueryRow(ctx, "select pg_try_advisory_xact_lock($1)", pgx.QueryExecModeExec, number).Scan(got)
}

// dial opens a connection as the pool does, but beside it: a pool of one has
// none to spare.
func dial(ctx context.Context, cfg *pgxpool.Config) (*pgx.Conn, error) {
	if cfg.BeforeConnect != nil {
		if err := cfg.BeforeConnect(ctx, cfg.ConnConfig); err != nil {
			return nil, err
		}
	}
	conn, err := pgx.ConnectConfig(ctx, cfg.ConnConfig)
	if err != nil {
		return nil, err
	}
	if cfg.AfterConnect != nil {
		if err := cfg.AfterConnect(ctx, conn); err != nil {
			conn.Close(ctx)
			return nil, err
		}
	}
	return conn, nil
}
