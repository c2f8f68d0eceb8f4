package testenv

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// EnvMariaDB holds the data source name, in the form of
// github.com/go-sql-driver/mysql, of a MariaDB server whose user may create
// databases.
const EnvMariaDB = "IDEM_TEST_MARIADB"

// processMariaDB is the one MariaDB of this test process, as processPostgres is
// the one PostgreSQL.
var processMariaDB = sync.OnceValues(func() (string, error) {
	dsn := os.Getenv(EnvMariaDB)
	if dsn == "" {
		server, err := startMariaDB()
		if err != nil {
			return "", err
		}
		dsn = server.dsn
	}
	return dsn, said("MariaDB", func() (string, error) { return mysqlVariable(dsn, "version") })
})

// MariaDB returns the data source name of a new, empty database that is dropped
// when the test ends. All tests of a process share one server, whose settings
// trade durability for speed.
func MariaDB(tb testing.TB) string {
	tb.Helper()
	server, err := processMariaDB()
	if err != nil {
		missing(tb, "MariaDB", "install mariadb-server-core and mariadb-client-core, or set "+EnvMariaDB+" to the data source name of a server whose user may create databases", err)
	}
	return newMySQLDatabase(tb, server)[0]
}

// MariaDBServer is a server of one test, which can crash.
type MariaDBServer struct {
	// DSN is that of a database on the server.
	DSN string

	dsn     string // without the database
	dir     string
	argv    []string
	process *process
}

// OwnMariaDB starts a server that ends with the test, with more settings of its
// command line. It writes through to the disk what a crash must not lose.
func OwnMariaDB(tb testing.TB, settings ...string) *MariaDBServer {
	tb.Helper()
	server, err := startMariaDB(append([]string{"--innodb-flush-log-at-trx-commit=1"}, settings...)...)
	if err != nil {
		missing(tb, "a MariaDB of its own", "install mariadb-server-core and mariadb-client-core", err)
	}
	tb.Cleanup(func() {
		server.process.stop()
		os.RemoveAll(server.dir)
	})
	const name = "idem_test"
	if err := executeMySQL(server.dsn, "CREATE DATABASE "+name); err != nil {
		tb.Fatalf("testenv: create a database for this test: %v", err)
	}
	server.DSN = withMySQLDatabase(server.dsn, name)
	return server
}

// Crash kills the server at once (SIGKILL).
func (s *MariaDBServer) Crash(tb testing.TB) {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, "pid"))
	if err != nil {
		tb.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		tb.Fatal(err)
	}
	server, err := os.FindProcess(pid)
	if err != nil {
		tb.Fatal(err)
	}
	if err := server.Signal(syscall.SIGKILL); err != nil {
		tb.Fatal(err)
	}
	<-s.process.exited
}

// Restart starts the server again, on the same port and data.
func (s *MariaDBServer) Restart(tb testing.TB) {
	tb.Helper()
	process, err := supervise(s.dir, "KILL", s.argv)
	if err != nil {
		tb.Fatal(err)
	}
	s.process = process
	if err := process.waitReady(func(ctx context.Context) error { return pingMySQL(ctx, s.dsn) }); err != nil {
		tb.Fatal(err)
	}
}

// startMariaDB starts a server from installed programs, else from Debian's
// packages. The error says what was tried.
func startMariaDB(settings ...string) (*MariaDBServer, error) {
	program, err := mariaDBProgram()
	if err != nil {
		return nil, err
	}
	const attempts = 3 // between finding a free port and listening on it another program can take it
	for range attempts {
		var server *MariaDBServer
		if server, err = startMariaDBOnce(program, settings); err == nil {
			return server, nil
		}
	}
	return nil, fmt.Errorf("start MariaDB, %d attempts: %w", attempts, err)
}

func startMariaDBOnce(program string, settings []string) (*MariaDBServer, error) {
	dir, err := makeDir()
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	s := &MariaDBServer{dsn: mariaDBDSN(port), dir: dir}
	if s.argv, err = mariaDBCommand(program, dir, port); err == nil {
		s.argv = append(s.argv, settings...)
		s.process, err = supervise(dir, "KILL", s.argv)
	}
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	return s, s.process.waitReady(func(ctx context.Context) error { return pingMySQL(ctx, s.dsn) })
}

// mariaDBCommand makes a new data directory and returns the server's command.
func mariaDBCommand(program, dir, port string) ([]string, error) {
	data := filepath.Join(dir, "data")
	install := command(dir, "mariadb-install-db", "--no-defaults", "--auth-root-authentication-method=normal",
		"--skip-test-db", "--datadir="+data)
	if out, err := install.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("mariadb-install-db: %w\n%s", err, out)
	}
	return []string{
		program, "--no-defaults", "--datadir=" + data, "--bind-address=127.0.0.1", "--port=" + port,
		"--socket=" + filepath.Join(dir, "socket"), "--pid-file=" + filepath.Join(dir, "pid"), "--tmpdir=" + dir,
		"--max-connections=500", "--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=64M",
		"--innodb-log-file-size=32M", "--default-time-zone=+13:00",
	}, nil
}

func mariaDBDSN(port string) string { return "root@tcp(127.0.0.1:" + port + ")/" }

func pingMySQL(ctx context.Context, dsn string) error {
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	return db.PingContext(ctx)
}

// newMySQLDatabase makes a database that is dropped when the test ends, on a
// server that has several names.
func newMySQLDatabase(tb testing.TB, servers ...string) []string {
	tb.Helper()
	name := "idem_test_" + strings.ToLower(rand.Text())
	if err := executeMySQL(servers[0], "CREATE DATABASE "+name); err != nil {
		tb.Fatalf("testenv: create a database for this test: %v", err)
	}
	tb.Cleanup(func() {
		if err := executeMySQL(servers[0], "DROP DATABASE "+name); err != nil {
			tb.Errorf("testenv: drop this test's database: %v", err)
		}
	})
	var dsns []string
	for _, s := range servers {
		dsns = append(dsns, withMySQLDatabase(s, name))
	}
	return dsns
}

func executeMySQL(dsn, statement string) error {
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(context.Background(), statement)
	return err
}

// withMySQLDatabase returns dsn, which can be parsed, with a database's name.
func withMySQLDatabase(dsn, name string) string {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return dsn // the driver will say so
	}
	cfg.DBName = name
	return cfg.FormatDSN()
}

func mariaDBProgram() (string, error) {
	if program := findMariaDB(); program != "" {
		return program, nil
	}
	for _, pkg := range []string{"mariadb-server-core", "mariadb-client-core"} {
		if err := install(pkg); err != nil {
			return "", fmt.Errorf("%w: no mariadbd found, and %w", errUnavailable, err)
		}
	}
	if program := findMariaDB(); program != "" {
		return program, nil
	}
	return "", errors.New("package mariadb-server-core is installed, but its programs are not found")
}

// findMariaDB returns the server's program if what makes its data directory is
// there as well.
func findMariaDB() string {
	if _, err := exec.LookPath("mariadb-install-db"); err != nil {
		return ""
	}
	// Debian keeps it where the PATH of ordinary accounts does not look.
	for _, name := range []string{"mariadbd", "/usr/sbin/mariadbd", "/opt/homebrew/bin/mariadbd"} {
		if program, err := exec.LookPath(name); err == nil {
			return program
		}
	}
	return ""
}
