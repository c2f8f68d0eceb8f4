package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// A claim leaves nothing behind, whatever way its work has ended, and however
// short its answer is kept.
//
// Covers STO-21.
func TestClaimsAreDropped(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "test.db")+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := Migrate(t.Context(), db, SQLite); err != nil {
		t.Fatal(err)
	}
	s, err := New(t.Context(), db, SQLite)
	if err != nil {
		t.Fatal(err)
	}
	errFailed := errors.New("failed")
	for _, work := range []idempotency.Work[*sql.Tx]{
		func(context.Context, *sql.Tx) (idempotency.Response, error) {
			return idempotency.Response{Status: 204}, nil
		},
		func(context.Context, *sql.Tx) (idempotency.Response, error) {
			return idempotency.Response{}, errFailed
		},
		func(context.Context, *sql.Tx) (idempotency.Response, error) { panic("a bug") },
	} {
		for _, key := range []string{"a", "b", "a"} {
			func() {
				defer func() { _ = recover() }()
				req := idempotency.Request{Identity: idempotency.Identity{Key: key}, Retention: time.Nanosecond}
				if _, err := s.Execute(t.Context(), req, work); err != nil && !errors.Is(err, errFailed) {
					t.Errorf("Execute: %v", err)
				}
			}()
		}
	}
	if len(s.claims.held) != 0 {
		t.Errorf("%d claims left", len(s.claims.held))
	}
}
