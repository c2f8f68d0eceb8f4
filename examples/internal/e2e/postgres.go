package e2e

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Postgres returns the URL of a fresh database on the server that
// IDEM_TEST_POSTGRES names, and drops it when the test ends. make test starts
// such a server. Without one the test is skipped, or fails where
// IDEM_REQUIRE=all demands it.
func Postgres(t *testing.T) string {
	t.Helper()
	server := os.Getenv("IDEM_TEST_POSTGRES")
	if server == "" {
		const why = "IDEM_TEST_POSTGRES names no server; run make test, or set it to postgres://..."
		if os.Getenv("IDEM_REQUIRE") == "all" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	name := fmt.Sprintf("e2e_%d_%d", os.Getpid(), time.Now().UnixNano())
	execute := func(sql string) error {
		ctx := context.WithoutCancel(t.Context())
		conn, err := pgx.Connect(ctx, server)
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		_, err = conn.Exec(ctx, sql)
		return err
	}
	if err := execute("CREATE DATABASE " + name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := execute("DROP DATABASE " + name + " WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	})
	config, err := pgx.ParseConfig(server)
	if err != nil {
		t.Fatal(err)
	}
	return (&url.URL{
		Scheme: "postgres",
		User:   url.UserPassword(config.User, config.Password),
		Host:   fmt.Sprintf("%s:%d", config.Host, config.Port),
		Path:   "/" + name,
	}).String()
}
