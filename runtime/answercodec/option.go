package answercodec

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// config is what the options have settled.
type config struct {
	compress      bool
	keys          Keys
	age           time.Duration
	limit         int
	readOnly      bool
	encryptedOnly bool
	logger        *slog.Logger
}

// Option chooses what [New] does, or changes a default.
type Option func(*config) error

// newConfig applies opts to the defaults.
func newConfig(opts []Option) (config, error) {
	cfg := config{age: 5 * time.Minute, limit: 4 << 20, logger: slog.Default()}
	for _, o := range opts {
		if err := o(&cfg); err != nil {
			return config{}, err
		}
	}
	switch {
	case !cfg.compress && cfg.keys == nil:
		return config{}, errors.New("answercodec: there is nothing to do: give New WithCompression, WithEncryption, or both")
	case cfg.encryptedOnly && (cfg.keys == nil || cfg.readOnly):
		return config{}, errors.New("answercodec: WithEncryptedOnly needs WithEncryption, and answers that are written encrypted: leave WithReadOnly out")
	}
	return cfg, nil
}

// WithCompression compresses answers by DEFLATE (RFC 1951). Those of less than
// 1,024 bytes, header fields included, of more than the limit ([WithLimit]), and
// those that would save less than an eighth are stored as they are. The default
// is not to.
//
// With [WithEncryption] answers are compressed before they are encrypted. Their
// length then tells how much in them repeats itself: who sees lengths of rows, and
// can have text of their choice put into an answer beside a secret, learns from
// many answers whether the text is like the secret (as CRIME and BREACH have
// shown of connections). Leave one of the two out where an answer holds both.
func WithCompression() Option {
	return func(cfg *config) error {
		cfg.compress = true
		return nil
	}
}

// WithEncryption encrypts answers with data keys that keys wraps. The default is
// not to.
func WithEncryption(keys Keys) Option {
	return func(cfg *config) error {
		if keys == nil {
			return errors.New("answercodec: WithEncryption: the keys are nil")
		}
		cfg.keys = keys
		return nil
	}
}

// WithReadOnly stores answers as they are, and reads those that others have
// encoded. It is the first step of a roll-out: once all replicas can read, leave
// it out.
func WithReadOnly() Option {
	return func(cfg *config) error {
		cfg.readOnly = true
		return nil
	}
}

// WithEncryptedOnly refuses to replay answers that are not encrypted, so that who
// can write to the table cannot put words into the server's mouth. It is the last
// step of a roll-out, when all answers from before have expired.
func WithEncryptedOnly() Option {
	return func(cfg *config) error {
		cfg.encryptedOnly = true
		return nil
	}
}

// WithLimit sets how many bytes a compressed answer may have when it is
// decompressed, header fields included: what is larger is not decompressed, and
// not compressed. Defaults to 4 MiB.
func WithLimit(bytes int) Option {
	return func(cfg *config) error {
		if bytes < minCompressed {
			return fmt.Errorf("answercodec: WithLimit: the limit is %d bytes, and must be %d at least", bytes, minCompressed)
		}
		cfg.limit = bytes
		return nil
	}
}

// WithDataKeyAge sets for how long a process encrypts with one data key before it
// makes another, and for how long it keeps those that it reads with. Defaults to
// 5 minutes; 1 second to 24 hours. If no other can be made, a data key is used for
// 12 times as long.
func WithDataKeyAge(d time.Duration) Option {
	return func(cfg *config) error {
		if d < time.Second || d > 24*time.Hour {
			return fmt.Errorf("answercodec: WithDataKeyAge: %v is not 1 second to 24 hours", d)
		}
		cfg.age = d
		return nil
	}
}

// WithLogger sets where the codec warns when no new data key can be made, once a
// second at most, while the last one is used on, and says with its stack that a
// call of [Keys] has panicked; nil drops both. Defaults to slog.Default().
func WithLogger(logger *slog.Logger) Option {
	return func(cfg *config) error {
		if logger == nil {
			logger = slog.New(slog.DiscardHandler)
		}
		cfg.logger = logger
		return nil
	}
}
