package sqlstore_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/sqlstore"
)

// Records are dated by the database's clock: an answer that a process whose
// own clock says the year 2000 has stored for an hour is live for the others.
// Covers EXP-07.
func TestProcessClockDoesNotCount(t *testing.T) {
	t.Parallel()
	dsn := "file:" + filepath.Join(t.TempDir(), "test.db") + "?_pragma=busy_timeout(1000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)"
	req := idempotency.Request{
		Identity:    idempotency.Identity{Scope: "s", Operation: "o", Key: "k"},
		Fingerprint: idempotency.FingerprintOf([]byte("a")),
		Retention:   time.Hour,
	}
	execute := func(t *testing.T) bool {
		t.Helper()
		ctx := context.WithoutCancel(t.Context())
		db, err := sql.Open("sqlite", dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		db.SetMaxOpenConns(1)
		if err := sqlstore.Migrate(ctx, db, sqlstore.SQLite); err != nil {
			t.Fatal(err)
		}
		store, err := sqlstore.New(ctx, db, sqlstore.SQLite)
		if err != nil {
			t.Fatal(err)
		}
		result, err := store.Execute(ctx, req, func(context.Context, *sql.Tx) (idempotency.Response, error) {
			return idempotency.Response{Status: 201}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return result.Replayed
	}
	synctest.Test(t, func(t *testing.T) {
		if year := time.Now().Year(); year != 2000 {
			t.Fatalf("the bubble's clock says %d", year)
		}
		if execute(t) {
			t.Error("the first attempt was replayed")
		}
	})
	if !execute(t) {
		t.Error("the answer of the process with the wrong clock is not live")
	}
}
