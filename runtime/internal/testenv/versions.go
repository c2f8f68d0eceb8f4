package testenv

import (
	"context"
	"database/sql"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

// Say prints which release of a server, or of a library that is one, the tests of
// this process use. Reports on test runs collect these lines.
func Say(server, version string) {
	// Not to the standard output, which examples compare.
	fmt.Fprintf(os.Stderr, "testenv: tests use %s %s\n", server, version)
}

// said says the version of a server that has started.
func said(server string, version func() (string, error)) error {
	v, err := version()
	if err != nil {
		return fmt.Errorf("ask %s for its version: %w", server, err)
	}
	Say(server, v)
	return nil
}

func postgresVersion(dsn string) (version string, err error) {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	err = conn.QueryRow(ctx, "SHOW server_version").Scan(&version)
	version, _, _ = strings.Cut(version, " ") // what a distribution adds
	return version, err
}

func redisVersion(addr string) (string, error) {
	client := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
	defer func() { _ = client.Close() }()
	info, err := client.InfoMap(context.Background(), "server").Result()
	return info["Server"]["redis_version"], err
}

// mysqlVariable returns the beginning of a variable that holds a version.
func mysqlVariable(dsn, name string) (version string, err error) {
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		return "", err
	}
	defer db.Close()
	err = db.QueryRowContext(context.Background(), "SELECT variable_value FROM information_schema.global_variables WHERE variable_name = '"+name+
		"' UNION SELECT variable_value FROM information_schema.global_status WHERE variable_name = '"+name+"'").Scan(&version)
	version, _, _ = strings.Cut(version, "-")
	version, _, _ = strings.Cut(version, "(")
	return version, err
}

// kumoVersion reads what the emulator's program was built from.
func kumoVersion(program string) (string, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return "", err
	}
	for _, dep := range info.Deps {
		if filepath.Base(dep.Path) == "kumo" {
			return strings.TrimPrefix(dep.Version, "v"), nil
		}
	}
	return "", fmt.Errorf("%s is not built with kumo", program)
}
