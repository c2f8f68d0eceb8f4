package main

import (
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/idemgen/idemgen/runtime/dynamostore"
	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/internal/testenv"
	"github.com/idemgen/idemgen/runtime/pgxstore"
	"github.com/idemgen/idemgen/runtime/redisstore"
	"github.com/idemgen/idemgen/runtime/sqlstore"
)

// sqlServer is a database that tests run on.
type sqlServer struct {
	kind   string
	driver string
	// open returns the URL of an empty database, and the driver's own name of it.
	open func(t *testing.T) (store, dsn string)
	// blob and at write bytes and a time into a statement.
	blob func([]byte) string
	at   func(time.Time) string
}

var sqlServers = []sqlServer{
	{
		kind: "postgres", driver: "pgx",
		open: func(t *testing.T) (string, string) {
			dsn := testenv.Postgres(t)
			return asURL(t, dsn), dsn
		},
		blob: func(b []byte) string { return `'\x` + hex.EncodeToString(b) + "'" },
		at:   func(at time.Time) string { return "'" + at.Format(time.RFC3339Nano) + "'" },
	},
	{
		kind: "mysql", driver: "mysql",
		open: func(t *testing.T) (string, string) {
			dsn := testenv.MariaDB(t)
			cfg, err := mysql.ParseDSN(dsn)
			if err != nil {
				t.Fatal(err)
			}
			u := url.URL{Scheme: "mysql", User: url.UserPassword(cfg.User, cfg.Passwd), Host: cfg.Addr, Path: cfg.DBName}
			return u.String(), dsn
		},
		blob: literal,
		at:   milliseconds,
	},
	{
		kind: "sqlite", driver: "sqlite",
		open: func(t *testing.T) (string, string) {
			file := filepath.Join(t.TempDir(), "a b?c#d%.db")
			return "sqlite:" + file, "file:" + (&url.URL{Path: file}).EscapedPath() + "?_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)"
		},
		blob: literal,
		at:   milliseconds,
	},
}

func literal(b []byte) string { return "x'" + hex.EncodeToString(b) + "'" }

func milliseconds(at time.Time) string { return fmt.Sprint(at.UnixMilli()) }

// asURL writes PostgreSQL's keywords as a URL.
func asURL(t *testing.T, dsn string) string {
	t.Helper()
	if strings.Contains(dsn, "://") {
		return dsn
	}
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	q := url.Values{"host": {cfg.Host}, "port": {fmt.Sprint(cfg.Port)}}
	u := url.URL{Scheme: "postgres", User: url.UserPassword(cfg.User, cfg.Password), Path: "/" + cfg.Database, RawQuery: q.Encode()}
	return u.String()
}

// filled returns the URL of a database whose table, made by the statements that
// schema prints, holds fixed records.
func (s sqlServer) filled(t *testing.T) (store string) {
	t.Helper()
	store, dsn := s.empty(t)
	db := sqlOpen(t, s.driver, dsn)
	for _, r := range fixed {
		id := r.ID()
		header, body, err := idempotency.EncodeAnswer(t.Context(), nil, idempotency.Request{}, idempotency.Response{Header: r.header, Body: []byte(r.body)})
		if err != nil {
			t.Fatal(err)
		}
		columns, values := "", ""
		if !r.leaseUntil.IsZero() {
			columns, values = ", lease_token, lease_until", ", "+s.blob(id[:])+", "+s.at(r.leaseUntil)
			if s.kind == "postgres" {
				values = strings.Replace(values, s.blob(id[:]), "'"+hex.EncodeToString(id[:])+"'", 1)
			}
		}
		name, key := s.blob(id[:]), "key"
		if s.kind == "postgres" {
			name = "'" + hex.EncodeToString(id[:]) + "'"
		}
		if s.kind == "mysql" {
			key = "`key`"
		}
		text := func(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
		insert := "INSERT INTO idempotency_records (id, scope, operation, " + key + ", fingerprint, status, header, body, created_at, expires_at" + columns +
			") VALUES (" + strings.Join([]string{
			name, text(r.Scope), text(r.Operation), text(r.Key), s.blob([]byte("\x01fingerprint")), fmt.Sprint(r.status),
			s.blob(header), s.blob(body), s.at(r.created), s.at(r.expires),
		}, ", ") + values + ")"
		if _, err := db.ExecContext(t.Context(), insert); err != nil {
			t.Fatalf("%s: %v", insert, err)
		}
	}
	return store
}

// row is a record of fixed content.
type row struct {
	idempotency.Identity
	status           int
	header           http.Header
	body             string
	created, expires time.Time
	leaseUntil       time.Time
}

var (
	past   = time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)
	future = time.Date(2099, 1, 2, 3, 4, 5, 0, time.UTC)
)

// hostileScope would clear a terminal in two ways, turn the text around, rub a
// character out, and begin a line of its own; the last character is none of the
// basic plane.
const hostileScope = "tenant-3\x1b[2J\u009b2J\u202e\x7f\n\"quoted\"\U000e0001"

// fixed are records in every state.
var fixed = []row{
	{
		Identity: idempotency.Identity{Scope: "tenant-1", Operation: "createPayment", Key: "0192f5a0-7c1e-7abc-8def-000000000001"},
		status:   201, header: http.Header{"Content-Type": {"application/json"}, "Location": {"/payments/17"}}, body: `{"id":17,"note":"SECRET"}`,
		created: past, expires: future,
	},
	{
		Identity: idempotency.Identity{Scope: "tenant-2", Operation: "createPayment", Key: "0192f5a0-7c1e-7abc-8def-000000000002"},
		status:   402, header: http.Header{"Content-Type": {"application/problem+json"}}, body: `{"note":"SECRET"}`,
		created: past, expires: past.Add(time.Hour),
	},
	{
		Identity: idempotency.Identity{Scope: "tenant-1", Operation: "createRefund", Key: "order-4711-refund"},
		created:  past, expires: future, leaseUntil: future.Add(-time.Hour),
	},
	{
		Identity: idempotency.Identity{Scope: "tenant-1", Operation: "createRefund", Key: "order-4712-refund"},
		created:  past, expires: future, leaseUntil: past.Add(time.Minute),
	},
	{
		Identity: idempotency.Identity{Scope: hostileScope, Operation: "createPayment", Key: "k"},
		status:   200, header: http.Header{"Content-Type": {"application/octet-stream"}, "X-Note": {"\u009b2J"}}, body: "\x1b[31mSECRET\xff",
		created: past, expires: future,
	},
}

// liveStore is an empty store of each kind, for records that tests make.
type liveStore struct {
	name string
	open func(t *testing.T) string
}

// empty returns the URL of a database whose table the statements that schema
// prints have made, and the driver's own name of it.
func (s sqlServer) empty(t *testing.T) (store, dsn string) {
	t.Helper()
	store, dsn = s.open(t)
	if err := carryOut(t, sqlOpen(t, s.driver, dsn), must(t, exitDone, "", "schema", "-store", s.kind)); err != nil {
		t.Fatal(err)
	}
	return store, dsn
}

// carryOut carries statements out, up to the first that fails.
func carryOut(t *testing.T, db *sql.DB, statements string) error {
	t.Helper()
	for statement := range strings.SplitSeq(statements, ";\n") {
		if strings.TrimSpace(statement) == "" {
			continue
		}
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// Who carries the schema out twice keeps the records, and on PostgreSQL is told.
func TestSchemaTwice(t *testing.T) {
	t.Parallel()
	for _, s := range sqlServers {
		t.Run(s.kind, func(t *testing.T) {
			t.Parallel()
			store, dsn := s.empty(t)
			id := idempotency.Identity{Scope: "tenant", Operation: "pay", Key: "key"}
			if err := execute(t, store, id, "first", func() {}); err != nil {
				t.Fatal(err)
			}
			err := carryOut(t, sqlOpen(t, s.driver, dsn), must(t, exitDone, "", "schema", "-store", s.kind))
			if told := err != nil && strings.Contains(err.Error(), `"idempotency_records" already exists`); told != (s.kind == "postgres") || err != nil && !told {
				t.Errorf("the second time: %v", err)
			}
			must(t, exitDone, "", "show", "-store", store, idText(id))
		})
	}
}

// The line of the docs that makes the table on PostgreSQL fails where psql does.
func TestSchemaThroughPsql(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("psql"); err != nil {
		t.Skipf("psql is not installed: %v", err)
	}
	docs, err := os.ReadFile("../../../docs/idemctl.md")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`idemctl schema -store postgres \| (psql.*)`).FindStringSubmatch(string(docs))
	if line == nil {
		t.Fatal("docs/idemctl.md has no such line")
	}
	store, _ := sqlServers[0].open(t)
	for _, want := range []int{0, 3} { // 3 is psql's for an error in a script
		sh := exec.CommandContext(t.Context(), "sh", "-c", line[1])
		sh.Env = append(os.Environ(), "DATABASE_URL="+store, "LC_ALL=C")
		sh.Stdin = strings.NewReader(must(t, exitDone, "", "schema", "-store", "postgres"))
		out, _ := sh.CombinedOutput()
		if got := sh.ProcessState.ExitCode(); got != want || strings.Contains(string(out), "already exists") != (want == 3) {
			t.Errorf("%s exits with %d, want %d\n%s", line[1], got, want, out)
		}
	}
}

func liveStores() []liveStore {
	var all []liveStore
	for _, s := range sqlServers {
		all = append(all, liveStore{s.kind, func(t *testing.T) string {
			store, _ := s.empty(t)
			return store
		}})
	}
	prefix := func() string {
		return fmt.Sprintf("prefix=%s", url.QueryEscape(fmt.Sprintf("t%d:", time.Now().UnixNano())))
	}
	dynamo := func(server func(testing.TB) string) func(t *testing.T) string {
		return func(t *testing.T) string {
			endpoint := server(t)
			table := fmt.Sprintf("idemctl-%d", time.Now().UnixNano())
			client := dynamodb.New(dynamodb.Options{
				BaseEndpoint: aws.String(endpoint), Region: "eu-central-1",
				Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
					return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
				}),
			})
			create := must(t, exitDone, "", "schema", "-store", "dynamodb", "-table", table)
			if !strings.Contains(create, "create-table --table-name "+table+" --attribute-definitions AttributeName=id,AttributeType=S --key-schema AttributeName=id,KeyType=HASH --billing-mode PAY_PER_REQUEST &&\n") {
				t.Fatalf("schema prints\n%s", create)
			}
			_, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
				TableName: aws.String(table), BillingMode: types.BillingModePayPerRequest,
				AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
				KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
			})
			if err != nil {
				t.Fatal(err)
			}
			return "dynamodb://" + table + "?region=eu-central-1&endpoint=" + url.QueryEscape(endpoint)
		}
	}
	return append(all,
		liveStore{"redis", func(t *testing.T) string { return "redis://" + testenv.Redis(t) + "/0?" + prefix() }},
		liveStore{"redis cluster", func(t *testing.T) string {
			addrs := testenv.RedisCluster(t)
			return "redis://" + addrs[0] + "?cluster=true&addr=" + addrs[1] + "&" + prefix()
		}},
		liveStore{"dynalite", dynamo(testenv.Dynalite)},
		liveStore{"kumo", dynamo(testenv.Kumo)},
	)
}

// execute runs a request on a store; during is called while it runs.
func execute(t *testing.T, store string, id idempotency.Identity, body string, during func()) error {
	t.Helper()
	o, err := open(t.Context(), store, "")
	if err != nil {
		t.Fatal(err)
	}
	defer o.close()
	req := idempotency.Request{Identity: id, Fingerprint: idempotency.Fingerprint{1}, Retention: time.Hour}
	work := func() idempotency.Response {
		during()
		return idempotency.Response{Status: 201, Header: http.Header{"Location": {"/" + body}}, Body: []byte(body)}
	}
	switch s := o.records.(type) {
	case *pgxstore.Store:
		_, err = s.Execute(t.Context(), req, func(context.Context, pgx.Tx) (idempotency.Response, error) { return work(), nil })
	case *sqlstore.Store:
		_, err = s.Execute(t.Context(), req, func(context.Context, *sql.Tx) (idempotency.Response, error) { return work(), nil })
	case *redisstore.Store:
		_, err = s.Execute(t.Context(), req, func(context.Context, *redisstore.Tx) (idempotency.Response, error) { return work(), nil })
	case *dynamostore.Store:
		_, err = s.Execute(t.Context(), req, func(context.Context, *dynamostore.Tx) (idempotency.Response, error) { return work(), nil })
	default:
		t.Fatalf("%T is no store of this test", s)
	}
	return err
}

func sqlOpen(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// A store's URL says which schema it needs, as does its scheme alone. On DynamoDB it
// also says where the table is to be.
func TestSchemaOfURL(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]string{
		"postgresql": "postgres", "postgres://app:hunter2@host/shop": "postgres",
		"mariadb": "mysql", "mysql://app:hunter2@host/shop": "mysql", "mariadb://host/shop": "mysql",
		"sqlite:app.db":                "sqlite",
		"rediss://:hunter2@host:6379/": "redis",
		"dynamodb://idempotency":       "dynamodb",
	} {
		if got, want := must(t, exitDone, "", "schema", "-store", name), must(t, exitDone, "", "schema", "-store", kind); got != want {
			t.Errorf("schema -store %s prints\n%s", name, got)
		}
	}
	const there = "dynamodb://records?region=eu-central-1&endpoint=http://x/'"
	for table, args := range map[string][]string{"records": nil, "others": {"-table", "others"}} {
		got := must(t, exitDone, "", append([]string{"schema", "-store", there}, args...)...)
		if strings.Count(got, `aws --region 'eu-central-1' --endpoint-url 'http://x/'\''' dynamodb `) != 3 || strings.Count(got, "--table-name "+table+" ") != 3 {
			t.Errorf("schema %q prints\n%s", args, got)
		}
	}
	cmd := program(t, "schema", "-table", "answers")
	cmd.Env = append(cmd.Env, envStore+"=mariadb://host/shop")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "`answers_expires_at`") {
		t.Errorf("%v\n%s", err, out)
	}
}

// The commands for DynamoDB make a table and leave one alone that is there, whose
// items a time to live would delete. Without -table it is the one of the docs.
func TestSchemaOfDynamoDB(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		create string // what the AWS CLI exits with
		want   []string
	}{
		"made":  {"0", []string{"create-table", "wait", "update-time-to-live"}},
		"there": {"254", []string{"create-table"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			program := "#!/bin/sh\necho \"$@\" >> " + dir + "/called\n[ \"$2\" != create-table ] || exit " + c.create + "\n"
			if err := os.WriteFile(filepath.Join(dir, "aws"), []byte(program), 0o700); err != nil {
				t.Fatal(err)
			}
			sh := exec.CommandContext(t.Context(), "sh")
			sh.Env = []string{"PATH=" + dir}
			sh.Stdin = strings.NewReader(must(t, exitDone, "", "schema", "-store", "dynamodb"))
			if out, err := sh.CombinedOutput(); (err != nil) != (c.create != "0") {
				t.Errorf("%v: %s", err, out)
			}
			called, err := os.ReadFile(filepath.Join(dir, "called"))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for line := range strings.Lines(string(called)) {
				if !strings.Contains(line, " --table-name idempotency") {
					t.Errorf("of another table: %s", line)
				}
				got = append(got, strings.Fields(line)[1])
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("called %q, want %q", got, c.want)
			}
		})
	}
}
