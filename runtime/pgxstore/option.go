package pgxstore

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// config is what the options have settled.
type config struct {
	table          table
	isolation      pgx.TxIsoLevel
	claimTimeout   time.Duration
	finishTimeout  time.Duration
	resolveTimeout time.Duration
	batch          int
	pause          time.Duration
	limits         []sessionLimit
	codec          idempotency.Codec // nil where answers are stored as they are

	partitions bool          // the table must be partitioned by the time of keys
	width      time.Duration // of a partition
	wait       time.Duration // that the upkeep of partitions may cost a request
}

// sessionLimit is a server setting that bounds how long a transaction without
// a living client goes on.
type sessionLimit struct {
	name  string
	value time.Duration // 0 leaves the session's own
}

// milliseconds is the value as the server takes it.
func (l sessionLimit) milliseconds() string {
	return strconv.FormatInt(max(l.value.Milliseconds(), 1), 10)
}

// startTimeout bounds what New does.
const startTimeout = 15 * time.Second

// maxRuns is how often work runs at most.
const maxRuns = 3

// Option changes a default of [New], [Migrate] or [Schema].
type Option func(*config) error

// newConfig applies opts to the defaults.
func newConfig(opts []Option) (*config, error) {
	cfg := &config{
		table:          table{name: "idempotency_records"},
		isolation:      pgx.ReadCommitted,
		claimTimeout:   5 * time.Second,
		finishTimeout:  5 * time.Second,
		resolveTimeout: 5 * time.Second,
		batch:          1000,
		pause:          20 * time.Millisecond,
		width:          24 * time.Hour,
		wait:           100 * time.Millisecond,
		limits: []sessionLimit{
			{idleInTransaction, time.Minute},
			{connectionCheck, 10 * time.Second},
		},
	}
	for _, o := range opts {
		if err := o(cfg); err != nil {
			return nil, err
		}
	}
	if cfg.partitions {
		return cfg, cfg.table.checkLength()
	}
	return cfg, nil
}

// The settings that [WithSessionLimits] governs.
const (
	idleInTransaction = "idle_in_transaction_session_timeout"
	connectionCheck   = "client_connection_check_interval"
)

// WithTable names the table that holds the records: a name or schema.name,
// each of letters, digits and underscores, not beginning with a digit, at most
// 55 bytes long. It is always quoted, so upper case stays upper case. The
// default is idempotency_records. A name alone is looked for on the search_path
// once, by [New]: what sessions and handlers set later does not matter.
func WithTable(name string) Option {
	return func(cfg *config) error {
		t, err := parseTable(name)
		cfg.table = t
		return err
	}
}

// WithClaimTimeout bounds the claim, waiting for a connection of the pool
// included. A claim without answer by then is idempotency.ErrUnavailable and
// work does not run. The default is 5 s.
func WithClaimTimeout(d time.Duration) Option {
	return func(cfg *config) error { return positive("WithClaimTimeout", d, &cfg.claimTimeout) }
}

// WithFinishTimeout bounds each commit and each rollback, which the caller's
// context cannot cancel. The default is 5 s.
func WithFinishTimeout(d time.Duration) Option {
	return func(cfg *config) error { return positive("WithFinishTimeout", d, &cfg.finishTimeout) }
}

// WithResolveTimeout bounds how long a request whose connection was lost in
// COMMIT asks what became of it before it is answered
// idempotency.ErrOutcomeUnknown. The default is 5 s.
func WithResolveTimeout(d time.Duration) Option {
	return func(cfg *config) error { return positive("WithResolveTimeout", d, &cfg.resolveTimeout) }
}

// WithIsolation sets the isolation level of the transactions that work runs
// in. The default is pgx.ReadCommitted, whatever the session's own default is.
// Under pgx.RepeatableRead and pgx.Serializable a duplicate that overlaps the
// end of the first attempt may run work to its end before it is rolled back
// and answered from the record; effects still happen once.
func WithIsolation(level pgx.TxIsoLevel) Option {
	return func(cfg *config) error {
		switch level {
		case pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable:
			cfg.isolation = level
			return nil
		}
		return fmt.Errorf("pgxstore: WithIsolation: %q is no level that keeps the guarantee; use pgx.ReadCommitted, pgx.RepeatableRead or pgx.Serializable", level)
	}
}

// WithSweepBatch sets how many records [Store.Sweep] deletes in one
// transaction and how long it pauses between two. The defaults are 1000 and
// 20 ms.
func WithSweepBatch(records int, pause time.Duration) Option {
	return func(cfg *config) error {
		if records < 1 || pause < 0 {
			return errors.New("pgxstore: WithSweepBatch: a batch holds at least 1 record and a pause is not negative")
		}
		cfg.batch, cfg.pause = records, pause
		return nil
	}
}

// WithSessionLimits sets, for the store's transactions alone,
// idle_in_transaction_session_timeout (a client that hangs between two
// statements) and client_connection_check_interval (a client that has gone
// during one): without them an application that stalls or vanishes holds its
// key and its row locks for as long as the database sees its connection. The
// defaults are 1 minute and 10 s; work that is longer than that between two
// statements needs more. They cost no round trip, and the server some
// microseconds. A limit that the session already has (by ALTER ROLE,
// ALTER DATABASE or the connection string) stays as it is, 0 sets none, and
// the second is left out on servers that do not know it (before PostgreSQL 14).
func WithSessionLimits(idle, check time.Duration) Option {
	return func(cfg *config) error {
		if idle < 0 || check < 0 {
			return errors.New("pgxstore: WithSessionLimits: a limit is not negative")
		}
		cfg.limits = []sessionLimit{{idleInTransaction, idle}, {connectionCheck, check}}
		return nil
	}
}

// WithCodec sets the form in which answers are stored, such as that of package
// answercodec: compressed, or encrypted. Answers that are there already stay
// readable, unless the codec refuses them. The default is none: they are stored
// as they are.
func WithCodec(c idempotency.Codec) Option {
	return func(cfg *config) error {
		cfg.codec = c
		return nil
	}
}

// WithPartitions says that the table is partitioned by the time of UUIDv7 keys: see
// "Partitions" in the package's documentation. [Schema] and [Migrate] create it
// so, and [New] refuses a table that is not. A partitioned table is recognized
// without this option; what the option adds then is the width of the partitions
// that [Store.Sweep] makes from now on, in whole hours. The default is that of the
// newest partition, or a day. A partition goes when its last record has expired,
// so take a width of about the retention, or less.
func WithPartitions(width time.Duration) Option {
	return func(cfg *config) error {
		if width < time.Hour || width%time.Hour != 0 {
			return fmt.Errorf("pgxstore: WithPartitions: %v is no number of whole hours", width)
		}
		cfg.partitions, cfg.width = true, width
		return nil
	}
}

// WithSweepWait bounds how long [Store.Sweep] lets requests wait while it makes or
// drops a partition. What is not done by then is tried again, twice in the same
// sweep, with as long a pause before it. The default is 100 ms.
func WithSweepWait(d time.Duration) Option {
	return func(cfg *config) error { return positive("WithSweepWait", d, &cfg.wait) }
}

func positive(option string, d time.Duration, to *time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("pgxstore: %s: %v is no time limit", option, d)
	}
	*to = d
	return nil
}

// table is a checked table name, and what was found under it.
type table struct {
	schema, name string
	partitioned  bool // by the time of keys
}

// tableName leaves room for the suffixes of index names in PostgreSQL's 63 bytes.
var tableName = regexp.MustCompile(`^(?:([A-Za-z_][A-Za-z0-9_]{0,54})\.)?([A-Za-z_][A-Za-z0-9_]{0,54})$`)

func parseTable(s string) (table, error) {
	m := tableName.FindStringSubmatch(s)
	if m == nil {
		return table{}, fmt.Errorf("pgxstore: WithTable: %q is no table name: use name or schema.name, of letters, digits and underscores, at most 55 bytes each", s)
	}
	return table{schema: m[1], name: m[2]}, nil
}

// maxPartitioned is how long the name of a partitioned table may be, so that those
// of its partitions have PostgreSQL's 63 bytes.
const maxPartitioned = 63 - len(partitionSuffix)

func (t table) checkLength() error {
	if len(t.name) > maxPartitioned {
		return fmt.Errorf("pgxstore: WithPartitions: the name %s of a partitioned table has more than %d bytes", t.name, maxPartitioned)
	}
	return nil
}

// quoted returns the name as SQL.
func (t table) quoted() string {
	if t.schema == "" {
		return pgx.Identifier{t.name}.Sanitize()
	}
	return pgx.Identifier{t.schema, t.name}.Sanitize()
}
