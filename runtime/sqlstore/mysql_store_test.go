package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/internal/testenv"
	"github.com/idemgen/idemgen/runtime/sqlstore"
)

// New refuses what cannot keep the guarantee, and says what to do.
//
// Covers STO-09, STO-17, STO-22, EXP-10.
func TestNewRefusesOnMySQL(t *testing.T) {
	t.Parallel()
	migrated := func(t *testing.T, db *sql.DB, more ...string) {
		t.Helper()
		fillMySQL(t, db)
		for _, query := range more {
			if _, err := db.ExecContext(t.Context(), query); err != nil {
				t.Fatal(err)
			}
		}
	}
	altered := func(change string) func(*testing.T, *sql.DB) {
		return func(t *testing.T, db *sql.DB) { migrated(t, db, "ALTER TABLE idempotency_records "+change) }
	}
	for name, c := range map[string]struct {
		params  map[string]string
		prepare func(*testing.T, *sql.DB)
		opts    []sqlstore.Option
		want    string // "" means accepted
	}{
		"good":            {prepare: func(t *testing.T, db *sql.DB) { migrated(t, db) }},
		"one more column": {prepare: altered("ADD note TEXT")},
		"no table":        {want: "create it with sqlstore.Migrate"},
		"MyISAM":          {prepare: altered("ENGINE=MyISAM"), want: "ALTER TABLE `idempotency_records` ENGINE=InnoDB"},
		"Aria":            {prepare: altered("ENGINE=Aria"), want: "ENGINE=InnoDB"},
		"collation":       {prepare: altered("MODIFY `key` VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL"), want: "column key is varchar(255) NOT NULL instead of longblob NOT NULL: ALTER TABLE `idempotency_records` MODIFY `key` longblob NOT NULL;"},
		"short id":        {prepare: altered("MODIFY id BINARY(8) NOT NULL"), want: "MODIFY `id` binary(16) NOT NULL"},
		"null":            {prepare: altered("MODIFY body LONGBLOB"), want: "column body is longblob NULL instead of longblob NOT NULL"},
		"old schema":      {prepare: altered("DROP COLUMN header"), want: "it has no header"},
		"view": {prepare: func(t *testing.T, db *sql.DB) {
			migrated(t, db, "RENAME TABLE idempotency_records TO hidden", "CREATE VIEW idempotency_records AS SELECT * FROM hidden")
		}, want: "is a view"},
		"mandatory column":    {prepare: altered("ADD tenant INT NOT NULL"), want: "column tenant is not the store's"},
		"no primary key":      {prepare: altered("DROP PRIMARY KEY, ADD KEY (id)"), want: "ADD UNIQUE KEY (`id`);"},
		"wider primary key":   {prepare: altered("DROP PRIMARY KEY, ADD PRIMARY KEY (id, created_at)"), want: "ADD UNIQUE KEY (`id`);"},
		"no index":            {prepare: altered("DROP KEY idempotency_records_expires_at"), want: "ADD KEY (`expires_at`);"},
		"autocommit off":      {params: map[string]string{"autocommit": "0"}, prepare: altered("COMMENT ''"), want: "leave autocommit=0 out"},
		"dirty reads":         {params: map[string]string{"tx_isolation": "%27READ-UNCOMMITTED%27"}, prepare: altered("COMMENT ''"), want: "READ UNCOMMITTED"},
		"read-only":           {params: map[string]string{"tx_read_only": "1"}, want: "connect to the primary"},
		"reader":              {opts: []sqlstore.Option{sqlstore.WithReader(new(sql.DB))}, want: "WithReader is for SQLite"},
		"a name with a quote": {opts: []sqlstore.Option{sqlstore.WithTable("a`b")}, want: "cannot be a table's name"},
		"another table":       {prepare: altered("COMMENT ''"), opts: []sqlstore.Option{sqlstore.WithTable("other")}, want: "table other does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := testenv.MariaDB(t)
			if c.prepare != nil {
				c.prepare(t, openMySQL(t, dsn, nil, 0))
			}
			_, err := sqlstore.New(t.Context(), openMySQL(t, dsn, c.params, 0), sqlstore.MySQL, c.opts...)
			if c.want == "" && err != nil {
				t.Fatal(err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
	t.Run("no database", func(t *testing.T) {
		t.Parallel()
		cfg, err := mysql.ParseDSN(testenv.MariaDB(t))
		if err != nil {
			t.Fatal(err)
		}
		cfg.DBName = ""
		_, err = sqlstore.New(t.Context(), openMySQL(t, cfg.FormatDSN(), nil, 0), sqlstore.MySQL)
		if err == nil || !strings.Contains(err.Error(), "names no database") {
			t.Errorf("%v", err)
		}
	})
	t.Run("a user without rights", func(t *testing.T) {
		t.Parallel()
		db, dsn := newMySQL(t)
		cfg, err := mysql.ParseDSN(dsn)
		if err != nil {
			t.Fatal(err)
		}
		user := cfg.DBName[len(cfg.DBName)-20:]
		for _, query := range []string{"CREATE USER " + user, "GRANT SELECT ON " + cfg.DBName + ".* TO " + user} {
			if _, err := db.ExecContext(t.Context(), query); err != nil {
				t.Skipf("users cannot be made here: %v", err)
			}
		}
		defer func() { _, _ = db.ExecContext(context.WithoutCancel(t.Context()), "DROP USER "+user) }()
		cfg.User, cfg.Passwd = user, ""
		_, err = sqlstore.New(t.Context(), openMySQL(t, cfg.FormatDSN(), nil, 0), sqlstore.MySQL)
		if err == nil || !strings.Contains(err.Error(), "GRANT SELECT, INSERT, UPDATE, DELETE ON `"+cfg.DBName+"`") {
			t.Errorf("%v", err)
		}
	})
}

// Migrate may be run again and by many at once, under any name.
//
// Covers STO-22.
func TestMigrateByManyOnServers(t *testing.T) {
	t.Parallel()
	for _, srv := range servers() {
		t.Run(srv.name, func(t *testing.T) {
			t.Parallel()
			db, _ := srv.pool(t)
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					table := sqlstore.WithTable("Order")
					if err := sqlstore.Migrate(t.Context(), db, srv.dialect, table); err != nil {
						t.Error(err)
					}
					if _, err := sqlstore.New(t.Context(), db, srv.dialect, table); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		})
	}
}

// Two handlers that lock two rows in opposite order deadlock. The one that
// loses runs again, and nobody sees it.
//
// Covers ERR-07, STO-08.
func TestDeadlockRunsAgain(t *testing.T) {
	t.Parallel()
	for _, srv := range servers() {
		t.Run(srv.name, func(t *testing.T) {
			t.Parallel()
			db, dsn := srv.pool(t)
			for _, query := range []string{"CREATE TABLE account (id INT PRIMARY KEY, balance INT NOT NULL)", "INSERT INTO account VALUES (1, 0), (2, 0)"} {
				if _, err := db.ExecContext(t.Context(), query); err != nil {
					t.Fatal(err)
				}
			}
			s := srv.store(t, dsn, 4)
			var both sync.WaitGroup
			both.Add(2)
			transfer := func(from, to int) idempotency.Work[*sql.Tx] {
				first := true
				return func(ctx context.Context, tx *sql.Tx) (idempotency.Response, error) {
					update := func(id int) error {
						_, err := tx.ExecContext(ctx, fmt.Sprintf("UPDATE account SET balance = balance + 1 WHERE id = %d", id))
						return err
					}
					if err := update(from); err != nil {
						return idempotency.Response{}, err
					}
					if first {
						first = false
						both.Done()
						both.Wait()
					}
					if err := update(to); err != nil {
						return idempotency.Response{}, fmt.Errorf("transfer: %w", err)
					}
					return created("done"), nil
				}
			}
			var wg sync.WaitGroup
			wg.Go(func() {
				if _, err := s.Execute(t.Context(), request("a"), transfer(1, 2)); err != nil {
					t.Errorf("a: %v", err)
				}
			})
			wg.Go(func() {
				if _, err := s.Execute(t.Context(), request("b"), transfer(2, 1)); err != nil {
					t.Errorf("b: %v", err)
				}
			})
			wg.Wait()
			var least, most int
			if err := db.QueryRowContext(t.Context(), "SELECT min(balance), max(balance) FROM account").Scan(&least, &most); err != nil || least != 2 || most != 2 {
				t.Errorf("balances %d to %d, %v; want 2", least, most, err)
			}
		})
	}
}

// Two hundred requests with different keys at once do not deadlock on the
// table's gaps, at REPEATABLE READ and at SERIALIZABLE.
//
// Covers STO-08.
func TestManyKeysDoNotDeadlockOnMySQL(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"REPEATABLE-READ", "SERIALIZABLE"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			_, dsn := newMySQL(t)
			s := mysqlServer().on(t, openMySQL(t, dsn, map[string]string{"tx_isolation": "%27" + level + "%27"}, 16))
			var wg sync.WaitGroup
			for i := range 200 {
				wg.Go(func() {
					runs := 0
					_, err := s.Execute(t.Context(), request(fmt.Sprint(i)), func(context.Context, *sql.Tx) (idempotency.Response, error) {
						runs++
						return created("first"), nil
					})
					if err != nil || runs != 1 {
						t.Errorf("%v after %d runs", err, runs)
					}
				})
			}
			wg.Wait()
		})
	}
}

// An answer that the server does not take in one message is refused before it
// is sent, for good; nothing is kept.
func TestAnswerLargerThanPacketOnMySQL(t *testing.T) {
	t.Parallel()
	server := testenv.OwnMariaDB(t, "--max-allowed-packet=1M")
	db := openMySQL(t, server.DSN, nil, 0)
	fillMySQL(t, db)
	s := mysqlServer().on(t, db)
	large := func(size int) idempotency.Work[*sql.Tx] {
		return func(ctx context.Context, tx *sql.Tx) (idempotency.Response, error) {
			return created(strings.Repeat("x", size)), effect(ctx, tx, "k")
		}
	}
	_, err := s.Execute(t.Context(), request("k"), large(1<<20))
	if code, _ := codeOf(err); code != idempotency.CodeResponseTooLarge || !strings.Contains(err.Error(), "max_allowed_packet") {
		t.Errorf("%v", err)
	}
	if n := count(t, db, "k"); n != 0 {
		t.Errorf("%d effects", n)
	}
	if _, err := s.Execute(t.Context(), request("k"), large(1<<20-1<<11)); err != nil {
		t.Errorf("an answer that fits: %v", err)
	}
	if res, err := s.Execute(t.Context(), request("k"), never(t)); err != nil || len(res.Body) != 1<<20-1<<11 {
		t.Errorf("replay of %d bytes, %v", len(res.Body), err)
	}
	if _, err := s.AcquireLease(t.Context(), refundRequest(), idempotency.LeaseToken{1}); err != nil {
		t.Fatal(err)
	}
	err = s.CompleteLease(t.Context(), refundRequest(), idempotency.LeaseToken{1}, created(strings.Repeat("x", 1<<20)))
	if code, _ := codeOf(err); code != idempotency.CodeResponseTooLarge {
		t.Errorf("CompleteLease: %v", err)
	}
}

// On a server that takes no writes any more, work does not run, nothing is
// replayed, and no claim stays.
func TestReadOnlyWhileRunningOnMySQL(t *testing.T) {
	t.Parallel()
	db := openMySQL(t, testenv.OwnMariaDB(t).DSN, nil, 0)
	fillMySQL(t, db)
	s := mysqlServer().on(t, db)
	if _, err := s.Execute(t.Context(), request("before"), pay("before")); err != nil {
		t.Fatal(err)
	}
	leased, token := request("leased"), idempotency.LeaseToken{1}
	leased.Lease = time.Minute
	if _, err := s.AcquireLease(t.Context(), leased, token); err != nil {
		t.Fatal(err)
	}
	if err := s.CompleteLease(t.Context(), leased, token, created("leased")); err != nil {
		t.Fatal(err)
	}
	readOnly := func(value string) {
		if _, err := db.ExecContext(t.Context(), "SET GLOBAL read_only = "+value); err != nil {
			t.Fatal(err)
		}
	}
	readOnly("ON")
	for _, key := range []string{"k", "k", "before"} {
		_, err := s.Execute(t.Context(), request(key), never(t))
		if code, _ := codeOf(err); code != idempotency.CodeUnavailable || !strings.Contains(err.Error(), "connect to the primary") {
			t.Errorf("%s: %v", key, err)
		}
	}
	if _, err := s.AcquireLease(t.Context(), leased, token); !errors.Is(err, idempotency.ErrUnavailable) {
		t.Errorf("under a lease: %v, want %v", err, idempotency.ErrUnavailable)
	}
	if _, err := s.Transact(t.Context(), never(t)); !errors.Is(err, idempotency.ErrUnavailable) {
		t.Errorf("without a key: %v, want %v", err, idempotency.ErrUnavailable)
	}
	readOnly("OFF")
	if _, err := s.Execute(t.Context(), request("k"), pay("k")); err != nil {
		t.Errorf("writable again: %v", err)
	}
	if res, err := s.Execute(t.Context(), request("before"), never(t)); err != nil || !res.Replayed {
		t.Errorf("replay: %t, %v", res.Replayed, err)
	}
	if n := count(t, db, "k"); n != 1 {
		t.Errorf("%d effects", n)
	}
}

// A record that others see while its COMMIT is not answered, and so perhaps not on
// the disk, is replayed when the COMMIT is over, or after a moment.
//
// Covers CRA-16.
func TestReplayWaitsForCommitOnMySQL(t *testing.T) {
	t.Parallel()
	for _, ends := range []bool{true, false} {
		t.Run(fmt.Sprintf("Ends=%t", ends), func(t *testing.T) {
			t.Parallel()
			srv := mysqlServer()
			db, dsn := srv.pool(t)
			p, through := srv.proxied(t, dsn)
			committing := srv.store(t, through, 1)
			committed := p.on(srv.commit, holdAnswer)
			go func() { _, _ = committing.Execute(t.Context(), request("k"), srv.work("k")) }()
			<-committed
			// The record stays young, however slow this machine is.
			if _, err := db.ExecContext(t.Context(), "UPDATE idempotency_records SET created_at = created_at + 3600000"); err != nil {
				t.Fatal(err)
			}
			replayed := make(chan error, 1)
			other := srv.on(t, db)
			go func() {
				res, err := other.Execute(t.Context(), request("k"), never(t))
				if err == nil && !res.Replayed {
					err = errors.New("not replayed")
				}
				replayed <- err
			}()
			for waits := false; !waits; {
				select {
				case err := <-replayed:
					t.Fatalf("answered before COMMIT was: %v", err)
				default:
				}
				if err := db.QueryRowContext(t.Context(), "SELECT count(*) > 0 FROM information_schema.processlist WHERE db = DATABASE() AND state = 'User lock'").Scan(&waits); err != nil {
					t.Fatal(err)
				}
			}
			if ends {
				p.stop()
			}
			if err := <-replayed; err != nil {
				t.Error(err)
			}
		})
	}
}

// A sweep of several batches deletes every expired record and no other, by the
// index. While it is at work another sweeper leaves the work to it.
//
// Covers EXP-10.
func TestSweepOnMySQL(t *testing.T) {
	t.Parallel()
	db, dsn := newMySQL(t)
	other := mysqlServer().on(t, db)
	if _, err := db.ExecContext(t.Context(), `INSERT INTO idempotency_records SELECT UNHEX(MD5(seq)), 's', 'o', seq, '', 200, '', 'answer', 0, IF(seq = 1, 1 << 60, seq), NULL, NULL FROM seq_1_to_2500`); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "ANALYZE TABLE idempotency_records"); err != nil {
		t.Fatal(err)
	}
	due, purge := other.SweepStatements()[0], other.SweepStatements()[1]
	ids := strings.Repeat("x'00112233445566778899aabbccddeeff', ", 999) + "x'ff'"
	for statement, key := range map[string]string{
		due + "1000":                           "idempotency_records_expires_at",
		strings.ReplaceAll(purge, "$ids", ids): "PRIMARY",
	} {
		var plan string
		if err := db.QueryRowContext(t.Context(), "EXPLAIN FORMAT=JSON "+statement).Scan(&plan); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(plan, `"access_type": "range"`) || !strings.Contains(plan, `"key": "`+key+`"`) || strings.Contains(plan, "filesort") {
			t.Errorf("plan: %s", plan)
		}
	}
	p, through := mysqlServer().proxied(t, dsn)
	for range 3 { // batches
		p.before("WHERE id IN (x", func() {
			if n, err := other.Sweep(t.Context()); n != 0 || err != nil {
				t.Errorf("the other sweeper: %d, %v", n, err)
			}
		})
	}
	if n, err := mysqlServer().store(t, through, 2).Sweep(t.Context()); n != 2499 || err != nil {
		t.Errorf("%d records swept, %v; want 2499", n, err)
	}
}

// dialled counts round trips over all connections to MySQL: a write that
// follows a read, or is the first.
type dialled struct {
	mu    sync.Mutex
	trips int
}

func (d *dialled) during(do func()) int {
	d.mu.Lock()
	before := d.trips
	d.mu.Unlock()
	do()
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.trips - before
}

type countingConn struct {
	net.Conn
	*dialled
	writing bool
}

func (c *countingConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	if !c.writing {
		c.trips++
	}
	c.writing = true
	c.mu.Unlock()
	return c.Conn.Write(b)
}

func (c *countingConn) Read(b []byte) (int, error) {
	c.mu.Lock()
	c.writing = false
	c.mu.Unlock()
	return c.Conn.Read(b)
}

// What a handler has left on a session that it took out of its transaction,
// here a table lock that keeps every other table out, does not meet the next
// request: the session goes.
//
// Covers CRA-14.
func TestSpoiledSessionIsNotReusedOnMySQL(t *testing.T) {
	t.Parallel()
	_, dsn := newMySQL(t)
	db := openMySQL(t, dsn, nil, 1)
	s := mysqlServer().on(t, db)
	_, err := s.Execute(t.Context(), request("a"), func(ctx context.Context, tx *sql.Tx) (idempotency.Response, error) {
		_, err := tx.ExecContext(ctx, "LOCK TABLES effects READ")
		return created("a"), err
	})
	if code, _ := codeOf(err); code != idempotency.CodeTransactionEnded {
		t.Errorf("%v", err)
	}
	if _, err := s.Execute(t.Context(), request("b"), pay("b")); err != nil {
		t.Errorf("the next request: %v", err)
	}
}
