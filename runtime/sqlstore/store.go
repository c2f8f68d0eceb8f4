package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// Store keeps records in a table beside the business data. It is safe for
// concurrent use.
type Store struct {
	engine       engine
	claimTimeout time.Duration
	// finishTimeout limits each commit and each rollback, which the caller
	// cannot cancel, and the time in which the fate of a COMMIT is looked for.
	finishTimeout time.Duration
	claims        claims
	codec         idempotency.Codec // nil where answers are stored as they are
	sweeping      sync.Mutex
}

var (
	_ idempotency.LeaseStore[*sql.Tx] = (*Store)(nil)
	_ idempotency.Keeper              = (*Store)(nil)
	_ idempotency.Lister              = (*Store)(nil)
)

// Option changes a default of [New], [Migrate] or [Schema].
type Option func(*config)

type config struct {
	table         string
	reader        *sql.DB
	claimTimeout  time.Duration
	finishTimeout time.Duration
	startTimeout  time.Duration
	codec         idempotency.Codec
}

func newConfig(opts []Option) config {
	c := config{table: defaultTable, claimTimeout: 5 * time.Second, finishTimeout: 5 * time.Second, startTimeout: 15 * time.Second}
	for _, o := range opts {
		o(&c)
	}
	return c
}

// WithTable names the table. Defaults to idempotency_records. A name is 1 to 63
// ASCII letters, digits and underscores, not beginning with a digit. On PostgreSQL
// it is 55, and may be schema.name: a name alone is looked for on the search_path
// once, by [New]. It is always quoted, so that upper case stays upper case.
func WithTable(name string) Option { return func(c *config) { c.table = name } }

// WithReader makes replays and lookups on SQLite read through another pool on
// the same file, so that they need not wait for a handler that holds the
// writer's only connection. Defaults to the pool given to [New]. The other
// dialects refuse it: a replica can miss a record.
func WithReader(db *sql.DB) Option { return func(c *config) { c.reader = db } }

// WithClaimTimeout limits how long a request waits for a connection, for the
// answer to its claim and, on SQLite, for its turn to write before it is
// answered unavailable. Defaults to 5 s. The wait for the turn is SQLite's
// busy_timeout where that is shorter; it may not be longer.
func WithClaimTimeout(d time.Duration) Option { return func(c *config) { c.claimTimeout = d } }

// WithCodec sets the form in which answers are stored, such as that of package
// answercodec: compressed, or encrypted. Answers that are there already stay
// readable, unless the codec refuses them. Defaults to none: they are stored as
// they are.
func WithCodec(codec idempotency.Codec) Option { return func(c *config) { c.codec = codec } }

// New returns a store on db. It changes nothing in the database: it verifies
// that the table is there (see [Migrate]), that the connections are set up so
// that the guarantee holds, and that a record can be stored and read, which is
// rolled back. It returns an error that says what to do where that is not so.
// All of it has 15 s. For its turn to write it waits as a request does
// ([WithClaimTimeout]); where others hold it for longer, no record is tried.
func New(ctx context.Context, db *sql.DB, d Dialect, opts ...Option) (*Store, error) {
	c := newConfig(opts)
	if err := d.checkTable(c.table); err != nil {
		return nil, err
	}
	if c.claimTimeout <= 0 {
		return nil, fmt.Errorf("sqlstore: WithClaimTimeout: %v is not positive", c.claimTimeout)
	}
	ctx, cancel := context.WithTimeout(ctx, c.startTimeout)
	defer cancel()
	if err := recognize(ctx, db, d); err != nil {
		return nil, fmt.Errorf("sqlstore: %w", err)
	}
	e, err := d.open(ctx, db, c)
	if err != nil {
		return nil, err
	}
	s := &Store{
		engine:        e,
		claimTimeout:  c.claimTimeout,
		finishTimeout: c.finishTimeout,
		codec:         c.codec,
		claims:        claims{held: make(map[[16]byte]struct{})},
	}
	if err := s.probe(ctx, c.table); err != nil {
		return nil, err
	}
	return s, nil
}
