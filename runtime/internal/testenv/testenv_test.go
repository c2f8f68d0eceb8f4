package testenv

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// envHelper makes the test binary act as a process that starts a server.
const envHelper = "IDEM_TESTENV_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(envHelper) != "" {
		startAndHang()
	}
	os.Exit(m.Run())
}

// startAndHang starts a server, says where, and waits to be killed.
func startAndHang() {
	server, err := StartPostgres(Fast)
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	fmt.Println(server.DSN, server.process.dir)
	select {}
}

func TestPostgresGivesEachTestItsOwnDatabase(t *testing.T) {
	t.Parallel()
	first, second := connect(t, Postgres(t)), connect(t, Postgres(t))
	for _, conn := range []*pgx.Conn{first, second} {
		if _, err := conn.Exec(t.Context(), "CREATE TABLE only_here (id int)"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPostgresDropsTheDatabaseUnderOpenConnections(t *testing.T) { //nolint:tparallel // looks at what its subtest leaves
	t.Parallel()
	var dsn string
	t.Run("inner", func(t *testing.T) {
		dsn = Postgres(t)
		conn, err := pgx.Connect(t.Context(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	if t.Failed() || dsn == "" {
		return
	}
	if _, err := pgx.Connect(t.Context(), dsn); err == nil {
		t.Error("the database of a finished test still takes connections")
	}
}

func TestPgBouncerSharesServerConnections(t *testing.T) {
	t.Parallel()
	dsn := PgBouncer(t, Postgres(t))
	const clients, poolSize = 12, 8
	pids := map[int32]bool{}
	for range clients {
		var pid int32
		if err := connect(t, dsn).QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
			t.Fatal(err)
		}
		pids[pid] = true
	}
	if len(pids) > poolSize {
		t.Errorf("%d idle clients hold %d server connections: not transaction mode", clients, len(pids))
	}
}

// A killed process cannot clean up after itself: the watcher must.
func TestServerEndsWithAKilledProcess(t *testing.T) {
	t.Parallel()
	Postgres(t) // skips where no server is to be had
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	helper := exec.Command(self)
	helper.Env = append(os.Environ(), envHelper+"=1", EnvPostgres+"=")
	stdout, err := helper.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := helper.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if killErr := helper.Process.Kill(); killErr != nil {
		t.Fatal(killErr)
	}
	_ = helper.Wait() // it was killed
	dsn, dir, found := strings.Cut(strings.TrimSpace(line), " ")
	if err != nil || !found || dsn == "error:" {
		if os.Getenv(EnvPostgres) != "" {
			t.Skipf("the server of %s is used and none can be started here: %s", EnvPostgres, line)
		}
		t.Fatalf("helper said %q, %v", line, err)
	}

	eventually(t, "the server's directory is removed", func() bool {
		_, err := os.Stat(dir)
		return errors.Is(err, os.ErrNotExist)
	})
	if _, err := pgx.Connect(t.Context(), dsn); err == nil {
		t.Error("the server outlives the killed process that started it")
	}
}

func TestServerThatFailsToStartShowsItsLog(t *testing.T) {
	t.Parallel()
	dir, err := makeDir()
	if err != nil {
		t.Skip(err)
	}
	p, err := supervise(dir, "QUIT", []string{"/bin/sh", "-c", "echo no such disk; exit 1"})
	if err != nil {
		t.Fatal(err)
	}
	err = p.waitReady(func(context.Context) error { return errors.New("nobody listens") })
	if err == nil || !strings.Contains(err.Error(), "no such disk") {
		t.Errorf("error %v, want one with the server's log", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("directory of the failed server is left behind: %v", err)
	}
}

// recorder is a test that notes how it was ended.
type recorder struct {
	testing.TB
	skipped, failed string
}

func (r *recorder) Helper() {}
func (r *recorder) Skipf(format string, args ...any) {
	r.skipped = fmt.Sprintf(format, args...)
}
func (r *recorder) Fatalf(format string, args ...any) {
	if r.skipped == "" {
		r.failed = fmt.Sprintf(format, args...)
	}
}

func TestMissingServerSkipsUnlessRequired(t *testing.T) {
	absent := fmt.Errorf("%w: no docker command", errUnavailable)
	tests := map[string]struct {
		require  string
		err      error
		wantSkip bool
	}{
		"absent, on a laptop":        {"", absent, true},
		"absent, on a build server":  {"all", absent, false},
		"here but broken, anywhere":  {"", errors.New("initdb: disk full"), false},
		"here but broken, on builds": {"all", errors.New("initdb: disk full"), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Setenv(EnvRequire, tt.require)
			r := &recorder{TB: t}
			missing(r, "PostgreSQL", "install it", tt.err)
			said := r.failed
			if tt.wantSkip {
				said = r.skipped
			}
			for _, part := range []string{"PostgreSQL", tt.err.Error(), "install it"} {
				if !strings.Contains(said, part) {
					t.Errorf("said %q (skip %q, failure %q), want it to name %q", said, r.skipped, r.failed, part)
				}
			}
		})
	}
}

func TestWithDatabase(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string]string{
		"postgres://u:p@127.0.0.1:5/postgres?sslmode=disable": "postgres://u:p@127.0.0.1:5/fresh?sslmode=disable",
		"postgresql://u@127.0.0.1:5":                          "postgresql://u@127.0.0.1:5/fresh",
		"host=127.0.0.1 dbname=postgres user=u":               "host=127.0.0.1 dbname=postgres user=u dbname=fresh",
	} {
		got, err := withDatabase(dsn, "fresh")
		if err != nil || got != want {
			t.Errorf("withDatabase(%q) = %q, %v, want %q", dsn, got, err, want)
			continue
		}
		config, err := pgx.ParseConfig(got)
		if err != nil || config.Database != "fresh" {
			t.Errorf("pgx reads %q as database %q, %v", got, config.Database, err)
		}
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

// eventually waits for a condition that another process brings about.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// A package of npm is whole for every process that asks, also for those that
// fetch it at the same time, and stays.
func TestNpmPackageIsKept(t *testing.T) {
	t.Parallel()
	Dynalite(t) // skips where npm is not to be had
	cache, err := makeDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(cache) })
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			dir, err := npmPackageIn(cache, dynalitePackage)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := os.Stat(filepath.Join(dir, "node_modules", "dynalite", "package.json")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	entries, err := os.ReadDir(cache)
	if err != nil || len(entries) != 1 {
		t.Errorf("the cache holds %v, %v; want the package alone", entries, err)
	}
}
