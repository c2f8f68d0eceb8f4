package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/internal/testcodec"
	"github.com/idemgen/idemgen/runtime/redisstore"
	"github.com/idemgen/idemgen/runtime/storetest"
)

// Stores with different codecs share the records of one prefix.
func TestCodecs(t *testing.T) {
	t.Parallel()
	client := newSingle(t)
	storetest.RunCodecs(t, func(t *testing.T) storetest.CodecFixture[*redisstore.Tx] {
		prefix := prefixOf(t)
		return storetest.CodecFixture[*redisstore.Tx]{
			Open: func(c idempotency.Codec) storetest.Store[*redisstore.Tx] {
				return newStore(t, client, redisstore.WithPrefix(prefix), redisstore.WithCodec(c))
			},
			Effect: func(ctx context.Context, tx *redisstore.Tx, label string) error {
				return effect(ctx, tx, "effect-"+prefix+label)
			},
			Effects: func(ctx context.Context, label string) (int, error) {
				return effects(ctx, client, "effect-"+prefix+label)
			},
		}
	})
}

// A store with a codec does all that one without does.
func TestConformanceWithCodec(t *testing.T) {
	t.Parallel()
	client, other := newSingle(t), newSingle(t)
	storetest.Run(t, storetest.Harness[*redisstore.Tx]{Open: func(t *testing.T) storetest.Fixture[*redisstore.Tx] {
		prefix, codec := prefixOf(t), redisstore.WithCodec(testcodec.Encrypting(t))
		return storetest.Fixture[*redisstore.Tx]{
			Store:   newStore(t, client, redisstore.WithPrefix(prefix), codec),
			Replica: newStore(t, other, redisstore.WithPrefix(prefix), codec),
			Effect: func(ctx context.Context, tx *redisstore.Tx, label string) error {
				return effect(ctx, tx, "effect-"+prefix+label)
			},
			Effects: func(ctx context.Context, label string) (int, error) {
				return effects(ctx, client, "effect-"+prefix+label)
			},
			Advance: func(ctx context.Context, d time.Duration) error { return advance(ctx, client, prefix, d) },
		}
	}})
}
