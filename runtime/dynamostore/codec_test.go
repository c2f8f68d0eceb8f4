package dynamostore_test

import (
	"context"
	"testing"

	"github.com/idemgen/idemgen/runtime/dynamostore"
	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/storetest"
)

// Stores with different codecs share the records of one prefix.
func TestCodecs(t *testing.T) {
	t.Parallel()
	client := newClient(kumo.url(t))
	business := kumo.business(t)
	storetest.RunCodecs(t, func(t *testing.T) storetest.CodecFixture[*dynamostore.Tx] {
		prefix := prefixOf(t)
		return storetest.CodecFixture[*dynamostore.Tx]{
			Open: func(c idempotency.Codec) storetest.Store[*dynamostore.Tx] {
				return kumo.open(t, client, dynamostore.WithPrefix(prefix), dynamostore.WithCodec(c))
			},
			Effect: func(_ context.Context, tx *dynamostore.Tx, label string) error {
				return tx.Queue(increment(business, prefix+label))
			},
			Effects: func(ctx context.Context, label string) (int, error) {
				return effects(ctx, client, business, prefix+label)
			},
		}
	})
}
