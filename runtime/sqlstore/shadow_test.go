package sqlstore_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/sqlstore"
)

// A handler's temporary table of the same name, which would hide the store's
// from its connection, does not get the record.
// Covers CRA-02.
func TestTemporaryTableDoesNotHideRecords(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "test.db")
	db := openDB(t, file, pragmas+"_pragma=journal_mode(wal)", 1)
	if err := sqlstore.Migrate(t.Context(), db, sqlstore.SQLite); err != nil {
		t.Fatal(err)
	}
	store := newStore(t, db)
	runs := 0
	work := func(ctx context.Context, tx *sql.Tx) (idempotency.Response, error) {
		runs++
		_, err := tx.ExecContext(ctx, `CREATE TEMP TABLE IF NOT EXISTS idempotency_records AS SELECT * FROM main.idempotency_records`)
		return idempotency.Response{Status: 201}, err
	}
	if _, err := store.Execute(t.Context(), request("k"), work); err != nil {
		t.Fatal(err)
	}
	other := newStore(t, openDB(t, file, pragmas+"_pragma=journal_mode(wal)", 1))
	for name, s := range map[string]*sqlstore.Store{"the same": store, "another process": other} {
		result, err := s.Execute(t.Context(), request("k"), work)
		if err != nil || !result.Replayed {
			t.Errorf("%s: %+v, %v", name, result, err)
		}
	}
	if runs != 1 {
		t.Errorf("the handler ran %d times", runs)
	}
}
