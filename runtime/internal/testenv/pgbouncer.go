package testenv

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

// PgBouncer starts a PgBouncer in transaction mode in front of the database
// that dsn names, and returns the connection string that goes through it.
// It holds at most 8 server connections and ends with the test.
func PgBouncer(tb testing.TB, dsn string) string {
	tb.Helper()
	program, err := pgbouncerProgram()
	if err != nil {
		missing(tb, "PgBouncer", "install pgbouncer", err)
	}
	sayPgBouncer(program)
	through, process, err := startPgBouncer(program, dsn)
	if err != nil {
		tb.Fatalf("testenv: start PgBouncer: %v", err)
	}
	tb.Cleanup(process.stop)
	return through
}

// sayPgBouncer says the version once.
func sayPgBouncer(program string) {
	pgbouncerSaid.Do(func() {
		out, err := exec.CommandContext(context.Background(), program, "--version").Output()
		version, _, _ := strings.Cut(strings.TrimPrefix(string(out), "PgBouncer "), "\n")
		if err != nil {
			version = "that does not tell its version"
		}
		Say("PgBouncer", version)
	})
}

var pgbouncerSaid sync.Once

func startPgBouncer(program, dsn string) (string, *process, error) {
	server, err := pgx.ParseConfig(dsn)
	if err != nil {
		return "", nil, err
	}
	dir, err := makeDir()
	if err != nil {
		return "", nil, err
	}
	port, err := freePort()
	if err != nil {
		os.RemoveAll(dir)
		return "", nil, err
	}
	target := fmt.Sprintf("host=%s port=%d user=%s", quote(server.Host), server.Port, quote(server.User))
	if server.Password != "" {
		target += " password=" + quote(server.Password)
	}
	config := filepath.Join(dir, "pgbouncer.ini")
	text := fmt.Sprintf(`[databases]
* = %s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %s
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 8
max_client_conn = 500
server_reset_query =
ignore_startup_parameters = extra_float_digits
`, target, port)
	// The account that PgBouncer runs as must be able to read it; the directory
	// itself is closed to everyone else.
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		os.RemoveAll(dir)
		return "", nil, err
	}
	process, err := supervise(dir, "KILL", []string{program, config})
	if err != nil {
		os.RemoveAll(dir)
		return "", nil, err
	}
	through := (&url.URL{
		Scheme:   "postgres",
		User:     url.User(server.User),
		Host:     "127.0.0.1:" + port,
		Path:     "/" + server.Database,
		RawQuery: "sslmode=disable",
	}).String()
	err = process.waitReady(func(ctx context.Context) error {
		conn, err := pgx.Connect(ctx, through)
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	})
	if err != nil {
		return "", nil, err
	}
	return through, process, nil
}

// quote writes a value of PgBouncer's connection strings.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

func pgbouncerProgram() (string, error) {
	if program := findPgBouncer(); program != "" {
		return program, nil
	}
	if err := install("pgbouncer"); err != nil {
		return "", fmt.Errorf("%w: no pgbouncer found, and %w", errUnavailable, err)
	}
	if program := findPgBouncer(); program != "" {
		return program, nil
	}
	return "", errors.New("package pgbouncer is installed, but its program is not found")
}

func findPgBouncer() string {
	// Debian keeps it where the PATH of ordinary accounts does not look.
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer", "/opt/homebrew/bin/pgbouncer"} {
		if program, err := exec.LookPath(name); err == nil {
			return program
		}
	}
	return ""
}
