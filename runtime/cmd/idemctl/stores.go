package main

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/logging"
	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/idemgen/idemgen/runtime/dynamostore"
	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/pgxstore"
	"github.com/idemgen/idemgen/runtime/sqlstore"
)

// records is what a store offers to operators.
type records interface {
	idempotency.Keeper
	idempotency.Lister
}

// opened is a store and what ends it.
type opened struct {
	records records
	close   func()
}

// schemes are what a store's URL begins with: the kind of store, and what the URL
// looks like.
var schemes = map[string]struct{ kind, form string }{
	"postgres":   {"postgres", "postgres://HOST/DATABASE"},
	"postgresql": {"postgres", "postgresql://HOST/DATABASE"},
	"mysql":      {"mysql", "mysql://HOST/DATABASE"},
	"mariadb":    {"mysql", "mariadb://HOST/DATABASE"},
	"sqlite":     {"sqlite", "sqlite:FILE, with the file's path, absolute or not"},
	"redis":      {"redis", "redis://HOST:PORT/0"},
	"rediss":     {"redis", "rediss://HOST:PORT/0"},
	"dynamodb":   {"dynamodb", "dynamodb://TABLE?region=REGION"},
}

// errNoStore is for commands that need one.
var errNoStore = misuse("no store is given: set %s or -store to its URL", envStore)

// open opens the store that a URL names. What it says of a URL that cannot be read
// does not quote it, since that may hold a password anywhere.
func open(ctx context.Context, store, table string) (opened, error) {
	if store == "" {
		return opened{}, errNoStore
	}
	name, rest, _ := strings.Cut(store, ":")
	scheme, known := schemes[name]
	if !known {
		return opened{}, misuse("the store's URL begins with none of postgres://, mysql://, sqlite:, redis://, rediss:// and dynamodb://")
	}
	if scheme.kind == "sqlite" {
		return openSQLite(ctx, rest, table)
	}
	u, err := url.Parse(store)
	if err != nil {
		return opened{}, misuse("the store's URL cannot be read: characters such as @ : / ? # %% in a password are written %%40 %%3A %%2F %%3F %%23 %%25")
	}
	if !strings.HasPrefix(rest, "//") || u.Host == "" && scheme.kind != "postgres" { // drivers but pgx would take this machine
		return opened{}, wrongForm(name)
	}
	switch {
	case scheme.kind == "postgres":
		return openPostgres(ctx, store, table)
	case scheme.kind == "mysql":
		return openMySQL(ctx, u, table)
	case table != "":
		return opened{}, misuse("-table is for SQL stores: for Redis add prefix=… to the URL; DynamoDB's table stands in place of its host")
	case scheme.kind == "dynamodb":
		return openDynamoDB(ctx, u)
	}
	return openRedis(ctx, u)
}

func wrongForm(scheme string) error {
	return misuse("the store's URL is not of the form %s", schemes[scheme].form)
}

func openPostgres(ctx context.Context, store, table string) (opened, error) {
	cfg, err := pgxpool.ParseConfig(store)
	if err != nil {
		return opened{}, misuse("%v", err)
	}
	cfg.MaxConns = 2
	var opts []pgxstore.Option
	if table != "" {
		opts = append(opts, pgxstore.WithTable(table))
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return opened{}, err
	}
	s, err := pgxstore.New(ctx, pool, opts...)
	return keep(s, err, pool.Close)
}

func openMySQL(ctx context.Context, u *url.URL, table string) (opened, error) {
	cfg, err := mysql.ParseDSN("tcp(" + hostPort(u, "3306") + ")/?" + u.RawQuery)
	if err != nil {
		return opened{}, misuse("the settings in the store's URL: %v", err)
	}
	cfg.User = u.User.Username()
	cfg.Passwd, _ = u.User.Password()
	cfg.DBName = strings.TrimPrefix(u.Path, "/")
	if cfg.DBName == "" {
		return opened{}, wrongForm(u.Scheme)
	}
	cfg.Logger = &mysql.NopLogger{} // what fails is an error as well
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return opened{}, misuse("the settings in the store's URL: %v", err)
	}
	return openSQL(ctx, sql.OpenDB(connector), sqlstore.MySQL, table)
}

func hostPort(u *url.URL, port string) string {
	if u.Port() != "" {
		port = u.Port()
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// openSQLite opens a file that is there, as servers do but for its journal mode,
// which is in the file.
func openSQLite(ctx context.Context, file, table string) (opened, error) {
	if strings.HasPrefix(file, "///") {
		file = file[2:]
	}
	if file == "" || strings.HasPrefix(file, "//") {
		return opened{}, wrongForm("sqlite")
	}
	if _, err := os.Stat(file); err != nil {
		return opened{}, fmt.Errorf("idemctl makes no database: %w; a new one begins with idemctl schema -store sqlite | sqlite3 FILE", err)
	}
	dsn := "file:" + (&url.URL{Path: file}).EscapedPath() + "?mode=rw&_pragma=busy_timeout(5000)&_pragma=synchronous(full)"
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return opened{}, err
	}
	return openSQL(ctx, db, sqlstore.SQLite, table)
}

func openSQL(ctx context.Context, db *sql.DB, d sqlstore.Dialect, table string) (opened, error) {
	db.SetMaxOpenConns(2)
	var opts []sqlstore.Option
	if table != "" {
		opts = append(opts, sqlstore.WithTable(table))
	}
	s, err := sqlstore.New(ctx, db, d, opts...)
	return keep(s, err, func() { _ = db.Close() })
}

// keep returns a store, or closes what it was to be opened on.
func keep(s records, err error, closing func()) (opened, error) {
	if err != nil {
		closing()
		return opened{}, err
	}
	return opened{s, closing}, nil
}

// tableOf returns the table that a URL of DynamoDB names, if idemctl knows all that
// is in it.
func tableOf(u *url.URL) (string, error) {
	for name := range u.Query() {
		if !slices.Contains([]string{"region", "endpoint", "profile", "prefix"}, name) {
			return "", misuse("the store's URL has the parameter %s: a DynamoDB store knows region, endpoint, profile and prefix", name)
		}
	}
	if u.User != nil {
		return "", misuse("a DynamoDB store takes credentials from where AWS's tools do, such as AWS_PROFILE, and none in its URL")
	}
	table := u.Host + strings.TrimSuffix(u.Path, "/")
	if !dynamoTable.MatchString(table) {
		return "", misuse("the store's URL is not of the form %s: %q cannot be a table's name", schemes["dynamodb"].form, table)
	}
	return table, nil
}

func openDynamoDB(ctx context.Context, u *url.URL) (opened, error) {
	table, err := tableOf(u)
	if err != nil {
		return opened{}, err
	}
	q := u.Query()
	load := []func(*config.LoadOptions) error{
		config.WithSharedConfigProfile(q.Get("profile")),
		config.WithLogger(logging.Nop{}), // what matters is an error as well
	}
	if region := q.Get("region"); region != "" {
		load = append(load, config.WithRegion(region))
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return opened{}, err
	}
	if cfg.Region == "" {
		return opened{}, misuse("the store's region is not known: add region=… to its URL, or set AWS_REGION")
	}
	client := dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) {
		if endpoint := q.Get("endpoint"); endpoint != "" {
			o.BaseEndpoint = aws.String(endpoint)
		}
	})
	// Who looks after records needs no time to live.
	s, err := dynamostore.New(ctx, client, table, dynamostore.WithPrefix(q.Get("prefix")), dynamostore.WithoutTTL())
	return keep(s, err, func() {})
}
