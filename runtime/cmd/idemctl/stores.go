package main

import (
	"context"
	"crypto/tls"
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
	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/idemgen/idemgen/runtime/dynamostore"
	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/pgxstore"
	"github.com/idemgen/idemgen/runtime/redisstore"
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

// open opens the store that a URL names.
func open(ctx context.Context, store, table string) (opened, error) {
	if store == "" {
		return opened{}, misuse("no store is given: set %s or -store to its URL", envStore)
	}
	scheme, rest, _ := strings.Cut(store, ":")
	if scheme == "sqlite" {
		return openSQLite(ctx, rest, table)
	}
	u, err := url.Parse(store)
	if err != nil { // which may hold the password
		return opened{}, misuse("the store's URL cannot be read: characters such as @ : / ? # %% in a password are written %%40 %%3A %%2F %%3F %%23 %%25")
	}
	switch u.Scheme {
	case "mysql", "redis", "rediss":
		if u.Host == "" { // the drivers would take this machine
			return opened{}, misuse("the store's URL names no host: it begins with %s://USER:PASSWORD@HOST", u.Scheme)
		}
	}
	switch u.Scheme {
	case "postgres", "postgresql":
		return openPostgres(ctx, store, table)
	case "mysql":
		return openMySQL(ctx, u, table)
	}
	if table != "" {
		return opened{}, misuse("-table is for SQL stores: for Redis add prefix=… to the URL; DynamoDB's table stands in place of its host")
	}
	switch u.Scheme {
	case "redis", "rediss":
		return openRedis(ctx, u)
	case "dynamodb":
		return openDynamoDB(ctx, u)
	}
	return opened{}, misuse("the store's URL begins with %q: use postgres, mysql, sqlite, redis, rediss or dynamodb", scheme+":")
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
		return opened{}, misuse("a store of SQLite is sqlite:FILE, with the file's path, absolute or not")
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

// quiet drops what go-redis logs: whatever matters is an error as well.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func openRedis(ctx context.Context, u *url.URL) (opened, error) {
	q := u.Query()
	take := func(name string) string {
		v := q.Get(name)
		q.Del(name)
		return v
	}
	cluster, master, prefix, tag := take("cluster"), take("sentinel"), take("prefix"), take("hash_tag")
	addrs := append([]string{hostPort(u, "6379")}, q["addr"]...)
	q.Del("addr")
	plain := *u
	plain.RawQuery = q.Encode()
	o, err := redis.ParseURL(plain.String())
	if err != nil {
		return opened{}, misuse("the settings in the store's URL: %v", err)
	}
	var opts []redisstore.Option
	if prefix != "" {
		opts = append(opts, redisstore.WithPrefix(prefix))
	}
	if tag != "" {
		opts = append(opts, redisstore.WithHashTag(func(idempotency.Identity) string { return tag }))
	}
	o.ContextTimeoutEnabled = true
	var client redis.UniversalClient
	switch {
	case cluster != "" && cluster != "true" && cluster != "false":
		return opened{}, misuse("cluster=%s in the store's URL: use true or false", cluster)
	case cluster == "true" && master != "":
		return opened{}, misuse("the store's URL has both cluster and sentinel: use one")
	case cluster == "true":
		client = redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: addrs, Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig,
			DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout, ContextTimeoutEnabled: true,
		})
	case master != "":
		client = redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: master, SentinelAddrs: addrs, Username: o.Username, Password: o.Password, DB: o.DB, TLSConfig: anyHost(o.TLSConfig),
			DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout, ContextTimeoutEnabled: true,
		})
	default:
		client = redis.NewClient(o)
	}
	s, err := redisstore.New(ctx, client, append(opts, redisstore.WithLogger(nil))...)
	return keep(s, err, func() { _ = client.Close() })
}

// anyHost is c for several servers: each is verified by its own name.
func anyHost(c *tls.Config) *tls.Config {
	if c == nil {
		return nil
	}
	c = c.Clone()
	c.ServerName = ""
	return c
}

func openDynamoDB(ctx context.Context, u *url.URL) (opened, error) {
	q := u.Query()
	for name := range q {
		if !slices.Contains([]string{"region", "endpoint", "profile", "prefix"}, name) {
			return opened{}, misuse("the store's URL has the parameter %s: a DynamoDB store knows region, endpoint, profile and prefix", name)
		}
	}
	if u.User != nil {
		return opened{}, misuse("a DynamoDB store takes credentials from where AWS's tools do, such as AWS_PROFILE, and none in its URL")
	}
	load := []func(*config.LoadOptions) error{config.WithSharedConfigProfile(q.Get("profile"))}
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
	s, err := dynamostore.New(ctx, client, u.Host+u.Path, dynamostore.WithPrefix(q.Get("prefix")), dynamostore.WithoutTTL())
	return keep(s, err, func() {})
}
