// Booking is two services, each with an API and a database of its own: bookings
// calls charges inside a handler, and a booking that is repeated after a crash
// charges once. Run them with: go run ./examples/booking -serve charges, and
// go run ./examples/booking -serve bookings
package main

// Each idemgen.yaml says what is generated, from the openapi.yaml beside it.
//go:generate go run github.com/idemgen/idemgen/cmd/idemgen -config bookings/idemgen.yaml
//go:generate go run github.com/idemgen/idemgen/cmd/idemgen -config charges/idemgen.yaml

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/sqlstore"
	_ "modernc.org/sqlite"
)

func main() {
	service := flag.String("serve", "", "the service to be: bookings (on 127.0.0.1:8080) or charges (on 127.0.0.1:8081)")
	dir := flag.String("dir", ".", "directory of the service's SQLite file, which is made if missing")
	work := flag.Duration("work", 0, "how long a booking goes on after its charge, to have time to kill it")
	flag.Parse()
	if err := run(*service, *dir, *work); err != nil {
		fmt.Fprintln(os.Stderr, "booking:", err)
		os.Exit(1)
	}
}

func run(service, dir string, work time.Duration) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := slog.Default()
	switch service {
	case "bookings":
		db, err := open(ctx, filepath.Join(dir, "bookings.db"), bookingsSchema)
		if err != nil {
			return err
		}
		defer db.close()
		client, err := newChargesClient("http://127.0.0.1:8081", log)
		if err != nil {
			return err
		}
		go idempotency.RunSweeper(ctx, db.store, time.Hour, log)
		return serve(ctx, "127.0.0.1:8080", newBookings(bookingService{reader: db.reader, charges: client, work: work, log: log}, db.store, log))
	case "charges":
		db, err := open(ctx, filepath.Join(dir, "charges.db"), chargesSchema)
		if err != nil {
			return err
		}
		defer db.close()
		go idempotency.RunSweeper(ctx, db.store, time.Hour, log)
		return serve(ctx, "127.0.0.1:8081", newCharges(chargeService{reader: db.reader}, db.store, log))
	}
	return fmt.Errorf("-serve is %q; set it to bookings or charges", service)
}

// database is one service's own.
type database struct {
	writer, reader *sql.DB
	store          *sqlstore.Store
}

// open opens the file twice, makes its tables and opens the store. SQLite has
// one writer, so the pool that writes has one connection; FULL makes a committed
// answer survive a power cut.
func open(ctx context.Context, file, schema string) (database, error) {
	const pragmas = "?_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=foreign_keys(on)"
	writer, err := sql.Open("sqlite", "file:"+file+pragmas)
	if err != nil {
		return database{}, err
	}
	writer.SetMaxOpenConns(1)
	reader, err := sql.Open("sqlite", "file:"+file+pragmas+"&_pragma=query_only(on)")
	if err != nil {
		return database{}, err
	}
	if _, err := writer.ExecContext(ctx, schema); err != nil {
		return database{}, err
	}
	if err := sqlstore.Migrate(ctx, writer, sqlstore.SQLite); err != nil {
		return database{}, err
	}
	store, err := sqlstore.New(ctx, writer, sqlstore.SQLite, sqlstore.WithReader(reader))
	return database{writer: writer, reader: reader, store: store}, err
}

func (db database) close() {
	db.writer.Close()
	db.reader.Close()
}

func serve(ctx context.Context, addr string, handler http.Handler) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	stopped := make(chan error, 1)
	context.AfterFunc(ctx, func() {
		// What is running may finish: its answer is worth more than a fast stop.
		finish, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		stopped <- server.Shutdown(finish)
	})
	slog.Info("serving", "address", "http://"+listener.Addr().String())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}
