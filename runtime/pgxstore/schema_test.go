package pgxstore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/internal/testenv"
	"github.com/idemgen/idemgen/runtime/pgxstore"
)

// Replicas that migrate at the same time all succeed.
//
// Covers STO-22.
func TestMigrateTogether(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"read committed", "serializable"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			pool := newPool(t, testenv.Postgres(t), func(cfg *pgxpool.Config) {
				cfg.MaxConns = 10
				cfg.ConnConfig.RuntimeParams["default_transaction_isolation"] = level
			})
			var replicas sync.WaitGroup
			for range 10 {
				replicas.Go(func() {
					if err := pgxstore.Migrate(t.Context(), pool); err != nil {
						t.Error(err)
					}
				})
			}
			replicas.Wait()
			newStore(t, pool)
		})
	}
}

// Migrate does not touch a table that is there, so it waits for nobody.
//
// Covers STO-22.
func TestMigrateLeavesTrafficAlone(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDatabase(t))
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), "lock table idempotency_records in row exclusive mode"); err != nil {
		t.Fatal(err)
	}
	if err := pgxstore.Migrate(t.Context(), pool); err != nil {
		t.Error(err)
	}
	newStore(t, pool)
}

// What Schema returns is what Migrate makes, under any name.
func TestSchema(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"idempotency_records", "Keys", `other.select`, "a" + strings.Repeat("b", 54)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := newPool(t, testenv.Postgres(t))
			if _, err := pool.Exec(t.Context(), "create schema other"); err != nil {
				t.Fatal(err)
			}
			sql, err := pgxstore.Schema(pgxstore.WithTable(name))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := pool.Exec(t.Context(), sql); err != nil {
				t.Fatalf("%v\n%s", err, sql)
			}
			if err := pgxstore.Migrate(t.Context(), pool, pgxstore.WithTable(name)); err != nil {
				t.Error(err)
			}
			if _, err := pool.Exec(t.Context(), "create table effects (key text not null)"); err != nil {
				t.Fatal(err)
			}
			s := newStore(t, pool, pgxstore.WithTable(name))
			for i := range 2 {
				if res, err := s.Execute(t.Context(), request("k", "a"), pay("k")); err != nil || res.Replayed != (i == 1) {
					t.Errorf("%+v, %v", res, err)
				}
			}
		})
	}
}

// Migrate compresses bodies with lz4 where the server was built with it.
func TestMigrateCompressesBodies(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDatabase(t))
	var compression string
	var available bool
	err := pool.QueryRow(t.Context(), `select attcompression::text, (select 'lz4' = any(enumvals) from pg_settings where name = 'default_toast_compression')
		from pg_attribute where attrelid = 'idempotency_records'::regclass and attname = 'body'`).Scan(&compression, &available)
	if err != nil {
		t.Fatal(err)
	}
	if !available {
		t.Skip("this server was built without lz4")
	}
	if compression != "l" {
		t.Errorf("body is compressed by %q, want lz4", compression)
	}
}

// Covers SEC-13.
func TestTableNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "a b", `a"b`, "a;drop table x", "1a", "a.b.c", ".a", "a.", "ä", "a\n", strings.Repeat("a", 56), strings.Repeat("a", 56) + ".b"} {
		if sql, err := pgxstore.Schema(pgxstore.WithTable(name)); err == nil || !strings.Contains(err.Error(), "no table name") {
			t.Errorf("%q: %v\n%s", name, err, sql)
		}
	}
}

// New refuses what would fail requests later, and says what to do.
func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sql  string // what is wrong
		dsn  string // appended
		opts []pgxstore.Option
		want string
	}{
		"NoTable":          {sql: "drop table idempotency_records", want: "pgxstore.Migrate"},
		"OtherTable":       {opts: []pgxstore.Option{pgxstore.WithTable("elsewhere.t")}, want: `"elsewhere"."t" does not exist`},
		"MissingColumn":    {sql: "alter table idempotency_records drop column header", want: "it has no header"},
		"NoExpiry":         {sql: "alter table idempotency_records drop column expires_at", want: "it has no expires_at"},
		"WrongType":        {sql: "alter table idempotency_records alter column body type text using ''", want: "column body is text instead of bytea"},
		"LocalTime":        {sql: "alter table idempotency_records alter column expires_at type timestamp", want: "column expires_at is timestamp without time zone"},
		"Nullable":         {sql: "alter table idempotency_records alter column status drop not null", want: "column status lacks NOT NULL"},
		"ForeignColumn":    {sql: "alter table idempotency_records add column extra int not null", want: "column extra is not the store's"},
		"EarlierVersion":   {sql: "alter table idempotency_records drop column lease_until", want: `apply pgxstore.Migrate, which adds them, or: ALTER TABLE "public"."idempotency_records" ADD COLUMN lease_until timestamp with time zone;`},
		"LeaseNotNull":     {sql: "alter table idempotency_records alter column lease_token set not null", want: "column lease_token has NOT NULL"},
		"NoUniqueIndex":    {sql: "alter table idempotency_records drop constraint idempotency_records_pkey", want: "no unique index on (id)"},
		"PartialIndex":     {sql: "alter table idempotency_records drop constraint idempotency_records_pkey; create unique index on idempotency_records (id) where status > 0", want: "no unique index on (id)"},
		"WiderUniqueIndex": {sql: "alter table idempotency_records drop constraint idempotency_records_pkey; create unique index on idempotency_records (id, key)", want: "no unique index on (id)"},
		"DeferredIndex":    {sql: "alter table idempotency_records drop constraint idempotency_records_pkey; alter table idempotency_records add primary key (id) deferrable", want: "no unique index on (id)"},
		"Unlogged":         {sql: "alter table idempotency_records set unlogged", want: "SET LOGGED"},
		"NoSweepIndex":     {sql: "drop index idempotency_records_expires_at", want: "no index on (expires_at)"},
		"View":             {sql: "alter table idempotency_records rename to hidden; create view idempotency_records as select * from hidden", want: "is no table"},
		"Trigger":          {sql: "create function drops() returns trigger language plpgsql as 'begin return null; end'; create trigger t before insert on idempotency_records for each row execute function drops()", want: "a trigger or a rule of the table drops it"},
		"Rule":             {sql: "create rule r as on insert to idempotency_records do instead nothing", want: "a trigger or a rule of the table drops it"},
		"DeletingTrigger":  {sql: "create function deletes() returns trigger language plpgsql as 'begin delete from idempotency_records where id = new.id; return null; end'; create trigger t after insert on idempotency_records for each row execute function deletes()", want: "cannot be read"},
		"ChangingTrigger":  {sql: "create function changes() returns trigger language plpgsql as 'begin new.scope = ''all''; return new; end'; create trigger t before insert on idempotency_records for each row execute function changes()", want: "a trigger of the table changes it"},
		"ChangingStatus":   {sql: "create function changes() returns trigger language plpgsql as 'begin new.status = 500; return new; end'; create trigger t before insert on idempotency_records for each row execute function changes()", want: "a trigger of the table changes it"},
		"HidingPolicy":     {sql: "grant select, insert, update, delete on idempotency_records to pg_monitor; alter table idempotency_records enable row level security; create policy hides on idempotency_records using (false) with check (true)", dsn: "&role=pg_monitor", want: `ALTER TABLE "public"."idempotency_records" DISABLE ROW LEVEL SECURITY;`},
		"Check":            {sql: "alter table idempotency_records add check (status > 200)", want: "violates check constraint"},
		"ReadOnly":         {dsn: "&default_transaction_read_only=on", want: "takes no writes"},
		"Encoding":         {dsn: "&client_encoding=latin1", want: "client_encoding"},
		"BadOption":        {opts: []pgxstore.Option{pgxstore.WithClaimTimeout(0)}, want: "WithClaimTimeout"},
		"BadIsolation":     {opts: []pgxstore.Option{pgxstore.WithIsolation("chaos")}, want: "WithIsolation"},
		"BadBatch":         {opts: []pgxstore.Option{pgxstore.WithSweepBatch(0, 0)}, want: "WithSweepBatch"},
		"BadLimits":        {opts: []pgxstore.Option{pgxstore.WithSessionLimits(-1, 0)}, want: "WithSessionLimits"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := newDatabase(t)
			if _, err := newPool(t, dsn).Exec(t.Context(), c.sql); err != nil {
				t.Fatal(err)
			}
			_, err := pgxstore.New(t.Context(), newPool(t, dsn+c.dsn), c.opts...)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want an error about %q", err, c.want)
			}
			if err != nil && name != "NoSweepIndex" && strings.Contains(err.Error(), "CREATE INDEX") {
				t.Errorf("%v, which would fail", err)
			}
		})
	}
}

// A rule that comes later and drops records is an error of each request that it
// concerns, never an answer, and none after which a client would send it again.
func TestDroppedRecordIsSaid(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDatabase(t))
	s := newStore(t, pool)
	if _, err := pool.Exec(t.Context(), "create rule r as on insert to idempotency_records do instead nothing"); err != nil {
		t.Fatal(err)
	}
	var refusal *idempotency.Error
	if res, err := s.Execute(t.Context(), request("k", "a"), pay("k")); !errors.As(err, &refusal) || refusal.Code != idempotency.CodeTransactionEnded || !strings.Contains(err.Error(), "its effects are committed") {
		t.Errorf("Execute: %+v, %v", res, err)
	}
	req := request("leased", "a")
	req.Lease = time.Minute
	if _, err := s.AcquireLease(t.Context(), req, idempotency.LeaseToken{1}); err == nil || !strings.Contains(err.Error(), "a rule") {
		t.Errorf("AcquireLease: %v", err)
	}
}

// The statements that New's error names make the table right, one after the
// other, as they stand.
func TestRemediesHold(t *testing.T) {
	t.Parallel()
	dsn := newDatabase(t)
	admin := newPool(t, dsn)
	role := "idem_" + strings.ToLower(rand.Text()) // roles belong to the whole server
	for _, sql := range []string{
		"create role " + role + " login",
		`alter table idempotency_records drop constraint idempotency_records_pkey, drop column lease_token, drop column lease_until, set unlogged,
			alter column header type text using '', alter column status drop not null, add column "Extra" int not null, add column "Tenant" int not null, add primary key ("Tenant", id);
		drop index idempotency_records_expires_at; alter table idempotency_records enable row level security`,
	} {
		if _, err := admin.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if _, err := admin.Exec(context.Background(), "drop owned by "+role+"; drop role "+role); err != nil {
			t.Error(err)
		}
	})
	pool := newPool(t, dsn+"&user="+role)
	applied := 0
	for {
		_, err := pgxstore.New(t.Context(), pool)
		if err == nil {
			break
		}
		remedies := regexp.MustCompile(`\b(ALTER|CREATE|GRANT) [^;\n]*;`).FindAllString(err.Error(), -1)
		if len(remedies) == 0 || applied > 20 {
			t.Fatalf("after %d statements: %v", applied, err)
		}
		for _, sql := range remedies {
			if _, err := admin.Exec(t.Context(), sql); err != nil {
				t.Fatalf("%s: %v", sql, err)
			}
			applied++
		}
	}
	if applied != 10 {
		t.Errorf("%d statements were applied", applied)
	}
}

// New says which privileges are missing, and is content with those.
func TestNewNamesMissingPrivileges(t *testing.T) {
	t.Parallel()
	dsn := newDatabase(t)
	admin := newPool(t, dsn)
	role := "idem_" + strings.ToLower(rand.Text()) // roles belong to the whole server
	if _, err := admin.Exec(t.Context(), "create role "+role+" login; grant select, insert, delete on idempotency_records to "+role); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := admin.Exec(context.Background(), "drop owned by "+role+"; drop role "+role); err != nil {
			t.Error(err)
		}
	})
	pool := newPool(t, dsn+"&user="+role)
	_, err := pgxstore.New(t.Context(), pool)
	if want := `GRANT SELECT, INSERT, UPDATE, DELETE ON "public"."idempotency_records" TO "` + role + `"`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	if _, err := admin.Exec(t.Context(), "grant update on idempotency_records to "+role); err != nil {
		t.Fatal(err)
	}
	newStore(t, pool)
}

// A column that can be left out does not matter, nor a check that all requests
// pass.
func TestMoreColumnsAreAllowed(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDatabase(t))
	if _, err := pool.Exec(t.Context(), "alter table idempotency_records add column note text, add column n int not null default 1, add check (scope <> '')"); err != nil {
		t.Fatal(err)
	}
	if _, err := newStore(t, pool).Execute(t.Context(), request("k", "a"), pay("k")); err != nil {
		t.Error(err)
	}
}

// Two stores with different tables share a pool, and neither keys, claims nor
// statements.
func TestTwoTablesOnOnePool(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDatabase(t), func(cfg *pgxpool.Config) { cfg.MaxConns = 2 })
	other := pgxstore.WithTable("other")
	if err := pgxstore.Migrate(t.Context(), pool, other); err != nil {
		t.Fatal(err)
	}
	a, b, c := newStore(t, pool), newStore(t, pool, other), newStore(t, pool)
	for range 3 { // statements are prepared on the second use of a connection
		for _, s := range []*pgxstore.Store{a, b, c} {
			if res, err := s.Execute(t.Context(), request("k", "a"), pay("k")); err != nil || res.Status != 201 {
				t.Errorf("%+v, %v", res, err)
			}
		}
	}
	if n := effects(t, pool, "k"); n != 2 {
		t.Errorf("%d effects, want one for each table", n)
	}
	_, err := a.Execute(t.Context(), request("nested", "a"), answering("nested", func(ctx context.Context, tx pgx.Tx) error {
		_, err := b.Execute(ctx, request("nested", "a"), pay("nested"))
		return err
	}))
	if err != nil {
		t.Errorf("the same identity in both tables at once: %v", err)
	}
}

// Migrate brings a table of an earlier version up to date, on all replicas at
// once, and its records are replayed as before. It does not wait for long.
//
// Covers STO-22.
func TestMigrateUpgrades(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDatabase(t), func(cfg *pgxpool.Config) { cfg.MaxConns = 10 })
	execute(t, newStore(t, pool), "k")
	if _, err := pool.Exec(t.Context(), "alter table idempotency_records drop column lease_token, drop column lease_until"); err != nil {
		t.Fatal(err)
	}

	user, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := user.Exec(t.Context(), "lock table idempotency_records in row exclusive mode"); err != nil {
		t.Fatal(err)
	}
	if err := pgxstore.Migrate(t.Context(), pool); err == nil || !strings.Contains(err.Error(), "apply pgxstore.Migrate again") {
		t.Errorf("Migrate beside a long transaction: %v", err)
	}
	if err := user.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}

	var replicas sync.WaitGroup
	for range 5 {
		replicas.Go(func() {
			if err := pgxstore.Migrate(t.Context(), pool); err != nil {
				t.Error(err)
			}
		})
	}
	replicas.Wait()
	s := newStore(t, pool)
	if res, err := s.Execute(t.Context(), request("k", "a"), never(t)); err != nil || !res.Replayed {
		t.Errorf("%+v, %v", res, err)
	}
	if err := refund(t.Context(), s, pool); err != nil {
		t.Error(err)
	}
}
