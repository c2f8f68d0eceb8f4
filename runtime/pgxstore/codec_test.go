package pgxstore_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/internal/testcodec"
	"github.com/idemgen/idemgen/runtime/internal/testenv"
	"github.com/idemgen/idemgen/runtime/pgxstore"
	"github.com/idemgen/idemgen/runtime/storetest"
)

// Stores with different codecs share a table. One connection each shows that
// none is lost when a codec fails or panics.
func TestCodecs(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	var schemas atomic.Int32
	storetest.RunCodecs(t, func(t *testing.T) storetest.CodecFixture[pgx.Tx] {
		schema := fmt.Sprintf("check_%d", schemas.Add(1))
		f := newFixture(t, dsn, schema, nil)
		return storetest.CodecFixture[pgx.Tx]{
			Open: func(c idempotency.Codec) storetest.Store[pgx.Tx] {
				pool := newPool(t, dsn, func(cfg *pgxpool.Config) { cfg.MaxConns = 1 })
				return newStore(t, pool, pgxstore.WithTable(schema+".records"), pgxstore.WithCodec(c))
			},
			Effect:  f.Effect,
			Effects: f.Effects,
		}
	})
}

// A store with a codec does all that one without does.
func TestConformanceWithCodec(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	var schemas atomic.Int32
	harness := storetest.Harness[pgx.Tx]{Open: func(t *testing.T) storetest.Fixture[pgx.Tx] {
		return newFixture(t, dsn, fmt.Sprintf("check_%d", schemas.Add(1)), []pgxstore.Option{pgxstore.WithCodec(testcodec.Encrypting(t))})
	}}
	storetest.Run(t, harness)
	t.Run("Leases", func(t *testing.T) {
		t.Parallel()
		storetest.RunLeases(t, harness)
	})
}
