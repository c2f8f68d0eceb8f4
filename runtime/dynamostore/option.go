package dynamostore

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// config is what the options have settled.
type config struct {
	prefix        string
	lease         time.Duration
	ceiling       time.Duration
	skew          time.Duration
	claimTimeout  time.Duration
	finishTimeout time.Duration
	withoutTTL    bool
	codec         idempotency.Codec // nil where answers are stored as they are
}

// Option changes a default of [New].
type Option func(*config) error

// newConfig applies opts to the defaults.
func newConfig(opts []Option) (config, error) {
	cfg := config{
		lease:         30 * time.Second,
		ceiling:       10 * time.Minute,
		skew:          2 * time.Second,
		claimTimeout:  5 * time.Second,
		finishTimeout: 10 * time.Second,
	}
	for _, o := range opts {
		if err := o(&cfg); err != nil {
			return config{}, err
		}
	}
	return cfg, nil
}

// WithPrefix begins the value of each record's partition key, so that services
// can share a table. It has at most 64 bytes, in valid UTF-8. The default is
// empty.
func WithPrefix(prefix string) Option {
	return func(cfg *config) error {
		if len(prefix) > 64 || !utf8.ValidString(prefix) {
			return fmt.Errorf("dynamostore: WithPrefix: %q is not at most 64 bytes of valid UTF-8", prefix)
		}
		cfg.prefix = prefix
		return nil
	}
}

// WithLease sets for how long a claim outlives its process, and for how long it
// may be held at most.
//
// A claim is extended for another lease every third of it while work runs. When
// the process dies or loses the service, the key can be taken over after the
// lease. Once work has run for as long as the ceiling, the claim is no longer
// extended: the context of work is cancelled and its answer is refused, see
// [Store.Execute]. The defaults are 30 s and 10 min.
func WithLease(lease, ceiling time.Duration) Option {
	return func(cfg *config) error {
		if lease < 10*time.Millisecond || ceiling < lease {
			return errors.New("dynamostore: WithLease: a lease is at least 10 ms, and the ceiling is no shorter")
		}
		cfg.lease, cfg.ceiling = lease, ceiling
		return nil
	}
}

// WithClockSkew sets by how much the clocks of the processes that share the
// table may differ. A lease counts as passed, and a record as expired, this much
// later than they are by the clock of the process that looks. The default is
// 2 s.
func WithClockSkew(d time.Duration) Option {
	return func(cfg *config) error {
		if d < 0 {
			return fmt.Errorf("dynamostore: WithClockSkew: %v is negative", d)
		}
		cfg.skew = d
		return nil
	}
}

// WithClaimTimeout bounds the claim, retries of the client included. A claim
// without answer by then is idempotency.ErrUnavailable and work does not run. It
// bounds Lookup and Release too. The default is 5 s.
func WithClaimTimeout(d time.Duration) Option {
	return func(cfg *config) error { return positive("WithClaimTimeout", d, &cfg.claimTimeout) }
}

// WithFinishTimeout bounds what follows work, which the caller's context cannot
// cancel. A completion whose answer is lost, or that has met a conflict, is sent
// again until it is answered or three quarters of this time are over: then the
// request is idempotency.ErrOutcomeUnknown, or idempotency.ErrUnavailable where
// nothing was kept for certain, since each was answered or found no connection.
// The default is 10 s.
func WithFinishTimeout(d time.Duration) Option {
	return func(cfg *config) error { return positive("WithFinishTimeout", d, &cfg.finishTimeout) }
}

// WithoutTTL accepts a table whose time to live is off, as in emulators that
// have none. Records then stay in the table until something else deletes them;
// they expire all the same.
func WithoutTTL() Option {
	return func(cfg *config) error {
		cfg.withoutTTL = true
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

func positive(option string, d time.Duration, to *time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("dynamostore: %s: %v is no time limit", option, d)
	}
	*to = d
	return nil
}
