package pgxstore_test

import (
	"context"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/pgxstore"
)

// A server opens its pool and the store on it, and sweeps in the background.
func ExampleNew() { //nolint:testableexamples // it needs a server
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	store, err := pgxstore.New(ctx, pool)
	if err != nil {
		log.Fatal(err) // says what to do, such as to apply Migrate first
	}
	go idempotency.RunSweeper(ctx, store, time.Hour, slog.Default())

	// Generated servers take the store as it is:
	//	handler := api.NewIdempotentHandler(server, store, scope)
	var _ idempotency.Store[pgx.Tx] = store
}

// A deployment creates the table before the servers start.
func ExampleMigrate() { //nolint:testableexamples // as above
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	err = pgxstore.Migrate(ctx, pool)
	pool.Close()
	if err != nil {
		log.Fatal(err)
	}
}
