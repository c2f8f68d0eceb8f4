package sqlstore

import (
	"errors"
	"fmt"
	"testing"
)

// coded is an error of a driver that tells SQLite's code by a method.
type coded int

func (c coded) Error() string { return fmt.Sprintf("database is locked (%d)", int(c)) }
func (c coded) Code() int     { return int(c) }

// declined is a handler's own error, with a code that means something else.
type declined struct{}

func (declined) Error() string { return "insufficient funds" }
func (declined) Code() int     { return 5 }

// A lost turn is recognised by its code, and by its message where the driver
// keeps the code to itself.
//
// Covers ERR-07.
func TestSQLiteConflict(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want bool
	}{
		{coded(5), true},          // SQLITE_BUSY
		{coded(5 | 2<<8), true},   // SQLITE_BUSY_SNAPSHOT
		{coded(6 | 1<<8), true},   // SQLITE_LOCKED_SHAREDCACHE
		{coded(19 | 8<<8), false}, // SQLITE_CONSTRAINT_UNIQUE
		{coded(11), false},        // SQLITE_CORRUPT
		{coded(10 | 5<<8), false}, // SQLITE_IOERR_FSYNC, whose extended part is 5
		{fmt.Errorf("debit: %w", coded(5)), true},
		{errors.New("database is locked"), true},
		{fmt.Errorf("debit: %w", errors.New("database is locked")), true},
		{errors.New("database table is locked: effects"), true},
		{declined{}, false},
		{errors.New("UNIQUE constraint failed: effects.id"), false},
		{errors.New("the wallet's database is locked by its owner"), false},
	} {
		if got := sqliteConflict(c.err); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
}
