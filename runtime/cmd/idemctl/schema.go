package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/idemgen/idemgen/runtime/pgxstore"
	"github.com/idemgen/idemgen/runtime/sqlstore"
)

func schemaFlags(inv *invocation, f *flag.FlagSet) {
	storeFlag(inv, f)
	f.BoolVar(&inv.partitioned, "partitioned", false, "")
}

// schema prints what creates the table.
func schema(_ context.Context, inv *invocation) error {
	text, err := schemaOf(inv.store, inv.table, inv.partitioned)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(inv.stdout, text)
	return err
}

// schemaOf takes a kind of store, or the URL of a store.
func schemaOf(store, table string, partitioned bool) (text string, err error) {
	name, _, isURL := strings.Cut(store, ":")
	kind := schemes[name].kind
	if partitioned && kind != "postgres" {
		return "", misuse("-partitioned is for -store postgres")
	}
	switch kind {
	case "postgres":
		var opts []pgxstore.Option
		if table != "" {
			opts = append(opts, pgxstore.WithTable(table))
		}
		if partitioned {
			opts = append(opts, pgxstore.WithPartitions(24*time.Hour)) // the width does not matter to the schema
		}
		text, err = pgxstore.Schema(opts...)
	case "mysql":
		text, err = sqlSchema(sqlstore.MySQL, table)
	case "sqlite":
		text, err = sqlSchema(sqlstore.SQLite, table)
	case "dynamodb":
		aws := "aws"
		if isURL {
			if aws, table, err = fromURL(store, table); err != nil {
				return "", err
			}
		}
		return dynamoSchema(aws, table)
	case "redis":
		if table != "" {
			return "", misuse("-table is for stores with tables; on Redis redisstore.WithPrefix chooses the names of keys")
		}
		return redisSettings, nil
	default:
		return "", misuse("schema takes -store postgres, mysql, sqlite, dynamodb or redis, or a store's URL, and without -store that of %s", envStore)
	}
	if err != nil {
		err = misuse("-table: %v", err)
	}
	return text, err
}

func sqlSchema(d sqlstore.Dialect, table string) (string, error) {
	if table == "" {
		return sqlstore.Schema(d)
	}
	return sqlstore.Schema(d, sqlstore.WithTable(table))
}

// dynamoTable is what DynamoDB takes as a table's name.
var dynamoTable = regexp.MustCompile(`^[A-Za-z0-9_.-]{3,255}$`)

// fromURL returns the command that reaches the account of a store's URL, and the
// store's table unless another one is given.
func fromURL(store, table string) (aws, ofStore string, err error) {
	u, err := url.Parse(store)
	if err != nil {
		return "", "", misuse("the store's URL is not of the form %s", schemes["dynamodb"].form)
	}
	ofStore, err = tableOf(u)
	aws = "aws"
	for _, name := range []string{"profile", "region", "endpoint"} {
		if value := u.Query().Get(name); value != "" {
			aws += " --" + strings.Replace(name, "endpoint", "endpoint-url", 1) + " '" + strings.ReplaceAll(value, "'", `'\''`) + "'"
		}
	}
	return aws, cmp.Or(table, ofStore), err
}

// dynamoSchema is what dynamostore.CreateTable does, as commands. They touch no table
// that is there: time to live would delete items of one that holds something else.
func dynamoSchema(aws, table string) (string, error) {
	if table == "" {
		table = "idempotency"
	}
	if !dynamoTable.MatchString(table) {
		return "", misuse("-table: %q cannot be a table's name: use 3 to 255 letters, digits, _, - and .", table)
	}
	return fmt.Sprintf(`%[2]s dynamodb create-table --table-name %[1]s --attribute-definitions AttributeName=id,AttributeType=S --key-schema AttributeName=id,KeyType=HASH --billing-mode PAY_PER_REQUEST &&
%[2]s dynamodb wait table-exists --table-name %[1]s &&
%[2]s dynamodb update-time-to-live --table-name %[1]s --time-to-live-specification Enabled=true,AttributeName=ttl
`, table, aws), nil
}

// redisSettings are lines of redis.conf.
const redisSettings = `# There is nothing to create: redisstore makes a key for each record, which ends by
# its time to live. These are settings of the server, for redis.conf.

# A server that evicts forgets keys whose requests were executed. The store
# refuses any other policy.
maxmemory-policy noeviction

# A server that restarts without its last writes has lost answers that clients have.
appendonly yes
# After each write, so that none is lost; everysec loses up to two seconds of them.
appendfsync always
`
