package main

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/redis/go-redis/v9"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

var update = flag.Bool("update", false, "rewrite testdata")

// TestMain serves as idemctl itself for tests that need a process.
func TestMain(m *testing.M) {
	if os.Getenv("IDEMCTL_TEST_PROCESS") != "" {
		os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	redis.SetLogger(quiet{})
	os.Setenv("AWS_ACCESS_KEY_ID", "test")
	os.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	os.Unsetenv(envStore)
	m.Run()
}

// idemctl runs a command.
func idemctl(stdin string, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(args, strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

// must runs a command that has to exit with code, and returns what it prints.
func must(t *testing.T, code int, stdin string, args ...string) string {
	t.Helper()
	got, stdout, stderr := idemctl(stdin, args...)
	if got != code {
		t.Fatalf("idemctl %q exits with %d, want %d\n%s%s", args, got, code, stdout, stderr)
	}
	return stdout
}

// golden compares what a command prints with a file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s:\n%s\nwant:\n%s", name, got, want)
	}
}

// The SQL stores hold the same records and print the same of them. None prints a
// body or a whole key unasked, or lets a scope write to the terminal.
func TestOutputs(t *testing.T) {
	t.Parallel()
	payment, refund := idText(fixed[0].Identity), idText(fixed[2].Identity)
	commands := map[string][]string{
		"list.txt":          {"list"},
		"list.json":         {"list", "-json"},
		"list-claims.txt":   {"list", "-state", "claim", "-operation", "createRefund"},
		"list-scope.json":   {"list", "-scope", "tenant-2", "-json"},
		"show.txt":          {"show", payment},
		"show.json":         {"show", "-json", payment},
		"show-claim.txt":    {"show", refund, "-json=false"}, // flags may follow
		"stats.txt":         {"stats"},
		"stats.json":        {"stats", "-json"},
		"sweep-dry-run.txt": {"sweep", "-dry-run"},
		"sweep.json":        {"sweep", "-dry-run", "-json"},
	}
	asked := map[string][]string{
		"list-keys.txt":   {"list", "-keys"},
		"list-keys.json":  {"list", "-keys", "-json", "-scope", "tenant-1"},
		"show-body.txt":   {"show", "-keys", "-body", payment},
		"show-body.json":  {"show", "-keys", "-body", "-json", payment},
		"hostile.json":    {"show", "-keys", "-body", "-json", idText(fixed[4].Identity)},
		"show-binary.txt": {"show", "-body", idText(fixed[4].Identity)},
	}
	for _, s := range sqlServers {
		t.Run(s.kind, func(t *testing.T) {
			t.Parallel()
			store := s.filled(t)
			for name, args := range commands {
				code, stdout, stderr := idemctl("", append([]string{args[0], "-store", store}, args[1:]...)...)
				if code != exitDone {
					t.Fatalf("%s: exit code %d\n%s", name, code, stderr)
				}
				golden(t, name, stdout)
				for _, r := range fixed {
					if len(r.Key) > 1 && strings.Contains(stdout+stderr, r.Key) || strings.Contains(stdout+stderr, "SECRET") {
						t.Errorf("%s prints a key or a body unasked", name)
					}
				}
				checkHarmless(t, name, stdout+stderr)
			}
			for name, args := range asked {
				got := must(t, exitDone, "", append([]string{args[0], "-store", store}, args[1:]...)...)
				golden(t, name, got)
				checkHarmless(t, name, got)
			}
		})
	}
}

// checkHarmless finds what would do something to a terminal.
func checkHarmless(t *testing.T, name, printed string) {
	t.Helper()
	if i := strings.IndexFunc(printed, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
		t.Errorf("%s prints %+q", name, printed[i:])
	}
}

// What JSON escapes is what was stored.
func TestJSONKeepsItsValue(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	for r := range rune(0x11000) {
		all.WriteRune(r)
	}
	all.WriteString("\U000e0001\U0010ffff\U0001f600")
	var text bytes.Buffer
	if err := printJSON(&text, map[string]string{all.String(): all.String()}); err != nil {
		t.Fatal(err)
	}
	checkHarmless(t, "printJSON", text.String())
	var back map[string]string
	if err := json.Unmarshal(text.Bytes(), &back); err != nil || back[all.String()] != all.String() {
		t.Errorf("%v; it is another text", err)
	}
}

// The error of a store without its table names a command line that makes it.
func TestErrorsNameTheCommand(t *testing.T) {
	t.Parallel()
	for _, s := range sqlServers {
		t.Run(s.kind, func(t *testing.T) {
			t.Parallel()
			store, dsn := s.open(t)
			db := sqlOpen(t, s.driver, dsn)
			if err := db.PingContext(t.Context()); err != nil { // makes the file of SQLite
				t.Fatal(err)
			}
			if _, err := db.ExecContext(t.Context(), "CREATE TABLE other (id INT)"); err != nil {
				t.Fatal(err)
			}
			code, _, stderr := idemctl("", "stats", "-store", store, "-table", "answers")
			if ofGo.MatchString(stderr) {
				t.Errorf("speaks of Go: %s", stderr)
			}
			line := regexp.MustCompile(`idemctl (schema [^|]*) \| `).FindStringSubmatch(stderr)
			if code != exitFailed || line == nil {
				t.Fatalf("exit code %d\n%s", code, stderr)
			}
			if err := carryOut(t, db, must(t, exitDone, "", strings.Fields(line[1])...)); err != nil {
				t.Fatal(err)
			}
			must(t, exitDone, "", "stats", "-store", store, "-table", "answers")

			// A table that is another one is compared with what it should be.
			_, _, stderr = idemctl("", "stats", "-store", store, "-table", "other")
			line = regexp.MustCompile(`idemctl (schema -store \S+ -table [^\s:]+)`).FindStringSubmatch(stderr)
			if line == nil || !strings.Contains(must(t, exitDone, "", strings.Fields(line[1])...), "other_expires_at") || ofGo.MatchString(stderr) {
				t.Errorf("the error for another table is\n%s", stderr)
			}
			if !regexp.MustCompile(`(?m)^  .*: (ALTER TABLE|CREATE UNIQUE INDEX) .*;$`).MatchString(stderr) {
				t.Errorf("no line ends with a statement:\n%s", stderr)
			}
		})
	}
}

// A partitioned table is made by schema and its first sweep, and looked at like
// any other one.
func TestPartitionedTable(t *testing.T) {
	t.Parallel()
	store, dsn := sqlServers[0].open(t)
	statements := must(t, exitDone, "", "schema", "-store", "postgres", "-table", "answers", "-partitioned")
	if _, err := sqlOpen(t, "pgx", dsn).ExecContext(t.Context(), statements); err != nil {
		t.Fatal(err)
	}
	must(t, exitDone, "", "sweep", "-store", store, "-table", "answers")
	if got := must(t, exitDone, "", "list", "-store", store, "-table", "answers", "-json"); got != "" {
		t.Errorf("an empty table has %s", got)
	}
}

// On every store a record can be listed, shown and released, by its id and by its
// identity.
func TestEachStore(t *testing.T) {
	t.Parallel()
	for _, s := range liveStores() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			store := s.open(t)
			at := func(args ...string) []string { return append([]string{args[0], "-store", store}, args[1:]...) }
			id := idempotency.Identity{Scope: "tenant", Operation: "pay", Key: "0123456789abcdef"}
			nothing := func() {}
			if err := execute(t, store, id, "first", nothing); err != nil {
				t.Fatal(err)
			}
			other := id
			other.Operation = "refund"
			if err := execute(t, store, other, "second", nothing); err != nil {
				t.Fatal(err)
			}

			lines := strings.Split(strings.TrimSpace(must(t, exitDone, "", at("list", "-json")...)), "\n")
			var ids []string
			for _, line := range lines {
				var e entryJSON
				if err := json.Unmarshal([]byte(line), &e); err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				if e.State != idempotency.StateAnswer || e.Status != 201 || e.Scope != "tenant" || e.Key != "" || e.KeyPart != "01234567" || e.Bytes == 0 || e.CreatedAt.IsZero() {
					t.Errorf("listed: %s", line)
				}
				ids = append(ids, e.ID)
			}
			if want := []string{idText(id), idText(other)}; !sameSet(ids, want) {
				t.Errorf("ids %q, want %q", ids, want)
			}
			if got := must(t, exitDone, "", at("show", "-body", idText(id))...); !strings.Contains(got, "first") || strings.Contains(got, id.Key) {
				t.Errorf("show prints\n%s", got)
			}
			if got := must(t, exitDone, "", at("show", "-scope", "tenant", "-operation", "pay", "-key", id.Key)...); strings.Contains(got, "first") || strings.Contains(got, id.Key) {
				t.Errorf("show prints\n%s", got)
			}
			must(t, exitRefused, "", at("show", strings.Repeat("0", 32))...)
			must(t, exitRefused, "", at("show", "-scope", "tenant", "-operation", "pay", "-key", "none")...)
			if got := must(t, exitDone, "", at("stats", "-json")...); !strings.Contains(got, `"answers":2,`) || !strings.Contains(got, `{"operation":"refund","answers":1,`) {
				t.Errorf("stats prints %s", got)
			}
			code, swept, note := idemctl("", at("sweep")...)
			isSQL := slices.Contains([]string{"postgres", "mysql", "sqlite"}, s.name)
			if code != exitDone || swept != "0 records deleted\n" || (note == "") != isSQL {
				t.Errorf("sweep: exit code %d\n%s%s", code, swept, note)
			}
			if got := must(t, exitDone, "", at("sweep", "-dry-run", "-json")...); got != "{\"expired\":0}\n" {
				t.Errorf("sweep prints %s", got)
			}

			must(t, exitRefused, "n\n", at("release", idText(id))...)
			must(t, exitRefused, "", at("release", idText(id))...)
			must(t, exitDone, "y\n", at("release", idText(id))...)
			must(t, exitRefused, "", at("release", "-yes", idText(id))...)
			must(t, exitDone, "", at("release", "-yes", "-scope", "tenant", "-operation", "refund", "-key", other.Key)...)
			if got := must(t, exitDone, "", at("list", "-json")...); got != "" {
				t.Errorf("after releases there is %s", got)
			}

			// While an attempt is at work its claim is a record or a lock.
			err := execute(t, store, id, "third", func() {
				if s.name == "sqlite" {
					return // the transaction keeps others from seeing anything
				}
				args := []string{"-scope", "tenant", "-operation", "pay", "-key", id.Key}
				code, _, stderr := idemctl("", at(append([]string{"release", "-yes"}, args...)...)...)
				if code != exitRefused || !strings.Contains(stderr, "-force") && !strings.Contains(stderr, "pg_terminate_backend") && !strings.Contains(stderr, "KILL") {
					t.Errorf("release of a claim: exit code %d\n%s", code, stderr)
				}
				code, _, stderr = idemctl("", at(append([]string{"release", "-yes", "-force"}, args...)...)...)
				if isRecord := s.name != "postgres" && s.name != "mysql"; isRecord != (code == exitDone) {
					t.Errorf("forced release of a claim: exit code %d\n%s", code, stderr)
				}
			})
			if lost := errors.Is(err, idempotency.ErrLeaseLost); lost == isSQL {
				t.Errorf("an attempt whose claim was released: %v", err)
			}
		})
	}
}

func sameSet(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// What release prints of a claim that is a lock ends its transaction, and no other.
func TestTerminate(t *testing.T) {
	t.Parallel()
	for _, s := range sqlServers[:2] {
		t.Run(s.kind, func(t *testing.T) {
			t.Parallel()
			store, dsn := s.empty(t)
			db := sqlOpen(t, s.driver, dsn)
			id := idempotency.Identity{Scope: "tenant", Operation: "pay", Key: "one"}
			bystander := id
			bystander.Key = "two"
			err := execute(t, store, bystander, "kept", func() {
				err := execute(t, store, id, "lost", func() {
					_, _, stderr := idemctl("", "release", "-store", store, "-force", "-yes", "-scope", id.Scope, "-operation", id.Operation, "-key", id.Key)
					query := regexp.MustCompile(`SELECT .*`).FindString(stderr)
					if s.kind == "mysql" {
						var session int
						if err := db.QueryRowContext(t.Context(), query).Scan(&session); err != nil {
							t.Fatalf("%s: %v", stderr, err)
						}
						query = fmt.Sprint("KILL ", session)
					}
					if _, err := db.ExecContext(t.Context(), query); err != nil {
						t.Errorf("%s: %v", query, err)
					}
				})
				if err == nil {
					t.Error("a transaction that was ended has been committed")
				}
			})
			if err != nil {
				t.Errorf("the transaction of another key: %v", err)
			}
			if err := execute(t, store, id, "retried", func() {}); err != nil {
				t.Errorf("retry: %v", err)
			}
		})
	}
}

// A claim under a lease is released by force alone.
func TestReleaseOfALease(t *testing.T) {
	t.Parallel()
	for _, s := range sqlServers {
		t.Run(s.kind, func(t *testing.T) {
			t.Parallel()
			store := s.filled(t)
			claim, passed := idText(fixed[2].Identity), idText(fixed[3].Identity)
			code, _, stderr := idemctl("", "release", "-store", store, "-yes", claim)
			if code != exitRefused || !strings.Contains(stderr, "happen twice") {
				t.Errorf("release of a live claim: exit code %d\n%s", code, stderr)
			}
			must(t, exitDone, "", "release", "-store", store, "-yes", passed)
			// What may happen is said with the question, and without one.
			const twice = "the attempt that holds the claim may still make its effects, so that they can happen twice"
			code, _, stderr = idemctl("n\n", "release", "-store", store, "-force", claim)
			if code != exitRefused || !strings.Contains(stderr, "; "+twice+". [y/N] ") {
				t.Errorf("the question about a live claim: exit code %d\n%s", code, stderr)
			}
			code, _, stderr = idemctl("", "release", "-store", store, "-yes", "-force", claim)
			if code != exitDone || stderr != "idemctl: "+twice+"\n" {
				t.Errorf("forced release of a live claim: exit code %d\n%s", code, stderr)
			}
			must(t, exitDone, "", "release", "-store", store, "-yes", "-force", idText(fixed[0].Identity))
			if got := must(t, exitDone, "", "sweep", "-store", store); got != "1 record deleted\n" {
				t.Errorf("sweep prints %q", got)
			}
			if got := must(t, exitDone, "", "list", "-store", store, "-json"); strings.Count(got, "\n") != 1 {
				t.Errorf("left are\n%s", got)
			}
		})
	}
}

// A record that has come in the place of the one that was asked about stays.
func TestReleaseOfAnotherRecord(t *testing.T) {
	t.Parallel()
	for _, s := range sqlServers {
		t.Run(s.kind, func(t *testing.T) {
			t.Parallel()
			store, id := s.filled(t), fixed[0].Identity
			var stdout, stderr bytes.Buffer
			code := run([]string{"release", "-store", store, idText(id)}, readerFunc(func(b []byte) (int, error) {
				must(t, exitDone, "", "release", "-store", store, "-yes", idText(id))
				if err := execute(t, store, id, "another", func() {}); err != nil {
					t.Error(err)
				}
				return copy(b, "y\n"), nil
			}), &stdout, &stderr)
			if code != exitRefused || !strings.Contains(stderr.String(), "record "+idText(id)) || !strings.Contains(stderr.String(), "another one") {
				t.Errorf("exit code %d\n%s%s", code, &stdout, &stderr)
			}
			must(t, exitDone, "", "show", "-store", store, idText(id))
		})
	}
}

// Who thinks for longer than -timeout has not used it up.
func TestTimeoutBesideTheQuestion(t *testing.T) {
	t.Parallel()
	s := sqlServers[2]
	store := s.filled(t)
	const timeout = 3 * time.Second // enough for the store
	var stdout, stderr bytes.Buffer
	code := run([]string{"release", "-timeout", timeout.String(), "-store", store, idText(fixed[0].Identity)}, readerFunc(func(b []byte) (int, error) {
		time.Sleep(timeout + 10*time.Millisecond)
		return copy(b, "y\n"), nil
	}), &stdout, &stderr)
	if code != exitDone || !strings.HasPrefix(stdout.String(), "released ") {
		t.Errorf("exit code %d\n%s%s", code, &stdout, &stderr)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// Mistakes are told in one line, or in further ones that are indented, which say
// what to do, and never a password.
func TestMistakes(t *testing.T) {
	t.Parallel()
	const nobody = "127.0.0.1:1"
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"lst"}, exitFailed, `no command "lst"`},
		{[]string{"list"}, exitFailed, envStore},
		{[]string{"list", "-sotre", "x"}, exitFailed, "-sotre"},
		{[]string{"stats", "-store", "sqlite:x", "-timeout", "-1s"}, exitFailed, `"-1s" for flag -timeout: a time has a unit`},
		{[]string{"stats", "-store", "sqlite:x", "-timeout", "5"}, exitFailed, `idemctl: invalid value "5" for flag -timeout: a time has a unit, as 5s and 10m have; 0 never gives up; idemctl help stats says more`},
		{[]string{"list", "-store", "oracle://x"}, exitFailed, "none of postgres://"},
		{[]string{"list", "-store", "postgres://app:hunter2@" + nobody + "/db?pool_max_conns=x"}, exitFailed, "pool_max_conns"},
		{[]string{"list", "-store", "postgres://app:hunter2@" + nobody + "/db"}, exitFailed, "connect"},
		{[]string{"list", "-store", "postgres://app:hun%zzter2@" + nobody + "/db"}, exitFailed, "%40"},
		{[]string{"list", "-store", "postgres://app:hunter2/x@" + nobody + "/db"}, exitFailed, "%40"},
		{[]string{"list", "-store", "mysql://app:hunter2@" + nobody + "/db"}, exitFailed, "connect"},
		{[]string{"list", "-store", "mysql://app:hunter2@" + nobody + "/db?timeout=x"}, exitFailed, "duration"},
		{[]string{"list", "-store", "redis://app:hunter2@" + nobody + "/0"}, exitFailed, "connect"},
		{[]string{"list", "-store", "redis://app:hunter2@" + nobody + "/0?colour=red"}, exitFailed, "colour"},
		{[]string{"list", "-store", "redis://app:hunter2@" + nobody + "/0?cluster=yes"}, exitFailed, "cluster=yes"},
		{[]string{"list", "-store", "redis://app:hunter2@" + nobody + "/0", "-table", "t"}, exitFailed, "prefix="},
		{[]string{"list", "-store", "redis:cache:6380"}, exitFailed, "of the form redis://HOST:PORT/0"},
		{[]string{"list", "-store", "rediss:/0"}, exitFailed, "of the form rediss://HOST:PORT/0"},
		{[]string{"list", "-store", "mysql:/shop"}, exitFailed, "of the form mysql://HOST/DATABASE"},
		{[]string{"list", "-store", "mysql"}, exitFailed, "of the form mysql://HOST/DATABASE"},
		{[]string{"list", "-store", "postgres:shop"}, exitFailed, "of the form postgres://HOST/DATABASE"},
		{[]string{"list", "-store", "postgresql:/shop"}, exitFailed, "of the form postgresql://HOST/DATABASE"},
		{[]string{"list", "-store", "dynamodb:records?region=x"}, exitFailed, "of the form dynamodb://TABLE?region=REGION"},
		{[]string{"list", "-store", "dynamodb:///records?region=x"}, exitFailed, "of the form dynamodb://TABLE?region=REGION"},
		{[]string{"list", "-store", "dynamodb://records/x?region=x"}, exitFailed, `"records/x" cannot be a table's name`},
		{[]string{"list", "-store", "sqlite:"}, exitFailed, "of the form sqlite:FILE"},
		{[]string{"list", "-store", "sqlite://relative.db"}, exitFailed, "of the form sqlite:FILE"},
		{[]string{"list", "-store", "host=" + nobody + " password='hunter2 hunter2'"}, exitFailed, "none of postgres://"},
		{[]string{"list", "-store", "app:hunter2@tcp(" + nobody + ")/db"}, exitFailed, "none of postgres://"},
		{[]string{"list", "-store", "sqlite:" + filepath.Join(t.TempDir(), "none.db")}, exitFailed, "none.db: no such file or directory; a new one begins with idemctl schema -store sqlite"},
		{[]string{"list", "-store", "dynamodb://t?zone=x"}, exitFailed, "zone"},
		{[]string{"list", "-store", "dynamodb://id:hunter2@t?region=x"}, exitFailed, "credentials"},
		{[]string{"list", "-store", "sqlite:x", "-state", "stuck"}, exitFailed, `idemctl: invalid value "stuck" for flag -state: use any, answer, claim, passed or expired;`},
		{[]string{"schema"}, exitFailed, "postgres, mysql, sqlite, dynamodb or redis"},
		{[]string{"schema", "-store", "host=x password=hunter2"}, exitFailed, "postgres, mysql, sqlite, dynamodb or redis"},
		{[]string{"schema", "-store", "mysql", "-partitioned"}, exitFailed, "-store postgres"},
		{[]string{"schema", "-store", "dynamodb://t?zone=x"}, exitFailed, "zone"},
		{[]string{"schema", "-store", "dynamodb:records"}, exitFailed, "of the form dynamodb://TABLE?region=REGION"},
		{[]string{"schema", "-store", "postgres", "-table", "a b"}, exitFailed, `"a b"`},
		{[]string{"schema", "-store", "dynamodb", "-table", "a;b"}, exitFailed, `"a;b"`},
		{[]string{"schema", "-store", "redis", "-table", "t"}, exitFailed, "WithPrefix"},
		{[]string{"help", "lst"}, exitFailed, `no command "lst"`},
		{[]string{"-store", "sqlite:x", "list"}, exitFailed, "before its flags"},
		{[]string{"show", "-store", "sqlite:x"}, exitFailed, "either one id, or"},
		{[]string{"show", "-store", "sqlite:x", "-scope", "s"}, exitFailed, "either one id, or"},
		{[]string{"show", "-store", "sqlite:x", "-scope", "s", idText(fixed[0].Identity)}, exitFailed, "either one id, or"},
		{[]string{"show", "-store", "sqlite:x", idText(fixed[0].Identity), idText(fixed[1].Identity)}, exitFailed, "either one id, or"},
		{[]string{"show", "-store", "sqlite:x", "abc"}, exitFailed, "32 hexadecimal digits"},
		{[]string{"show", "-store", "sqlite:x", idText(fixed[0].Identity), "-bdy"}, exitFailed, "-bdy"},
		{[]string{"release", "-store", "sqlite:x", "-key", "k"}, exitFailed, "either one id, or"},
		{[]string{"list", "-store", "sqlite:x", "y"}, exitFailed, `and not "y"`},
		{[]string{"list", "-store", "sqlite:x", "-limit", "-1"}, exitFailed, "-limit: use a number of records, or 0 for all;"},
		{[]string{"stats", "-store", "sqlite:x", "y"}, exitFailed, `and not "y"`},
		{[]string{"sweep", "-store", "sqlite:x", "y"}, exitFailed, `and not "y"`},
		{[]string{"version", "y"}, exitFailed, `and not "y"`},
		{[]string{"list", "-store", "mysql://" + nobody}, exitFailed, "of the form mysql://HOST/DATABASE"},
		{[]string{"postgres://app:hunter2@" + nobody + "/db"}, exitFailed, "no command"},
		{[]string{"schema", "postgres://app:hunter2@" + nobody + "/db"}, exitFailed, "no arguments"},
	} {
		code, stdout, stderr := idemctl("", append(c.args, timeouts(c.args)...)...)
		if code != c.code || stdout != "" || !strings.Contains(stderr, c.says) || furtherLine.MatchString(stderr) {
			t.Errorf("idemctl %q: exit code %d, want %d and a message with %q\n%s%s", c.args, code, c.code, c.says, stdout, stderr)
		}
		if strings.Contains(stderr, "hunter2") || strings.Contains(stderr, "hun%zzter2") {
			t.Errorf("idemctl %q prints the password: %s", c.args, stderr)
		}
	}
}

var furtherLine = regexp.MustCompile(`\n\S`)

// A password is dropped from any URL that an error quotes, and from nothing else.
func TestRedacted(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"cannot parse `postgres://app:hunter%402@host/db`:\n\tdial\x1b[31m failed":      "cannot parse `postgres://app:xxxxx@host/db`:\n  dial?[31m failed",
		"postgres://app:hunter@2@host:x/db, redis://:hunter/2@host":                     "postgres://app:xxxxx@host:x/db, redis://:xxxxx@host",
		`parse "redis://host?sentinel_password=hunter%402&protocol=2": bad`:             `parse "redis://host?sentinel_password=xxxxx&protocol=2": bad`,
		"postgres://host/db?user=app&sslPassword=hunter2":                               "postgres://host/db?user=app&sslPassword=xxxxx",
		"postgres://a:a@host/a: a table is missing, see https://host:8080/a and a@host": "postgres://a:xxxxx@host/a: a table is missing, see https://host:8080/a and a@host",
	} {
		if got := redacted(errors.New(text)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// What a store finds wrong in several places is told apart, and nothing that it
// quotes begins a line as idemctl does.
func TestIndented(t *testing.T) {
	t.Parallel()
	if got := indented("table x:\n\tcolumn a is missing\n\ncolumn b is missing\n"); got != "table x:\n  column a is missing\n  column b is missing" {
		t.Error(got)
	}
}

// timeouts keeps attempts at servers that are not there short.
func timeouts(args []string) []string {
	if args[0] == "list" && !slices.Contains(args, "-state") {
		return []string{"-timeout", "20s"}
	}
	return nil
}

func TestHelp(t *testing.T) {
	t.Parallel()
	if got := must(t, exitDone, "", "help"); got != overview {
		t.Errorf("help prints\n%s", got)
	}
	must(t, exitFailed, "")
	for _, c := range commands {
		if got := must(t, exitDone, "", "help", c.name); got != c.help {
			t.Errorf("help %s prints\n%s", c.name, got)
		}
		if got := must(t, exitDone, "", c.name, "-h"); got != c.help {
			t.Errorf("%s -h prints\n%s", c.name, got)
		}
		if inv := new(invocation); !c.local {
			_ = c.parse(inv, nil) // some lack an id
			limit := regexp.MustCompile(`\n  -timeout .* the default is (\w+)`).FindAllStringSubmatch(c.help, -1)
			if len(limit) != 1 {
				t.Fatalf("the help of %s says of -timeout %q", c.name, limit)
			}
			if d, err := time.ParseDuration(limit[0][1]); err != nil || d != inv.timeout {
				t.Errorf("the help of %s has the time limit %v (%v), and it is %v", c.name, d, err, inv.timeout)
			}
		}
		// Each flag is explained, and each that is explained is there.
		flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
		c.flags(new(invocation), flags)
		flags.VisitAll(func(f *flag.Flag) {
			if !strings.Contains(c.help, "\n  -"+f.Name+" ") {
				t.Errorf("the help of %s says nothing of -%s", c.name, f.Name)
			}
		})
	}
	if got := must(t, exitDone, "", "help", "help"); got != overview {
		t.Errorf("the help of help prints\n%s", got)
	}
	if got := must(t, exitDone, "", "version"); !strings.HasPrefix(got, "idemctl ") {
		t.Errorf("version prints %q", got)
	}
}

// -limit ends a list and says so.
func TestLimit(t *testing.T) {
	t.Parallel()
	store, _ := sqlServers[2].empty(t)
	for i := range 3 {
		if err := execute(t, store, idempotency.Identity{Scope: "s", Operation: "o", Key: fmt.Sprint("key-", i)}, "b", func() {}); err != nil {
			t.Fatal(err)
		}
	}
	for limit, want := range map[string]int{"0": 3, "1": 1, "3": 3, "4": 3} {
		code, stdout, stderr := idemctl("", "list", "-json", "-store", store, "-limit", limit)
		if code != exitDone || strings.Count(stdout, "\n") != want || strings.Contains(stderr, "there are more") != (limit == "1") {
			t.Errorf("-limit %s: exit code %d\n%s%s", limit, code, stdout, stderr)
		}
	}
}

// An answer that a codec has stored is shown as far as it can be read, and so is
// one whose headers somebody has made to do something to a terminal.
func TestUnreadableAnswer(t *testing.T) {
	t.Parallel()
	s := sqlServers[2]
	store, dsn := s.empty(t)
	id := idempotency.Identity{Scope: "s", Operation: "o", Key: "key"}
	if err := execute(t, store, id, "body", func() {}); err != nil {
		t.Fatal(err)
	}
	for _, header := range []string{"x'1003'||'key'", "'A'||x'1b'||'[2J: b'||x'0d0a'"} {
		if _, err := sqlOpen(t, s.driver, dsn).ExecContext(t.Context(), "UPDATE idempotency_records SET header = "+header+", body = x'00ff'"); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{}, {"-body"}, {"-json"}, {"-json", "-body"}} {
			got := must(t, exitDone, "", append(append([]string{"show", "-store", store}, args...), idText(id))...)
			if strings.HasPrefix(header, "x'10") && !strings.Contains(got, "a server that has the one of this answer replays it") {
				t.Errorf("show %q prints\n%s", args, got)
			}
			if !strings.Contains(got, "unreadable") || !strings.Contains(got, "201") || strings.Contains(got, "body_base64") || ofGo.MatchString(got) {
				t.Errorf("show %q prints\n%s", args, got)
			}
			checkHarmless(t, "show", got)
		}
	}
}

// program is idemctl as a process of its own.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), "IDEMCTL_TEST_PROCESS=1")
	return cmd
}

// process starts idemctl as a process of its own.
func process(t *testing.T, args ...string) (cmd *exec.Cmd, stdout, stderr *bytes.Buffer) {
	t.Helper()
	cmd = program(t, args...)
	stdout, stderr = new(bytes.Buffer), new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, stdout, stderr
}

// untilWaiting waits for a session that waits for a lock.
func untilWaiting(t *testing.T, db *sql.DB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for n := 0; n == 0; {
		err := db.QueryRowContext(ctx, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
	}
}

// An interrupt ends a command that waits for its store, with one line, and so does
// its time.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	store, dsn := sqlServers[0].empty(t)
	admin := sqlOpen(t, "pgx", dsn)
	tx, err := admin.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(t.Context(), "LOCK TABLE idempotency_records"); err != nil {
		t.Fatal(err)
	}
	cmd, stdout, stderr := process(t, "stats", "-store", store, "-timeout", "0")
	untilWaiting(t, admin)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	if cmd.ProcessState.ExitCode() != exitFailed || !strings.HasPrefix(stderr.String(), "idemctl: interrupted: ") || strings.Count(stderr.String(), "\n") != 1 {
		t.Errorf("%v\n%s%s", err, stdout, stderr)
	}
	// Its session goes on waiting, and would be taken for that of the other command.
	if code, _, stderr := idemctl("", "stats", "-store", store, "-timeout", "500ms"); code != exitFailed || !strings.HasPrefix(stderr, "idemctl: not done within 500ms, see -timeout: ") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
}

// A reader that has seen enough, as head has, ends a list without a word.
func TestClosedPipe(t *testing.T) {
	t.Parallel()
	cmd := program(t, "list", "-store", sqlServers[2].filled(t))
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = w, &stderr
	r.Close()
	err = cmd.Run()
	w.Close()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGPIPE || stderr.Len() > 0 {
		t.Errorf("%v\n%s", err, &stderr)
	}
}

// An interrupt at the question is a no.
func TestInterruptedQuestion(t *testing.T) {
	t.Parallel()
	store, id := sqlServers[2].filled(t), idText(fixed[0].Identity)
	cmd := program(t, "release", "-store", store, id)
	if _, err := cmd.StdinPipe(); err != nil { // which stays open
		t.Fatal(err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stderr)
	if question, err := lines.ReadString(']'); err != nil || !strings.HasSuffix(question, "[y/N]") {
		t.Fatalf("%q, %v", question, err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(lines)
	if err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	if cmd.ProcessState.ExitCode() != exitFailed || string(rest) != " \nidemctl: interrupted: nothing was released\n" {
		t.Errorf("%v\n%q", err, rest)
	}
	must(t, exitDone, "", "show", "-store", store, id)
}

// An interrupt ends a sweep after its batch, and it says how much it has done.
func TestInterruptedSweep(t *testing.T) {
	t.Parallel()
	store, dsn := sqlServers[0].empty(t)
	admin := sqlOpen(t, "pgx", dsn)
	const gate = 4711
	for _, statement := range []string{
		"INSERT INTO idempotency_records SELECT gen_random_uuid(), now() - interval '2 hours', now() - interval '1 hour', 200, 's', 'o', n::text, '', '', ''" +
			" FROM generate_series(1, 3500) AS n",
		// The second batch waits at the gate.
		"CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN" +
			" IF (SELECT count(*) FROM idempotency_records) < 3000 THEN PERFORM pg_advisory_xact_lock(4711); END IF; RETURN NULL; END $$",
		"CREATE TRIGGER wait BEFORE DELETE ON idempotency_records EXECUTE FUNCTION wait()",
	} {
		if _, err := admin.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	tx, err := admin.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(t.Context(), "SELECT pg_advisory_xact_lock($1)", gate); err != nil {
		t.Fatal(err)
	}
	cmd, stdout, stderr := process(t, "sweep", "-store", store)
	untilWaiting(t, admin)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	var left int
	if err := admin.QueryRowContext(t.Context(), "SELECT count(*) FROM idempotency_records").Scan(&left); err != nil {
		t.Fatal(err)
	}
	done := fmt.Sprintf("idemctl: interrupted: %d records deleted before this: ", 3500-left)
	if cmd.ProcessState.ExitCode() != exitFailed || !strings.HasPrefix(stderr.String(), done) || left == 0 || left == 3500 {
		t.Errorf("%v, %d records left\n%s%s", err, left, stdout, stderr)
	}
	if got := must(t, exitDone, "", "sweep", "-store", store); got != fmt.Sprintf("%d records deleted\n", left) {
		t.Errorf("the next sweep prints %q, want %d", got, left)
	}
}
