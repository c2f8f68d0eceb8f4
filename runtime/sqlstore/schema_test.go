package sqlstore_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/sqlstore"
)

// A table of an earlier version, made before there were leases, is refused with
// the statements that bring it up to date. They do, and so does Migrate, by many
// at once: its answers are replayed and its keys can be leased.
//
// Covers STO-22.
func TestTableOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	for _, srv := range append(servers(), sqliteServer()) {
		for name, columns := range map[string][]string{"Both": {"lease_token", "lease_until"}, "One": {"lease_until"}} {
			for _, by := range []string{"Migrate", "Statements", "Documentation"} {
				if by == "Documentation" && name == "One" {
					continue
				}
				t.Run(srv.name+"/"+name+by, func(t *testing.T) {
					t.Parallel()
					db, _ := srv.pool(t)
					if _, err := srv.on(t, db).Execute(t.Context(), request("k"), srv.work("k")); err != nil {
						t.Fatal(err)
					}
					for _, column := range columns {
						if _, err := db.ExecContext(t.Context(), "ALTER TABLE idempotency_records DROP COLUMN "+column); err != nil {
							t.Fatal(err)
						}
					}
					_, err := sqlstore.New(t.Context(), db, srv.dialect)
					if err == nil || !strings.Contains(err.Error(), "run sqlstore.Migrate") {
						t.Fatalf("New: %v", err)
					}
					execute := func(statements string) {
						for statement := range strings.SplitSeq(strings.TrimRight(statements, ";\n"), ";") {
							if _, err := db.ExecContext(t.Context(), statement); err != nil {
								t.Errorf("%s: %v", statement, err)
							}
						}
					}
					switch by {
					case "Statements":
						_, statements, _ := strings.Cut(err.Error(), ", or: ")
						execute(statements)
					case "Documentation":
						database, _, _ := strings.Cut(strings.ToLower(srv.name), ",")
						statements, err := os.ReadFile("testdata/leases/" + database + ".sql")
						if err != nil {
							t.Fatal(err)
						}
						execute(string(statements))
					default:
						var wg sync.WaitGroup
						for range 4 {
							wg.Go(func() {
								if err := sqlstore.Migrate(t.Context(), db, srv.dialect); err != nil {
									t.Error(err)
								}
							})
						}
						wg.Wait()
					}
					s := srv.on(t, db)
					if res, err := s.Execute(t.Context(), request("k"), never(t)); err != nil || !res.Replayed || string(res.Body) != "k" {
						t.Errorf("an earlier answer: %+v, %v", res, err)
					}
					if _, err := s.AcquireLease(t.Context(), refundRequest(), idempotency.LeaseToken{1}); err != nil {
						t.Errorf("AcquireLease: %v", err)
					}
				})
			}
		}
	}
}

// Migrate waits a moment for transactions that use the table, and then leaves it
// as it was: whoever comes next would wait behind it.
func TestMigrateDoesNotWaitForLong(t *testing.T) {
	t.Parallel()
	for _, srv := range servers() {
		if srv.driver == "postgres" {
			continue // as with the other driver
		}
		t.Run(srv.name, func(t *testing.T) {
			t.Parallel()
			db, _ := srv.pool(t)
			if _, err := db.ExecContext(t.Context(), "ALTER TABLE idempotency_records DROP COLUMN lease_until"); err != nil {
				t.Fatal(err)
			}
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback() }()
			if _, err := tx.ExecContext(t.Context(), "DELETE FROM idempotency_records"); err != nil {
				t.Fatal(err)
			}
			err = sqlstore.Migrate(t.Context(), db, srv.dialect)
			if err == nil || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Migrate: %v", err)
			}
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
			if err := sqlstore.Migrate(t.Context(), db, srv.dialect); err != nil {
				t.Errorf("Migrate again: %v", err)
			}
		})
	}
}
