package redisstore

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// config is what the options have settled.
type config struct {
	prefix        string
	hashTag       func(idempotency.Identity) string
	lease         time.Duration
	ceiling       time.Duration
	claimTimeout  time.Duration
	finishTimeout time.Duration
	replicas      int
	replicaWait   time.Duration
	logger        *slog.Logger
	codec         idempotency.Codec // nil where answers are stored as they are
}

// Option changes a default of [New].
type Option func(*config) error

// newConfig applies opts to the defaults.
func newConfig(opts []Option) (config, error) {
	cfg := config{
		prefix:        "idempotency:",
		lease:         30 * time.Second,
		ceiling:       10 * time.Minute,
		claimTimeout:  5 * time.Second,
		finishTimeout: 10 * time.Second,
		logger:        slog.Default(),
	}
	for _, o := range opts {
		if err := o(&cfg); err != nil {
			return config{}, err
		}
	}
	return cfg, nil
}

// WithPrefix begins the names of the store's keys, which are
// "prefix{id}", with the id in hexadecimal. It is 1 to 64 bytes of visible ASCII
// without braces; no key of the application may begin with it. The default is
// "idempotency:".
func WithPrefix(prefix string) Option {
	return func(cfg *config) error {
		visible := func(r rune) bool { return '!' <= r && r <= '~' && r != '{' && r != '}' }
		if prefix == "" || len(prefix) > 64 || strings.TrimFunc(prefix, visible) != "" || strings.ContainsAny(prefix, "{}") {
			return fmt.Errorf("redisstore: WithPrefix: %q is not 1 to 64 bytes of visible ASCII without braces", prefix)
		}
		cfg.prefix = prefix
		return nil
	}
}

// WithHashTag chooses the hash slot in which a record is kept, so that it lies
// where the business data of the request lies: f returns the hash tag of a
// request's keys, such as the account's number when these are
// "{4711}:balance". It must return the same for the same identity, always. A
// request for which f returns an empty string, or one with a closing brace, is
// refused.
//
// A scope from [idempotency.ScopeByHeader] is a hash of the header; to use it as
// the tag of business keys, write an [idempotency.Scope] that returns the
// caller's name in these keys.
//
// The default is the record's id, which spreads records evenly. Then a Redis
// Cluster has no slot for data that requests share: only keys made with [Tx.Key],
// of this one request, can be written to.
func WithHashTag(f func(idempotency.Identity) string) Option {
	return func(cfg *config) error {
		cfg.hashTag = f
		return nil
	}
}

// WithLease sets for how long a claim outlives its process, and for how long it
// may be held at most.
//
// A claim is extended for another lease every third of it while work runs. When
// the process dies or loses the server, the key is free after the lease.
// Once work has run for as long as the ceiling, the claim is no longer extended:
// the context of work is cancelled and its answer is refused, see
// [Store.Execute]. The defaults are 30 s and 10 min. A lease should
// outlast a failover of the server.
func WithLease(lease, ceiling time.Duration) Option {
	return func(cfg *config) error {
		if lease < 10*time.Millisecond || ceiling < lease {
			return errors.New("redisstore: WithLease: a lease is at least 10 ms, and the ceiling is no shorter")
		}
		cfg.lease, cfg.ceiling = lease, ceiling
		return nil
	}
}

// WithClaimTimeout bounds the claim, waiting for a connection of the pool
// included. A claim without answer by then is idempotency.ErrUnavailable and
// work does not run. It bounds Lookup and Release too. The default is 5 s.
func WithClaimTimeout(d time.Duration) Option {
	return func(cfg *config) error { return positive("WithClaimTimeout", d, &cfg.claimTimeout) }
}

// WithFinishTimeout bounds what follows work, which the caller's context cannot
// cancel. A completion whose answer is lost is sent again, with the same token,
// until it is answered or this time is over: then the request is
// idempotency.ErrOutcomeUnknown, or idempotency.ErrUnavailable where none could
// be sent. The default is 10 s, which outlasts a failover.
func WithFinishTimeout(d time.Duration) Option {
	return func(cfg *config) error { return positive("WithFinishTimeout", d, &cfg.finishTimeout) }
}

// WithReplicas makes every answer wait until n replicas have received it (the
// command WAIT): that of the attempt that ran work, and each replay, whose record is
// written again for it. Where they have not within the timeout, which must be
// below the client's ReadTimeout, the request is idempotency.ErrOutcomeUnknown:
// the answer is stored on the master, and a retry is replayed it once enough
// replicas have it. The default is not to wait.
//
// What it gives: an answer that a client was given survives the death of the master
// if one of these replicas takes over. What it does not: Redis does not promise to
// promote one of them where there are more than n; they hold what they have received
// in memory; claims do not wait, so that another attempt may run work beside one whose
// claim a failover has lost; and neither does [Store.Lookup]. It makes losses rarer,
// and is no consensus.
//
// The price: a replay makes two round trips. And while a master has fewer than n
// replicas, as after a failover where it had no more than n, no request of its slots
// is answered. First requests run work, store its answer and are outcome_unknown
// after the whole timeout, and so is each retry until there are replicas again. [New]
// refuses such a master: an n that the servers never have would show only in
// requests that fail.
func WithReplicas(n int, timeout time.Duration) Option {
	return func(cfg *config) error {
		if n < 1 {
			return errors.New("redisstore: WithReplicas: at least 1 replica can be waited for")
		}
		cfg.replicas = n
		return positive("WithReplicas", timeout, &cfg.replicaWait)
	}
}

// WithLogger sets where [New] warns of a server that hides whether it evicts
// keys, or that writes no append-only file; nil drops the warnings. The default
// is slog.Default().
func WithLogger(logger *slog.Logger) Option {
	return func(cfg *config) error {
		if logger == nil {
			logger = slog.New(slog.DiscardHandler)
		}
		cfg.logger = logger
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
		return fmt.Errorf("redisstore: %s: %v is no time limit", option, d)
	}
	*to = d
	return nil
}
