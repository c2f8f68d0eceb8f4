package redisstore_test

import (
	"context"
	"testing"

	"github.com/idemgen/idemgen/runtime/idempotency"
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
