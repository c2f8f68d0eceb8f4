package main

import (
	"context"
	"flag"
	"fmt"
	"regexp"
	"time"

	"github.com/idemgen/idemgen/runtime/pgxstore"
	"github.com/idemgen/idemgen/runtime/sqlstore"
)

func schemaFlags(inv *invocation, f *flag.FlagSet) {
	f.StringVar(&inv.store, "store", "", "")
	f.StringVar(&inv.table, "table", "", "")
	f.BoolVar(&inv.partitioned, "partitioned", false, "")
}

// schema prints what creates the table.
func schema(_ context.Context, inv *invocation) error {
	if inv.partitioned && inv.store != "postgres" {
		return misuse("-partitioned is for -store postgres")
	}
	text, err := schemaOf(inv.store, inv.table, inv.partitioned)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(inv.stdout, text)
	return err
}

func schemaOf(store, table string, partitioned bool) (text string, err error) {
	switch store {
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
		return dynamoSchema(table)
	case "redis":
		if table != "" {
			return "", misuse("-table is for stores with tables; on Redis redisstore.WithPrefix chooses the names of keys")
		}
		return redisSettings, nil
	default:
		return "", misuse("-store is %q: schema takes postgres, mysql, sqlite, dynamodb or redis", store)
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

// dynamoSchema is what dynamostore.CreateTable does, as commands. They touch no table
// that is there: time to live would delete items of one that holds something else.
func dynamoSchema(table string) (string, error) {
	if table == "" {
		table = "idempotency"
	}
	if !dynamoTable.MatchString(table) {
		return "", misuse("-table: %q cannot be a table's name: use 3 to 255 letters, digits, _, - and .", table)
	}
	return fmt.Sprintf(`aws dynamodb create-table --table-name %[1]s --attribute-definitions AttributeName=id,AttributeType=S --key-schema AttributeName=id,KeyType=HASH --billing-mode PAY_PER_REQUEST &&
aws dynamodb wait table-exists --table-name %[1]s &&
aws dynamodb update-time-to-live --table-name %[1]s --time-to-live-specification Enabled=true,AttributeName=ttl
`, table), nil
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
