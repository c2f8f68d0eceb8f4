//go:build unix

package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Replication says whether a commit waits for the standby.
type Replication string

const (
	// Asynchronous replication answers a commit when the primary has it.
	Asynchronous Replication = ""
	// Synchronous replication answers it when the standby has it too.
	Synchronous Replication = "*"
)

// PostgresPair is a primary with a standby that it streams to.
type PostgresPair struct {
	Primary, Standby *Server
	// DSN leads to whichever of the two takes writes.
	DSN string

	stopped int // a process of the standby
}

// StartPostgresPair starts a primary and a hot standby, which end with the test.
func StartPostgresPair(tb testing.TB, replication Replication) *PostgresPair {
	tb.Helper()
	bin, err := postgresBin()
	if err != nil {
		missing(tb, "PostgreSQL with a standby", "install PostgreSQL", fmt.Errorf("%w: %w", errUnavailable, err))
	}
	const attempts = 3 // other programs can take a port that was free
	for range attempts {
		var p *PostgresPair
		if p, err = startPair(bin, replication); err == nil {
			tb.Cleanup(p.stop)
			return p
		}
	}
	tb.Fatalf("testenv: start PostgreSQL with a standby, %d attempts: %v", attempts, err)
	return nil
}

func (p *PostgresPair) stop() {
	if p.stopped != 0 {
		_ = syscall.Kill(p.stopped, syscall.SIGCONT) // it may have ended
	}
	for _, s := range []*Server{p.Primary, p.Standby} {
		if s.process != nil {
			s.process.stop()
		}
		os.RemoveAll(s.dir)
	}
}

// startPair runs both servers on copies of one data directory: all that the
// primary writes, the standby gets from it.
func startPair(bin string, replication Replication) (p *PostgresPair, err error) {
	primary, port, err := newServer()
	if err != nil {
		return nil, err
	}
	standby, standbyPort, err := newServer()
	if err != nil {
		os.RemoveAll(primary.dir)
		return nil, err
	}
	p = &PostgresPair{
		Primary: primary, Standby: standby,
		DSN: fmt.Sprintf("postgres://postgres@127.0.0.1:%s,127.0.0.1:%s/postgres?sslmode=disable&target_session_attrs=read-write", port, standbyPort),
	}
	defer func() {
		if err != nil {
			p.stop()
		}
	}()
	if err := initdb(bin, primary.dir); err != nil {
		return nil, err
	}
	data := filepath.Join(standby.dir, "data")
	for _, argv := range [][]string{
		{"cp", "-R", filepath.Join(primary.dir, "data"), data},
		{"touch", filepath.Join(data, "standby.signal")},
	} {
		if out, err := command(standby.dir, argv[0], argv[1:]...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%v: %w\n%s", argv, err, out)
		}
	}
	primary.argv = append(serve(bin, primary.dir, port), settings(primary.name, Durable)...)
	primary.argv = append(primary.argv, "-c", "synchronous_standby_names="+string(replication))
	standby.argv = append(serve(bin, standby.dir, standbyPort), settings(standby.name, Durable)...)
	standby.argv = append(standby.argv, "-c", "primary_conninfo=host=127.0.0.1 user=postgres port="+port)
	if err := primary.run(primary.isReady); err != nil {
		return nil, err
	}
	if err := standby.run(standby.isReady); err != nil {
		return nil, err
	}
	return p, primary.process.waitReady(p.streams)
}

// streams tells whether the standby has all that the primary has written.
func (p *PostgresPair) streams(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, p.Primary.DSN)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	var state string
	err = conn.QueryRow(ctx, "SELECT state || ', ' || sync_state FROM pg_stat_replication WHERE replay_lsn = pg_current_wal_lsn()").Scan(&state)
	if err == nil && state != "streaming, async" && state != "streaming, sync" {
		err = errors.New("the standby is " + state)
	}
	return err
}

// Promote makes the standby take writes, as a supervisor does when the primary
// has gone, and returns when it does.
func (p *PostgresPair) Promote(tb testing.TB) {
	tb.Helper()
	if err := execute(p.Standby.DSN, "SELECT pg_promote()"); err != nil {
		tb.Fatalf("testenv: promote the standby: %v", err)
	}
}

// CutOff ends the stream to the standby, and keeps it from beginning again until
// [PostgresPair.Rejoin].
func (p *PostgresPair) CutOff(tb testing.TB) {
	tb.Helper()
	// What starts the standby's other processes is stopped; those that answer
	// queries go on.
	_, p.stopped = p.Standby.processes(tb)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, p.Primary.DSN)
	if err != nil {
		tb.Fatalf("testenv: %v", err)
	}
	defer conn.Close(ctx)
	// What the primary has sent before would still be received: this waits for the end.
	if _, err := conn.Exec(ctx, "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_replication"); err != nil {
		tb.Fatalf("testenv: %v", err)
	}
}

// Rejoin lets a standby that was cut off go on.
func (p *PostgresPair) Rejoin(tb testing.TB) {
	tb.Helper()
	kill(tb, p.stopped, syscall.SIGCONT)
	p.stopped = 0
}
