package sqlstore_test

import (
	"context"
	"database/sql"
	"log"
	"time"

	_ "github.com/go-sql-driver/mysql"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/sqlstore"
)

// On MySQL and MariaDB the store needs no settings of the driver.
func Example_mySQL() { //nolint:testableexamples // needs a server
	ctx := context.Background()
	db, err := sql.Open("mysql", "app:secret@tcp(db.internal:3306)/shop")
	if err != nil {
		log.Fatal(err)
	}
	if err := sqlstore.Migrate(ctx, db, sqlstore.MySQL); err != nil { // or a migration of yours
		log.Fatal(err)
	}
	store, err := sqlstore.New(ctx, db, sqlstore.MySQL)
	if err != nil {
		log.Fatal(err) // says what to do
	}
	go idempotency.RunSweeper(ctx, store, time.Hour, nil)

	// NewIdempotentHandler takes the store.
}
