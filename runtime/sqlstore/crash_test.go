package sqlstore_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/sqlstore"
)

// TestMain lets this binary be the other process of a test.
func TestMain(m *testing.M) {
	if role := os.Getenv("SQLSTORE_TEST_CHILD"); role != "" {
		if err := child(role, os.Getenv("SQLSTORE_TEST_FILE")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if name := os.Getenv(victimServer); name != "" {
		fmt.Fprintln(os.Stderr, victim(name, os.Getenv(victimDSN), os.Getenv(victimLeases) != ""))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// command prepares another process in the given role.
func command(t *testing.T, role, file string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "SQLSTORE_TEST_CHILD="+role, "SQLSTORE_TEST_FILE="+file)
	return cmd
}

// underLease leads the role of a process whose request is under a lease.
const underLease = "under a lease: "

func child(role, file string) error {
	role, leases := strings.CutPrefix(role, underLease)
	hook := func(at moment) error {
		if role == string(at) {
			self, err := os.FindProcess(os.Getpid())
			if err != nil {
				return err
			}
			_ = self.Kill() // SIGKILL: no deferred call runs
			select {}
		}
		return nil
	}
	ctx := context.Background()
	db := sql.OpenDB(&faults{dsn: "file:" + file + "?" + pragmas + "_pragma=journal_mode(wal)", hook: hook})
	defer db.Close()
	if err := sqlstore.Migrate(ctx, db, sqlstore.SQLite); err != nil {
		return err
	}
	store, err := sqlstore.New(ctx, db, sqlstore.SQLite)
	if err != nil {
		return err
	}
	switch {
	case role == "crowd":
		return crowd(ctx, store)
	case role == "stopped":
		return stopped(ctx, store)
	case leases:
		return refund(ctx, store, db)
	}
	_, err = store.Execute(ctx, request("k"), func(ctx context.Context, tx *sql.Tx) (idempotency.Response, error) {
		if err := effect(ctx, tx, "k"); err != nil {
			return idempotency.Response{}, err
		}
		return created("child"), hook(inWork)
	})
	return err
}

// crowdKeys is how many requests the processes of a crowd share.
const crowdKeys = 30

// crowd sends every request from eight goroutines until it is answered.
func crowd(ctx context.Context, store *sqlstore.Store) error {
	if _, err := io.ReadAll(os.Stdin); err != nil { // until all processes are ready
		return err
	}
	var wg sync.WaitGroup
	failures := make(chan error, 8*crowdKeys)
	for g := range 8 {
		wg.Go(func() {
			for i := range crowdKeys {
				key := strconv.Itoa((i*7 + g) % crowdKeys)
				for {
					_, err := store.Execute(ctx, request(key), func(ctx context.Context, tx *sql.Tx) (idempotency.Response, error) {
						// Reads first, as handlers do.
						if err := readIn(ctx, tx, key); err != nil {
							return idempotency.Response{}, err
						}
						return created(key), effect(ctx, tx, key)
					})
					if errors.Is(err, idempotency.ErrInFlight) {
						time.Sleep(time.Millisecond) // as a client would
						continue
					}
					if err != nil {
						failures <- err
					}
					break
				}
			}
		})
	}
	wg.Wait()
	close(failures)
	return <-failures
}

// stopped makes a refund that takes until its lease is lost, and says how it ends.
func stopped(ctx context.Context, store *sqlstore.Store) error {
	req := refundRequest()
	req.Lease = time.Second
	_, err := idempotency.Leases(store, time.Minute).Execute(ctx, req, func(ctx context.Context, _ *idempotency.Lease) (idempotency.Response, error) {
		fmt.Println("at work")
		<-ctx.Done()
		fmt.Println("cause:", context.Cause(ctx))
		return created("of the stopped process"), nil
	})
	fmt.Println("answer:", err)
	return nil
}

// readIn reads what a handler is about to write.
func readIn(ctx context.Context, tx *sql.Tx, label string) error {
	var n int
	return tx.QueryRowContext(ctx, `SELECT count(*) FROM effects WHERE label = ?`, label).Scan(&n)
}

func request(key string) idempotency.Request {
	return idempotency.Request{
		Identity:    idempotency.Identity{Scope: "tenant", Operation: "createPayment", Key: key},
		Fingerprint: idempotency.FingerprintOf([]byte("payload")),
		Retention:   time.Hour,
	}
}

func created(body string) idempotency.Response {
	return idempotency.Response{Status: http.StatusCreated, Header: http.Header{"Content-Type": {"text/plain"}}, Body: []byte(body)}
}

// A process is killed at each step of a first request. The retry in another
// process executes the request or replays it, at once, and there is one effect.
//
// Covers CRA-01, CRA-02, CRA-03, CRA-04.
func TestKilledProcess(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		at       moment
		replayed bool
	}{
		{beforeBegin, false},
		{inWork, false},
		{beforeCommit, false},
		{afterCommit, true},
	} {
		t.Run(string(c.at), func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "test.db")
			db := openDB(t, file, pragmas+"_pragma=journal_mode(wal)", 0)
			prepare(t, db)
			store := newStore(t, db)

			out, err := command(t, string(c.at), file).CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.Exited() {
				t.Fatalf("the process was not killed: %v\n%s", err, out)
			}
			res, err := store.Execute(t.Context(), request("k"), func(ctx context.Context, tx *sql.Tx) (idempotency.Response, error) {
				return created("parent"), effect(ctx, tx, "k")
			})
			if err != nil {
				t.Fatal(err)
			}
			want := "parent"
			if c.replayed {
				want = "child"
			}
			if res.Replayed != c.replayed || string(res.Body) != want {
				t.Errorf("Replayed %v, body %q; want %v, %q", res.Replayed, res.Body, c.replayed, want)
			}
			if n, err := countEffects(t.Context(), db, "k"); n != 1 || err != nil {
				t.Errorf("%d effects, error %v; want 1", n, err)
			}
		})
	}
}

// Three processes start together, create the table together and press the
// same requests. None of them sees an error, SQLITE_BUSY_SNAPSHOT included,
// and every request has one effect.
//
// Covers CON-01, CON-08, STO-22.
func TestProcessesShareFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "test.db")
	db := openDB(t, file, pragmas+"_pragma=journal_mode(wal)", 0)
	if _, err := db.Exec(`CREATE TABLE effects (label TEXT NOT NULL)`); err != nil {
		t.Fatal(err)
	}
	type process struct {
		*exec.Cmd
		start io.Closer
		out   *bytes.Buffer
	}
	var processes []process
	for range 3 {
		cmd := command(t, "crowd", file)
		out := new(bytes.Buffer)
		cmd.Stdout, cmd.Stderr = out, out
		start, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		processes = append(processes, process{cmd, start, out})
	}
	for _, p := range processes {
		if err := p.start.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, p := range processes {
		if err := p.Wait(); err != nil {
			t.Errorf("process: %v\n%s", err, p.out)
		}
	}
	for i := range crowdKeys {
		if n, err := countEffects(t.Context(), db, strconv.Itoa(i)); n != 1 || err != nil {
			t.Errorf("key %d: %d effects, error %v; want 1", i, n, err)
		}
	}
}
