package testenv_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/idemgen/idemgen/runtime/internal/testenv"
)

func TestPostgresGivesEachTestItsOwnDatabase(t *testing.T) {
	t.Parallel()
	first, second := connect(t, testenv.Postgres(t)), connect(t, testenv.Postgres(t))
	exec(t, first, "CREATE TABLE only_here (id int)")
	exec(t, second, "CREATE TABLE only_here (id int)")
}

func TestPgBouncerSharesServerConnections(t *testing.T) {
	t.Parallel()
	dsn := testenv.PgBouncer(t, testenv.Postgres(t))
	pids := map[int32]bool{}
	for range 12 {
		conn := connect(t, dsn)
		var pid int32
		if err := conn.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
			t.Fatal(err)
		}
		pids[pid] = true
	}
	if len(pids) > 8 {
		t.Errorf("12 idle clients hold %d server connections: PgBouncer is not in transaction mode", len(pids))
	}
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func exec(t *testing.T, conn *pgx.Conn, statement string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}
