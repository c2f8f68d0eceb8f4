package sqlstore_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/sqlstore"
	"github.com/idemgen/idemgen/runtime/storetest"
)

// Stores with different codecs share a table.
func TestCodecs(t *testing.T) {
	t.Parallel()
	storetest.RunCodecs(t, func(t *testing.T) storetest.CodecFixture[*sql.Tx] {
		file := filepath.Join(t.TempDir(), "test.db")
		pool := func() *sql.DB { return openDB(t, file, pragmas+"_pragma=journal_mode(wal)", 1) }
		db := pool()
		prepare(t, db)
		return storetest.CodecFixture[*sql.Tx]{
			Open: func(c idempotency.Codec) storetest.Store[*sql.Tx] {
				return newStore(t, pool(), sqlstore.WithCodec(c))
			},
			Effect:  effect,
			Effects: func(ctx context.Context, label string) (int, error) { return countEffects(ctx, db, label) },
		}
	})
}
