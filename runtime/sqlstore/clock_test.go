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
//
// Covers EXP-07.
func TestProcessClockDoesNotCount(t *testing.T) {
	t.Parallel()
	sqlite := "file:" + filepath.Join(t.TempDir(), "test.db") + "?_pragma=busy_timeout(1000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)"
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		processClockDoesNotCount(t, "sqlite", sqlite, sqlstore.SQLite)
	})
	for _, s := range servers() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			_, dsn := s.pool(t)
			processClockDoesNotCount(t, s.driver, dsn, s.dialect)
		})
	}
}

func processClockDoesNotCount(t *testing.T, driver, dsn string, dialect sqlstore.Dialect) {
	t.Helper()
	req := idempotency.Request{
		Identity:    idempotency.Identity{Scope: "s", Operation: "o", Key: "k"},
		Fingerprint: idempotency.FingerprintOf([]byte("a")),
		Retention:   time.Hour,
	}
	execute := func(t *testing.T) bool {
		t.Helper()
		ctx := context.WithoutCancel(t.Context())
		db, err := sql.Open(driver, dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		db.SetMaxOpenConns(1)
		if err := sqlstore.Migrate(ctx, db, dialect); err != nil {
			t.Fatal(err)
		}
		store, err := sqlstore.New(ctx, db, dialect)
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
