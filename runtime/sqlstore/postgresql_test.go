package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "github.com/lib/pq"              // the driver "postgres"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/internal/testenv"
	"github.com/idemgen/idemgen/runtime/pgxstore"
	"github.com/idemgen/idemgen/runtime/sqlstore"
	"github.com/idemgen/idemgen/runtime/storetest"
)

// postgresqlDrivers are the names of PostgreSQL's drivers.
var postgresqlDrivers = []string{"pgx", "postgres"}

func openPostgreSQL(t testing.TB, driver, dsn string, conns int) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(conns)
	return db
}

// newPostgreSQL returns a pool on a new database with the store's table and one
// of effects, and its connection string.
func newPostgreSQL(t testing.TB, driver string) (*sql.DB, string) {
	t.Helper()
	dsn := testenv.Postgres(t)
	db := openPostgreSQL(t, driver, dsn, 0)
	fillPostgreSQL(t, db)
	return db, dsn
}

func fillPostgreSQL(t testing.TB, db *sql.DB) {
	t.Helper()
	if err := sqlstore.Migrate(t.Context(), db, sqlstore.PostgreSQL); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE effects (label TEXT NOT NULL)"); err != nil {
		t.Fatal(err)
	}
}

// payPostgreSQL is work that makes one effect.
func payPostgreSQL(label string) idempotency.Work[*sql.Tx] {
	return func(ctx context.Context, tx *sql.Tx) (idempotency.Response, error) {
		_, err := tx.ExecContext(ctx, "INSERT INTO effects (label) VALUES ($1)", label)
		return created(label), err
	}
}

// Every check has tables of its own in one database for each driver and setting.
// The replica's sessions are in another time zone, which changes its clocks.
//
// Covers STO-15, STO-18, STO-19, STO-20, EXP-08.
func TestConformanceOnPostgreSQL(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, driver string
		dsn          func(t *testing.T) string
	}{
		{"Pgx", "pgx", func(t *testing.T) string { return testenv.Postgres(t) }},
		{"PgxOnPostgreSQL18", "pgx", func(t *testing.T) string { return testenv.Postgres18(t) }},
		{"PqOnPostgreSQL18", "postgres", func(t *testing.T) string { return testenv.Postgres18(t) }},
		{"PgxThroughPgBouncer", "pgx", func(t *testing.T) string {
			return testenv.PgBouncer(t, testenv.Postgres(t)) + "&default_query_exec_mode=exec"
		}},
		{"Pq", "postgres", func(t *testing.T) string { return testenv.Postgres(t) }},
		{"PqThroughPgBouncer", "postgres", func(t *testing.T) string {
			return testenv.PgBouncer(t, testenv.Postgres(t)) + "&binary_parameters=yes"
		}},
		{"PqSerializable", "postgres", func(t *testing.T) string {
			return testenv.Postgres(t) + "&default_transaction_isolation=serializable&quote_all_identifiers=on&binary_parameters=yes"
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dsn := c.dsn(t)
			var tables atomic.Int32
			harness := storetest.Harness[*sql.Tx]{
				Open: func(t *testing.T) storetest.Fixture[*sql.Tx] {
					return postgresqlServer(c.driver).fixture(t,
						openPostgreSQL(t, c.driver, dsn+"&timezone=Asia/Kathmandu", 4),
						openPostgreSQL(t, c.driver, dsn+"&timezone=America/Los_Angeles", 4), tables.Add(1))
				},
				Faults: map[string]func(context.Context, *sql.Tx) error{
					"Commit":              func(_ context.Context, tx *sql.Tx) error { return tx.Commit() },
					"Rollback":            func(_ context.Context, tx *sql.Tx) error { return tx.Rollback() },
					"COMMIT as text":      ignored("COMMIT"),
					"ROLLBACK as text":    ignored("ROLLBACK"),
					"COMMIT and BEGIN":    ignored("COMMIT", "BEGIN"),
					"COMMIT AND CHAIN":    ignored("COMMIT AND CHAIN"),
					"failed statement":    ignored("SELECT 1/0"),
					"savepoint left open": ignored("SAVEPOINT mine"),
				},
				Conflict: func(ctx context.Context, tx *sql.Tx) error {
					_, err := tx.ExecContext(ctx, "DO $$ BEGIN RAISE EXCEPTION 'lost' USING errcode = '40001'; END $$")
					return err
				},
			}
			storetest.Run(t, harness)
			t.Run("Leases", func(t *testing.T) {
				t.Parallel()
				storetest.RunLeases(t, harness)
			})
		})
	}
}

// Migrate looks for what others have created whatever the session's isolation
// level is.
//
// Covers STO-18, STO-22.
func TestMigrateByManyAtSerializable(t *testing.T) {
	t.Parallel()
	for _, driver := range postgresqlDrivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			db := openPostgreSQL(t, driver, testenv.Postgres(t)+"&default_transaction_isolation=serializable", 0)
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					if err := sqlstore.Migrate(t.Context(), db, sqlstore.PostgreSQL); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		})
	}
}

// A table may be in a schema that is not on the search_path, whether Migrate
// makes it or what Schema returns; pgxstore takes it under the same name.
func TestTableInSchema(t *testing.T) {
	t.Parallel()
	for _, driver := range postgresqlDrivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			db, dsn := newPostgreSQL(t, driver)
			ddl, err := sqlstore.Schema(sqlstore.PostgreSQL, sqlstore.WithTable("Billing.printed"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := db.ExecContext(t.Context(), `CREATE SCHEMA "Billing"; `+ddl); err != nil {
				t.Fatal(err)
			}
			pool, err := pgxpool.New(t.Context(), dsn)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			for _, name := range []string{"Billing.printed", "Billing.Migrated"} {
				table := sqlstore.WithTable(name)
				for range 2 {
					if err := sqlstore.Migrate(t.Context(), db, sqlstore.PostgreSQL, table); err != nil {
						t.Fatal(err)
					}
				}
				s := postgresqlServer(driver).on(t, db, table)
				for i := range 2 {
					if res, err := s.Execute(t.Context(), request("k"), payPostgreSQL(name)); err != nil || res.Replayed != (i == 1) {
						t.Errorf("%s: %+v, %v", name, res, err)
					}
				}
				if _, err := pgxstore.New(t.Context(), pool, pgxstore.WithTable(name)); err != nil {
					t.Errorf("pgxstore with %s: %v", name, err)
				}
			}
		})
	}
}

// What package pgxstore has stored this one replays, and the other way round;
// a claim of one is in flight for the other.
func TestTableIsSharedWithPgxstore(t *testing.T) {
	t.Parallel()
	for _, driver := range postgresqlDrivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			db, dsn := newPostgreSQL(t, driver)
			pool, err := pgxpool.New(t.Context(), dsn)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			if err := pgxstore.Migrate(t.Context(), pool); err != nil {
				t.Fatalf("pgxstore.Migrate on this package's table: %v", err)
			}
			native, err := pgxstore.New(t.Context(), pool)
			if err != nil {
				t.Fatal(err)
			}
			s := postgresqlServer(driver).on(t, db)
			payNative := func(label string) idempotency.Work[pgx.Tx] {
				return func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
					if _, err := s.Execute(ctx, request(label), never(t)); !isInFlight(err) {
						t.Errorf("sqlstore, while pgxstore's work runs: %v", err)
					}
					_, err := tx.Exec(ctx, "INSERT INTO effects (label) VALUES ($1)", label)
					return created(label), err
				}
			}
			if _, err := native.Execute(t.Context(), request("native"), payNative("native")); err != nil {
				t.Fatal(err)
			}
			res, err := s.Execute(t.Context(), request("native"), never(t))
			if err != nil || !res.Replayed || string(res.Body) != "native" {
				t.Errorf("sqlstore after pgxstore: %+v, %v", res, err)
			}

			neverNative := func(context.Context, pgx.Tx) (idempotency.Response, error) {
				t.Error("work ran; it must not")
				return created("ran"), errors.New("work ran")
			}
			_, err = s.Execute(t.Context(), request("sql"), func(ctx context.Context, tx *sql.Tx) (idempotency.Response, error) {
				if _, err := native.Execute(ctx, request("sql"), neverNative); !isInFlight(err) {
					t.Errorf("pgxstore, while sqlstore's work runs: %v", err)
				}
				return payPostgreSQL("sql")(ctx, tx)
			})
			if err != nil {
				t.Fatal(err)
			}
			res, err = native.Execute(t.Context(), request("sql"), neverNative)
			if err != nil || !res.Replayed || string(res.Body) != "sql" {
				t.Errorf("pgxstore after sqlstore: %+v, %v", res, err)
			}
			for _, label := range []string{"native", "sql"} {
				if n := count(t, db, label); n != 1 {
					t.Errorf("%d effects %s", n, label)
				}
			}
		})
	}
}

// A sweep of several batches deletes every expired record, by one sweeper at a
// time: another one leaves the work to it, and waits for nothing.
func TestSweepOnPostgreSQL(t *testing.T) {
	t.Parallel()
	for _, driver := range postgresqlDrivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			db, dsn := newPostgreSQL(t, driver)
			s, other := postgresqlServer(driver).on(t, db), postgresqlServer(driver).on(t, openPostgreSQL(t, driver, dsn, 2))
			for _, query := range []string{
				`INSERT INTO idempotency_records SELECT gen_random_uuid(), now(), CASE i WHEN 1 THEN 'infinity' ELSE now() - i * interval '1 s' END, 200, 's', 'o', i, '', '', 'answer'
					FROM generate_series(1, 2500) AS i`,
				`CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END'`,
				`CREATE TRIGGER wait BEFORE DELETE ON idempotency_records EXECUTE FUNCTION wait()`,
			} {
				if _, err := db.ExecContext(t.Context(), query); err != nil {
					t.Fatal(err)
				}
			}
			gate, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = gate.Rollback() }()
			if _, err := gate.ExecContext(t.Context(), "SELECT pg_advisory_xact_lock(1)"); err != nil {
				t.Fatal(err)
			}
			swept := make(chan int64)
			go func() {
				n, err := s.Sweep(t.Context())
				if err != nil {
					t.Error(err)
				}
				swept <- n
			}()
			for waits := false; !waits; { // the first batch has begun
				err := db.QueryRowContext(t.Context(), `SELECT EXISTS (SELECT 1 FROM pg_locks JOIN pg_database AS d ON d.oid = database
					WHERE datname = current_database() AND locktype = 'advisory' AND NOT granted)`).Scan(&waits)
				if err != nil {
					t.Fatal(err)
				}
			}
			if n, err := other.Sweep(t.Context()); n != 0 || err != nil {
				t.Errorf("the other sweeper: %d, %v", n, err)
			}
			if err := gate.Rollback(); err != nil {
				t.Fatal(err)
			}
			if n := <-swept; n != 2499 {
				t.Errorf("%d records swept, want 2499", n)
			}
		})
	}
}

// On a table that package pgxstore has partitioned, records of all partitions are
// replayed, released and swept, and the partitions stay as they are.
func TestPartitionedTable(t *testing.T) {
	t.Parallel()
	for _, driver := range postgresqlDrivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			dsn := testenv.Postgres(t)
			pool, err := pgxpool.New(t.Context(), dsn)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			if err := pgxstore.Migrate(t.Context(), pool, pgxstore.WithPartitions(24*time.Hour)); err != nil {
				t.Fatal(err)
			}
			db := openPostgreSQL(t, driver, dsn, 0)
			if err := sqlstore.Migrate(t.Context(), db, sqlstore.PostgreSQL); err != nil {
				t.Errorf("sqlstore.Migrate: %v", err)
			}
			s := postgresqlServer(driver).on(t, db)
			ms := fmt.Sprintf("%012x", time.Now().UnixMilli())
			keys := []string{"hash", "other hash", ms[:8] + "-" + ms[8:] + "-7abc-8def-0123456789ab", "00f2b57b-1e7c-7abc-8def-0123456789ab"}
			work := func(context.Context, *sql.Tx) (idempotency.Response, error) { return created("answer"), nil }
			for i, key := range keys {
				for _, replayed := range []bool{false, true} {
					if res, err := s.Execute(t.Context(), request(key), work); err != nil || res.Replayed != replayed {
						t.Errorf("%s: %+v, %v", key, res, err)
					}
				}
				if i == 0 {
					continue
				}
				if err := s.Release(t.Context(), request(key).Identity); err != nil {
					t.Errorf("release %s: %v", key, err)
				}
				if res, err := s.Execute(t.Context(), request(key), work); err != nil || res.Replayed {
					t.Errorf("%s again: %+v, %v", key, res, err)
				}
			}
			parts := func() (n int) {
				if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM pg_inherits WHERE inhparent = 'idempotency_records'::regclass").Scan(&n); err != nil {
					t.Fatal(err)
				}
				return n
			}
			before := parts()
			if _, err := db.ExecContext(t.Context(), "UPDATE idempotency_records SET expires_at = now() WHERE key <> 'hash'"); err != nil {
				t.Fatal(err)
			}
			if n, err := s.Sweep(t.Context()); n != 3 || err != nil {
				t.Errorf("%d swept, %v", n, err)
			}
			if res, err := s.Execute(t.Context(), request("hash"), never(t)); err != nil || !res.Replayed {
				t.Errorf("the record that is live: %+v, %v", res, err)
			}
			if after := parts(); after != before {
				t.Errorf("%d partitions, want %d", after, before)
			}
		})
	}
}

// The claim of a lease that package pgxstore holds is in flight, and is taken
// over when the lease has passed.
//
// Covers CON-10.
func TestLeaseOfPgxstore(t *testing.T) {
	t.Parallel()
	for _, driver := range postgresqlDrivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			db, dsn := newPostgreSQL(t, driver)
			pool, err := pgxpool.New(t.Context(), dsn)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			native, err := pgxstore.New(t.Context(), pool)
			if err != nil {
				t.Fatal(err)
			}
			req := request("k")
			req.Lease = time.Minute
			token := idempotency.LeaseToken{1}
			if _, err := native.AcquireLease(t.Context(), req, token); err != nil {
				t.Fatal(err)
			}
			s := postgresqlServer(driver).on(t, db)
			if _, err := s.Execute(t.Context(), req, never(t)); !isInFlight(err) {
				t.Errorf("Execute: %v", err)
			}
			if err := s.Release(t.Context(), req.Identity); !isInFlight(err) {
				t.Errorf("Release: %v", err)
			}
			if rec, err := s.Lookup(t.Context(), req.Identity); err != nil || rec.LeaseUntil.IsZero() {
				t.Errorf("Lookup: %+v, %v", rec, err)
			}
			if n, err := s.Sweep(t.Context()); n != 0 || err != nil {
				t.Errorf("Sweep: %d, %v", n, err)
			}
			if _, err := db.ExecContext(t.Context(), "UPDATE idempotency_records SET lease_until = now() - interval '1 s'"); err != nil {
				t.Fatal(err)
			}
			other := req
			other.Fingerprint[1]++
			if _, err := s.Execute(t.Context(), other, never(t)); !errors.Is(err, idempotency.ErrMismatch) {
				t.Errorf("another request: %v, want %v", err, idempotency.ErrMismatch)
			}
			if res, err := s.Execute(t.Context(), req, payPostgreSQL("k")); err != nil || res.Replayed {
				t.Errorf("take-over: %+v, %v", res, err)
			}
			if err := native.CompleteLease(t.Context(), req, token, created("late")); !errors.Is(err, idempotency.ErrLeaseLost) {
				t.Errorf("the late owner: %v, want %v", err, idempotency.ErrLeaseLost)
			}
		})
	}
}

func isInFlight(err error) bool {
	code, ok := codeOf(err)
	return ok && code == idempotency.CodeInFlight
}

// Both packages create the same table.
func TestSchemaIsThatOfPgxstore(t *testing.T) {
	t.Parallel()
	other, err := os.ReadFile("../pgxstore/schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	own, err := sqlstore.Schema(sqlstore.PostgreSQL)
	if err != nil {
		t.Fatal(err)
	}
	comment := regexp.MustCompile(`(?m)^--.*$`)
	plain := func(s string) string {
		return strings.Join(strings.Fields(strings.ReplaceAll(comment.ReplaceAllString(s, ""), `"`, "")), " ")
	}
	if got, want := plain(own), plain(string(other)); got != want {
		t.Errorf("schema\n%s\nwant\n%s", got, want)
	}
}

// A COMMIT that the server refuses for good, here by a deferred constraint, is
// an error and no retryable refusal; nothing is kept.
//
// Covers CRA-07.
func TestDeferredConstraint(t *testing.T) {
	t.Parallel()
	for _, driver := range postgresqlDrivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			db, _ := newPostgreSQL(t, driver)
			s := postgresqlServer(driver).on(t, db)
			if _, err := db.ExecContext(t.Context(), "ALTER TABLE effects ADD UNIQUE (label) DEFERRABLE INITIALLY DEFERRED"); err != nil {
				t.Fatal(err)
			}
			twice := func(ctx context.Context, tx *sql.Tx) (idempotency.Response, error) {
				if _, err := payPostgreSQL("k")(ctx, tx); err != nil {
					return idempotency.Response{}, err
				}
				return payPostgreSQL("k")(ctx, tx)
			}
			_, err := s.Execute(t.Context(), request("k"), twice)
			if refused := new(idempotency.CommitError); !errors.As(err, &refused) {
				t.Errorf("Execute: %v, want the constraint's error", err)
			}
			_, err = s.Transact(t.Context(), twice)
			if refused := new(idempotency.CommitError); !errors.As(err, &refused) {
				t.Errorf("Transact: %v, want the constraint's error", err)
			}
			if n := count(t, db, "k"); n != 0 {
				t.Errorf("%d effects", n)
			}
			if _, err := s.Execute(t.Context(), request("k"), payPostgreSQL("k")); err != nil {
				t.Errorf("retry: %v", err)
			}
		})
	}
}

// A COMMIT that comes after the server has ended the session, since the client
// was held up, is found not to have been carried out: nothing is kept, and a
// retry is safe.
//
// Covers CRA-09.
func TestSessionEndsBeforeCommit(t *testing.T) {
	t.Parallel()
	for _, driver := range postgresqlDrivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			srv := postgresqlServer(driver)
			db, dsn := srv.pool(t)
			exec := func(query string) {
				t.Helper()
				if _, err := db.ExecContext(t.Context(), query); err != nil {
					t.Fatal(err)
				}
			}
			exec("CREATE FUNCTION hurry() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN SET LOCAL idle_in_transaction_session_timeout = 200; RETURN NEW; END'")
			exec("CREATE TRIGGER hurry BEFORE INSERT ON idempotency_records FOR EACH ROW EXECUTE FUNCTION hurry()")
			p, through := srv.proxied(t, dsn)
			s := srv.store(t, through+"&application_name=held_up", 1)
			p.before(srv.commit, func() {
				for sessions := 1; sessions > 0; {
					if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'held_up' AND state = 'idle in transaction' AND datname = current_database()").Scan(&sessions); err != nil {
						t.Error(err)
						return
					}
				}
			})
			if _, err := s.Execute(t.Context(), request("k"), srv.work("k")); !errors.Is(err, idempotency.ErrUnavailable) {
				t.Errorf("held up: %v, want %v", err, idempotency.ErrUnavailable)
			}
			exec("DROP TRIGGER hurry ON idempotency_records")
			if res, err := srv.on(t, db).Execute(t.Context(), request("k"), srv.work("k")); err != nil || res.Replayed {
				t.Errorf("retry: %+v, %v", res, err)
			}
			if n := count(t, db, "k"); n != 1 {
				t.Errorf("%d effects", n)
			}
		})
	}
}

// Records are listed and counted without locks, whatever the session's isolation
// level is: a predicate lock could make other transactions fail.
func TestListLocksNothingOnPostgreSQL(t *testing.T) {
	t.Parallel()
	for _, driver := range postgresqlDrivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			db, dsn := newPostgreSQL(t, driver)
			s := postgresqlServer(driver).store(t, dsn+"&default_transaction_isolation=serializable", 2)
			if _, err := s.Execute(t.Context(), request("k"), payPostgreSQL("k")); err != nil {
				t.Fatal(err)
			}
			// While one runs, the locks of those that have ended are kept.
			tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelSerializable})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback() }()
			if _, err := tx.ExecContext(t.Context(), "SELECT count(*) FROM effects"); err != nil {
				t.Fatal(err)
			}
			for _, err := range s.List(t.Context(), idempotency.Filter{}) {
				if err != nil {
					t.Fatal(err)
				}
			}
			if _, err := s.Stats(t.Context()); err != nil {
				t.Fatal(err)
			}
			var locks int
			err = db.QueryRowContext(t.Context(), "SELECT count(*) FROM pg_locks WHERE mode = 'SIReadLock' AND relation IN ('idempotency_records'::regclass, 'idempotency_records_pkey'::regclass)").Scan(&locks)
			if err != nil || locks != 0 {
				t.Errorf("%d locks, %v; want none", locks, err)
			}
		})
	}
}

// Drivers tell the server's code of an error in the way that the store reads.
func TestPostgreSQLDriversTellTheCode(t *testing.T) {
	t.Parallel()
	for _, driver := range postgresqlDrivers {
		db := openPostgreSQL(t, driver, testenv.Postgres(t), 1)
		_, err := db.ExecContext(t.Context(), "SELECT 1/0")
		var coded interface {
			error
			SQLState() string
		}
		if !errors.As(err, &coded) || coded.SQLState() != "22012" {
			t.Errorf("%s: %v", driver, err)
		}
	}
}

// A claim that gets its lock while its statement is at work sees the record
// that was committed since. Here the lock lets the statement wait, which it
// does not do by itself.
//
// Covers STO-18.
func TestPostgreSQLClaimReadsUnderItsLock(t *testing.T) {
	t.Parallel()
	for _, driver := range postgresqlDrivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			db, dsn := newPostgreSQL(t, driver)
			for _, query := range []string{
				"CREATE SCHEMA waiting",
				`CREATE FUNCTION waiting.pg_try_advisory_xact_lock(bigint) RETURNS boolean LANGUAGE sql AS 'SELECT pg_advisory_xact_lock($1); SELECT true'`,
			} {
				if _, err := db.ExecContext(t.Context(), query); err != nil {
					t.Fatal(err)
				}
			}
			s := postgresqlServer(driver).on(t, db)
			// With one connection New does not try the lock, which would wait.
			late := postgresqlServer(driver).store(t, dsn+"&search_path=waiting,public,pg_catalog", 1)
			found := make(chan error, 1)
			_, err := s.Execute(t.Context(), request("k"), func(ctx context.Context, tx *sql.Tx) (idempotency.Response, error) {
				go func() {
					res, err := late.Execute(context.WithoutCancel(ctx), request("k"), never(t))
					if err == nil && !res.Replayed {
						err = errors.New("not replayed")
					}
					found <- err
				}()
				for waiting := 0; waiting == 0; {
					err := db.QueryRowContext(ctx, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())").Scan(&waiting)
					if err != nil {
						return idempotency.Response{}, err
					}
				}
				return payPostgreSQL("k")(ctx, tx)
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := <-found; err != nil {
				t.Errorf("the claim that waited: %v", err)
			}
		})
	}
}
