//go:build unix

package testenv

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// OwnPostgres starts a server that ends with the test and can crash. It writes
// through to the disk what a crash must not lose.
func OwnPostgres(tb testing.TB) *Server {
	tb.Helper()
	bin, err := postgresBin()
	if err != nil {
		missing(tb, "a PostgreSQL of its own", "install PostgreSQL", fmt.Errorf("%w: %w", errUnavailable, err))
	}
	s, err := startInstalled(bin, Durable)
	if err != nil {
		tb.Fatalf("testenv: %v", err)
	}
	tb.Cleanup(s.Stop)
	return s
}

// Crash kills all processes of the server at once, as the end of its machine
// does.
func (s *Server) Crash(tb testing.TB) {
	tb.Helper()
	all, main := s.processes(tb)
	for _, pid := range append([]int{main}, all...) {
		kill(tb, pid, syscall.SIGKILL)
	}
	for _, pid := range all {
		for !ended(pid) {
			time.Sleep(time.Millisecond)
		}
	}
	<-s.process.exited
}

// Restart starts a server that has crashed, on the same port and data.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	if err := s.run(s.isReady); err != nil {
		tb.Fatalf("testenv: start PostgreSQL again: %v", err)
	}
}

// processes returns the process ids of the server: all but the one that starts
// the others, and that one. It is stopped, so that no more are added.
func (s *Server) processes(tb testing.TB) (all []int, main int) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.DSN)
	if err != nil {
		tb.Fatalf("testenv: %v", err)
	}
	defer conn.Close(ctx)
	var text string
	if err := conn.QueryRow(ctx, "SELECT pg_read_file('postmaster.pid')").Scan(&text); err != nil {
		tb.Fatalf("testenv: %v", err)
	}
	if _, err := fmt.Sscan(text, &main); err != nil {
		tb.Fatalf("testenv: postmaster.pid: %v", err)
	}
	kill(tb, main, syscall.SIGSTOP)
	rows, err := conn.Query(ctx, "SELECT pid FROM pg_stat_activity")
	if err == nil {
		all, err = pgx.CollectRows(rows, pgx.RowTo[int])
	}
	if err != nil {
		tb.Fatalf("testenv: %v", err)
	}
	return all, main
}

func kill(tb testing.TB, pid int, s syscall.Signal) {
	tb.Helper()
	if err := syscall.Kill(pid, s); err != nil && err != syscall.ESRCH {
		tb.Fatalf("testenv: %v for process %d: %v", s, pid, err)
	}
}

// ended tells whether a process runs no more. Until its parent asks, the system
// still knows it.
func ended(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && bytes.Contains(stat, []byte(") Z "))
}
