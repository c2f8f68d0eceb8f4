package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/sqlstore"
)

// A handler that commits by itself is told from one that failed: the answer
// does not claim that nothing was kept.
// Covers CRA-13.
func TestCommitInWorkIsSaid(t *testing.T) {
	t.Parallel()
	db := openDB(t, filepath.Join(t.TempDir(), "test.db"), pragmas+"_pragma=journal_mode(wal)", 1)
	if err := sqlstore.Migrate(t.Context(), db, sqlstore.SQLite); err != nil {
		t.Fatal(err)
	}
	_, err := newStore(t, db).Execute(t.Context(), request("k"), func(_ context.Context, tx *sql.Tx) (idempotency.Response, error) {
		return idempotency.Response{Status: 201}, tx.Commit()
	})
	var refusal *idempotency.Error
	if !errors.As(err, &refusal) || refusal.Code != idempotency.CodeTransactionEnded {
		t.Errorf("got %v", err)
	}
}
