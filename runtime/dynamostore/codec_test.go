package dynamostore_test

import (
	"context"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/dynamostore"
	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/internal/testcodec"
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

// A store with a codec does all that one without does. How large an answer may
// be is judged by what is stored of it.
func TestConformanceWithCodec(t *testing.T) {
	t.Parallel()
	header, body, err := idempotency.EncodeAnswer(t.Context(), testcodec.Encrypting(t), idempotency.Request{}, idempotency.Response{Status: 201})
	if err != nil {
		t.Fatal(err)
	}
	added := len(header) + len(body)
	client, other := newClient(kumo.url(t)), newClient(kumo.url(t))
	business := kumo.business(t)
	storetest.Run(t, storetest.Harness[*dynamostore.Tx]{
		MaxAnswer: dynamostore.MaxAnswer - added,
		Open: func(t *testing.T) storetest.Fixture[*dynamostore.Tx] {
			prefix, codec := prefixOf(t), dynamostore.WithCodec(testcodec.Encrypting(t))
			return storetest.Fixture[*dynamostore.Tx]{
				Store:   kumo.open(t, client, dynamostore.WithPrefix(prefix), codec),
				Replica: kumo.open(t, other, dynamostore.WithPrefix(prefix), codec),
				Effect: func(_ context.Context, tx *dynamostore.Tx, label string) error {
					return tx.Queue(increment(business, prefix+label))
				},
				Effects: func(ctx context.Context, label string) (int, error) {
					return effects(ctx, client, business, prefix+label)
				},
				Advance: func(ctx context.Context, d time.Duration) error {
					return advance(ctx, client, kumo.table(t), prefix, d)
				},
			}
		},
	})
}
