package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	gosql "github.com/go-sql-driver/mysql"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/internal/testenv"
)

// A claim that gets its lock from another session sees the record which that
// one has committed before: at every isolation level, by one statement. The
// test lets the statement wait for the lock, which a claim does not.
//
// Covers STO-18.
func TestMySQLClaimReadsUnderItsLock(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			db, err := sql.Open("mysql", testenv.MariaDB(t)+"?tx_isolation=%27"+level+"%27")
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if err := Migrate(t.Context(), db, MySQL); err != nil {
				t.Fatal(err)
			}
			s, err := New(t.Context(), db, MySQL)
			if err != nil {
				t.Fatal(err)
			}
			e := s.engine.(*mysqlEngine)
			for i := range 20 {
				req := idempotency.Request{Identity: idempotency.Identity{Operation: "o", Key: fmt.Sprint(i)}, Retention: 1 << 40}
				id := req.ID()
				waiting := strings.Replace(e.at(id, e.enter), "', 0)", "', 60)", 1)
				conn, err := db.Conn(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				found := make(chan error, 1)
				_, err = s.Execute(t.Context(), req, func(ctx context.Context, _ *sql.Tx) (idempotency.Response, error) {
					go func() {
						var held bool
						_, rec, err := scan(conn.QueryRowContext(context.WithoutCancel(ctx), waiting), &held, new(bool))
						if err == nil && (!held || rec == nil) {
							err = fmt.Errorf("held %v, record %v", held, rec)
						}
						found <- err
					}()
					return idempotency.Response{Status: 204}, untilWaiting(ctx, db, e.lock(id))
				})
				if err != nil {
					t.Fatal(err)
				}
				if err := <-found; err != nil {
					t.Fatal(err)
				}
				discard(conn)
				conn.Close()
			}
		})
	}
}

// untilWaiting returns when a session waits for the lock.
func untilWaiting(ctx context.Context, db *sql.DB, lock string) error {
	for {
		var n int
		err := db.QueryRowContext(ctx, "SELECT count(*) FROM information_schema.processlist WHERE state = 'User lock' AND info LIKE '%"+lock+"%'").Scan(&n)
		if err != nil || n > 0 {
			return err
		}
	}
}

// No claim leaves its lock behind, whatever way its work has ended.
//
// Covers CRA-01.
func TestMySQLLocksAreReleased(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("mysql", testenv.MariaDB(t))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := Migrate(t.Context(), db, MySQL); err != nil {
		t.Fatal(err)
	}
	s, err := New(t.Context(), db, MySQL)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	answer := idempotency.Response{Status: 204}
	for name, work := range map[string]idempotency.Work[*sql.Tx]{
		"answer": func(context.Context, *sql.Tx) (idempotency.Response, error) { return answer, nil },
		"error":  func(context.Context, *sql.Tx) (idempotency.Response, error) { return answer, errors.New("failed") },
		"panic":  func(context.Context, *sql.Tx) (idempotency.Response, error) { panic("a bug") },
		"COMMIT": func(_ context.Context, tx *sql.Tx) (idempotency.Response, error) {
			_, err := tx.Exec("COMMIT")
			return answer, err
		},
		"too large": func(context.Context, *sql.Tx) (idempotency.Response, error) {
			return idempotency.Response{Status: 200, Body: make([]byte, s.engine.(*mysqlEngine).maxPacket)}, nil
		},
	} {
		req := idempotency.Request{Identity: idempotency.Identity{Operation: "o", Key: name}, Retention: 1 << 40}
		for range 2 { // the second time the first one may be replayed
			func() {
				defer func() { _ = recover() }()
				_, err := s.Execute(t.Context(), req, work)
				t.Logf("%s: %v", name, err)
			}()
		}
		lock := s.engine.(*mysqlEngine).lock(req.ID())
		var free bool
		if err := db.QueryRowContext(t.Context(), "SELECT IS_FREE_LOCK('"+lock+"')").Scan(&free); err != nil || !free {
			t.Errorf("%s: lock free: %v, %v", name, free, err)
		}
		if len(lock) > 64 {
			t.Errorf("the lock's name has %d bytes", len(lock))
		}
	}
}

// Errors are recognised by the number that drivers write.
//
// Covers ERR-07.
func TestMySQLJudge(t *testing.T) {
	t.Parallel()
	var e mysqlEngine
	for _, c := range []struct {
		err  error
		want verdict
	}{
		{&gosql.MySQLError{Number: 1213, SQLState: [5]byte{'4', '0', '0', '0', '1'}, Message: "Deadlock found"}, conflict},
		{&gosql.MySQLError{Number: 1213, Message: "Deadlock found"}, conflict},
		{fmt.Errorf("debit: %w", &gosql.MySQLError{Number: 1213, Message: "Deadlock found"}), conflict},
		{errors.Join(errors.New("first"), &gosql.MySQLError{Number: 1020, Message: "Record has changed"}), conflict},
		{errors.New("ERROR 3101 (HY000): Plugin instructed the server to rollback the current transaction."), conflict}, // as other drivers write it
		{&gosql.MySQLError{Number: 1205, Message: "Lock wait timeout exceeded"}, unclear},
		{&gosql.MySQLError{Number: 1062, Message: "Duplicate entry"}, taken},
		{&gosql.MySQLError{Number: 1305, Message: "SAVEPOINT x does not exist"}, ended},
		{fmt.Errorf("x: %w", sql.ErrTxDone), ended},
		{gosql.ErrInvalidConn, unclear},
		{errors.New("the ledger said Error 1213: insufficient funds"), unclear},
		{nil, unclear},
	} {
		if got := e.judge(c.err); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
}
