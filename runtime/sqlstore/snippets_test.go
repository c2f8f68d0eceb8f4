package sqlstore_test

import (
	"database/sql"
	"os"
	"strings"
	"testing"
)

// The jobs that docs/migrations.md quotes delete expired records and no others.
//
// Covers EXP-09.
func TestSweepJobsOfDocumentation(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, db *sql.DB, statements ...string) {
		t.Helper()
		for _, statement := range statements {
			if _, err := db.ExecContext(t.Context(), statement); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
	}
	left := func(t *testing.T, db *sql.DB) (n int) {
		t.Helper()
		if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM idempotency_records").Scan(&n); err != nil || n == 0 {
			t.Fatalf("%d records left, %v; want the one that is live", n, err)
		}
		return n
	}
	t.Run("MySQL", func(t *testing.T) {
		t.Parallel()
		event := between(t, job(t, "mysql"), "DELIMITER //\n", "//\nDELIMITER ;")
		db, _ := newMySQL(t)
		if _, err := db.ExecContext(t.Context(), "SET GLOBAL event_scheduler = ON"); err != nil {
			t.Skipf("needs a server whose event scheduler it may start: %v", err)
		}
		run(t, db,
			"INSERT INTO idempotency_records SELECT UNHEX(MD5(seq)), 's', 'o', seq, '', 200, '', 'answer', 0, IF(seq = 1, 1 << 60, seq), NULL, NULL FROM seq_1_to_2500",
			event)
		for left(t, db) > 1 { // the first run begins when the event is created
		}
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		procedure := between(t, job(t, "postgresql"), "", "SELECT cron.schedule")
		db, _ := newPostgreSQL(t, "pgx")
		run(t, db,
			`INSERT INTO idempotency_records SELECT gen_random_uuid(), now(), CASE i WHEN 1 THEN 'infinity' ELSE now() - i * interval '1 s' END, 200, 's', 'o', i, '', '', 'answer'
				FROM generate_series(1, 2500) AS i`,
			procedure,
			"CALL idempotency_sweep()")
		if n := left(t, db); n != 1 {
			t.Errorf("%d records left; want the one that is live", n)
		}
	})
}

// job returns a database's job.
func job(t *testing.T, database string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/sweep/" + database + ".sql")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// between returns what stands between two texts; an empty one is the beginning
// or the end.
func between(t *testing.T, s, before, after string) string {
	t.Helper()
	_, rest, found := strings.Cut(s, before)
	if end := strings.Index(rest, after); found && after != "" && end >= 0 {
		return rest[:end]
	}
	if !found || after != "" {
		t.Fatalf("no text between %q and %q", before, after)
	}
	return rest
}
