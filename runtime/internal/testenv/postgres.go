package testenv

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// Durability says what a server does at COMMIT.
type Durability int

const (
	// Fast writes nothing through to the disk: right for tests, since the
	// server never outlives the machine's memory.
	Fast Durability = iota
	// Durable keeps PostgreSQL's defaults, as benchmarks need.
	Durable
)

// Server is a PostgreSQL started by this process.
type Server struct {
	// DSN is the superuser's connection string.
	DSN string

	process *process
}

// Stop ends the server and removes its data. Without it, both happen when this
// process ends.
func (s *Server) Stop() { s.process.stop() }

// dockerImage is what runs where no PostgreSQL is installed.
const dockerImage = "postgres:17-alpine"

// StartPostgres starts a server from installed programs, else from Debian's
// packages, else with Docker. The error says what was tried.
func StartPostgres(durability Durability) (*Server, error) {
	bin, errBin := postgresBin()
	if errBin == nil {
		return startInstalled(bin, durability)
	}
	if errDocker := dockerUsable(); errDocker != nil {
		return nil, fmt.Errorf("%w: %w; %w", errUnavailable, errBin, errDocker)
	}
	return startDocker(durability)
}

// startInstalled makes a new data directory and runs the server on it.
func startInstalled(bin string, durability Durability) (*Server, error) {
	return startOnFreePort(func(dir, port, name string) ([]string, error) {
		data := filepath.Join(dir, "data")
		initdb := command(dir, filepath.Join(bin, "initdb"),
			"-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
		if out, err := initdb.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("initdb: %w\n%s", err, out)
		}
		server := []string{filepath.Join(bin, "postgres"), "-D", data, "-p", port,
			"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="}
		return append(server, settings(name, durability)...), nil
	})
}

// startDocker runs the server as an attached container: it ends with the
// docker command.
func startDocker(durability Durability) (*Server, error) {
	return startOnFreePort(func(_, port, name string) ([]string, error) {
		container := []string{"docker", "run", "--rm", "-e", "POSTGRES_HOST_AUTH_METHOD=trust",
			"-p", "127.0.0.1:" + port + ":5432", dockerImage}
		return append(container, settings(name, durability)...), nil
	})
}

func settings(name string, durability Durability) []string {
	s := []string{"-c", "cluster_name=" + name, "-c", "max_connections=300"}
	if durability == Fast {
		s = append(s, "-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off")
	}
	return s
}

// startOnFreePort runs the command that prepare returns. Between finding a free
// port and listening on it another program can take the port: then the next one
// is tried.
func startOnFreePort(prepare func(dir, port, name string) ([]string, error)) (*Server, error) {
	const attempts = 3
	var err error
	for range attempts {
		var server *Server
		if server, err = startOnce(prepare); err == nil {
			return server, nil
		}
	}
	return nil, fmt.Errorf("start PostgreSQL, %d attempts: %w", attempts, err)
}

func startOnce(prepare func(dir, port, name string) ([]string, error)) (*Server, error) {
	dir, err := makeDir()
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	name := "idemgen_" + rand.Text()
	argv, err := prepare(dir, port, name)
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	process, err := supervise(dir, "QUIT", argv)
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	dsn := fmt.Sprintf("postgres://postgres@127.0.0.1:%s/postgres?sslmode=disable", port)
	if err := process.waitReady(func(ctx context.Context) error { return isServer(ctx, dsn, name) }); err != nil {
		return nil, err
	}
	return &Server{DSN: dsn, process: process}, nil
}

// isServer tells whether the server at dsn is the one started under name, and
// not another program's that took the port first.
func isServer(ctx context.Context, dsn, name string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	var got string
	if err := conn.QueryRow(ctx, "SHOW cluster_name").Scan(&got); err != nil {
		return err
	}
	if got != name {
		return fmt.Errorf("port taken by another server (cluster_name %q)", got)
	}
	return nil
}

// postgresBin returns the directory that holds initdb and postgres.
func postgresBin() (string, error) {
	if dir := findPostgresBin(); dir != "" {
		return dir, nil
	}
	if err := install("postgresql"); err != nil {
		return "", fmt.Errorf("no initdb and postgres found, and %w", err)
	}
	if dir := findPostgresBin(); dir != "" {
		return dir, nil
	}
	return "", errors.New("package postgresql is installed, but no initdb and postgres are found")
}

// findPostgresBin looks where Debian, Homebrew and pg_config say, newest
// version first.
func findPostgresBin() string {
	var candidates []string
	if out, err := exec.CommandContext(context.Background(), "pg_config", "--bindir").Output(); err == nil {
		candidates = append(candidates, string(out[:max(len(out)-1, 0)]))
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin",
		"/usr/pgsql-*/bin",
		"/opt/homebrew/opt/postgresql*/bin",
		"/usr/local/opt/postgresql*/bin",
		"/Applications/Postgres.app/Contents/Versions/latest/bin",
	} {
		found, _ := filepath.Glob(pattern) // the patterns are well-formed
		slices.Reverse(found)
		candidates = append(candidates, found...)
	}
	for _, dir := range candidates {
		_, errInit := os.Stat(filepath.Join(dir, "initdb"))
		_, errServer := os.Stat(filepath.Join(dir, "postgres"))
		if errInit == nil && errServer == nil {
			return dir
		}
	}
	return ""
}

// dockerUsable tells why Docker cannot be used, or nil.
func dockerUsable() error {
	if _, err := exec.LookPath("docker"); err != nil {
		return errors.New("no docker command")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := exec.CommandContext(ctx, "docker", "info").Run(); err != nil {
		return fmt.Errorf("no Docker engine answers (docker info: %w)", err)
	}
	return nil
}
