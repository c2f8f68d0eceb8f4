package dynamostore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemgen/idemgen/runtime/dynamostore"
	"github.com/idemgen/idemgen/runtime/idempotency"
)

// temporary is the name of a table that is deleted after the test.
func temporary(t *testing.T, client *dynamodb.Client) string {
	name := fmt.Sprintf("idemgen-test-%d", time.Now().UnixNano())
	t.Cleanup(func() {
		_, _ = client.DeleteTable(context.WithoutCancel(t.Context()), &dynamodb.DeleteTableInput{TableName: aws.String(name)}) // it may not be there
	})
	return name
}

// A table that is missing, has another key or keeps records for ever is reported
// with what to do about it.
func TestNewRefuses(t *testing.T) {
	t.Parallel()
	client := newClient(dynalite.url(t))
	withKey := func(kind types.ScalarAttributeType, names ...string) func(*dynamodb.CreateTableInput) {
		return func(in *dynamodb.CreateTableInput) {
			in.KeySchema, in.AttributeDefinitions = nil, nil
			for i, name := range names {
				in.KeySchema = append(in.KeySchema, types.KeySchemaElement{
					AttributeName: aws.String(name), KeyType: []types.KeyType{types.KeyTypeHash, types.KeyTypeRange}[i],
				})
				in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{AttributeName: aws.String(name), AttributeType: kind})
			}
		}
	}
	for _, c := range []struct {
		name   string
		change func(*dynamodb.CreateTableInput) // of the table; nil makes none
		want   []string
	}{
		{"missing", nil, []string{"there is no table", region(), *client.Options().BaseEndpoint, "CreateTable", "idemctl schema -store dynamodb -table idemgen-test-"}},
		{"another key", withKey(types.ScalarAttributeTypeS, "pk"), []string{`partition key "id"`, "another name"}},
		{"binary key", withKey(types.ScalarAttributeTypeB, "id"), []string{`type S`, "another name"}},
		{"sort key", withKey(types.ScalarAttributeTypeS, "id", "sk"), []string{`no sort key`, "another name"}},
		{"no time to live", func(*dynamodb.CreateTableInput) {}, []string{"for ever", "WithoutTTL", "nothing but records", "update-time-to-live --table-name idemgen-test-"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			table := temporary(t, client)
			if c.change != nil {
				in := dynamostore.TableInput(table)
				c.change(in)
				if _, err := client.CreateTable(t.Context(), in); err != nil {
					t.Fatal(err)
				}
				if err := ready(t.Context(), client, table); err != nil {
					t.Fatal(err)
				}
			}
			_, err := dynamostore.New(t.Context(), client, table)
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %q", err, want)
				}
			}
		})
	}
	for name, opt := range map[string]dynamostore.Option{
		"WithPrefix":        dynamostore.WithPrefix(strings.Repeat("x", 65)),
		"WithPrefix:":       dynamostore.WithPrefix("no text \xff"),
		"WithLease":         dynamostore.WithLease(time.Second, time.Millisecond),
		"WithClockSkew":     dynamostore.WithClockSkew(-1),
		"WithClaimTimeout":  dynamostore.WithClaimTimeout(0),
		"WithFinishTimeout": dynamostore.WithFinishTimeout(-1),
	} {
		if _, err := dynamostore.New(t.Context(), client, dynalite.table(t), dynamostore.WithoutTTL(), opt); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := dynamostore.New(t.Context(), client, ""); err == nil {
		t.Error("no table name: no error")
	}
}

// A service that does not answer, or refuses the client, is reported with what to
// look at.
func TestNewIsNotAnswered(t *testing.T) {
	t.Parallel()
	refusing := func(operation string, f fate) func(*testing.T) string {
		return func(t *testing.T) string {
			p := newProxy(t, dynalite.url(t))
			p.on(operation, f, 10)
			return p.URL
		}
	}
	for _, c := range []struct {
		name   string
		url    func(*testing.T) string
		change func(*dynamodb.Options)
		want   []string
	}{
		{"nobody there", func(*testing.T) string { return "http://127.0.0.1:1" }, nil, []string{"refused", "its endpoint"}},
		{"no credentials", func(t *testing.T) string { return dynalite.url(t) }, func(o *dynamodb.Options) {
			o.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
				return aws.Credentials{}, errors.New("none found")
			})
		}, []string{"none found", "credentials"}},
		{"no region", func(t *testing.T) string { return dynalite.url(t) }, func(o *dynamodb.Options) { o.Region, o.BaseEndpoint = "", nil }, []string{"set AWS_REGION"}},
		{"expired credentials", refusing("DescribeTable", expire), nil, []string{"refuses the client", "its credentials"}},
		{"no permission", refusing("DescribeTable", deny), nil, []string{"lack a permission"}},
		{"no time to live known", refusing("DescribeTimeToLive", misread), nil, []string{"dynamostore: give New the option WithoutTTL"}},
		{"no permission to look at the time to live", refusing("DescribeTimeToLive", deny), nil, []string{"lack a permission"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			client := newClient(c.url(t), once)
			if c.change != nil {
				client = newClient(c.url(t), once, c.change)
			}
			table := dynalite.table(t)
			_, err := dynamostore.New(t.Context(), client, table)
			for _, want := range append(c.want, table) {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %q", err, want)
				}
			}
		})
	}
}

// Programs that start together may all create the table, and again later.
//
// Covers STO-22.
func TestCreateTable(t *testing.T) {
	t.Parallel()
	for _, s := range transactional {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			client := newClient(s.url(t))
			table := temporary(t, client)
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					if err := dynamostore.CreateTable(t.Context(), client, table); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if err := dynamostore.CreateTable(t.Context(), client, table); err != nil {
				t.Error(err)
			}
			if _, err := dynamostore.New(t.Context(), client, table); err != nil {
				t.Error(err)
			}
		})
	}
}

// CreateTable leaves a table alone that is not, or may not be, the store's: DynamoDB
// would delete its items. New says that it is not, and names no command that
// would do the same.
func TestCreateTableKeepsOthers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, key, ttl string
		filled         bool
		want           string
	}{
		{"another key", "pk", "", false, `partition key "id"`},
		{"items", "id", "", true, "nothing but records"},
		{"time to live elsewhere", "id", "ends", false, `in the attribute "ends"`},
	} {
		for _, s := range transactional {
			t.Run(c.name+s.name, func(t *testing.T) {
				t.Parallel()
				client := newClient(s.url(t))
				table := temporary(t, client)
				in := dynamostore.TableInput(table)
				in.AttributeDefinitions[0].AttributeName, in.KeySchema[0].AttributeName = &c.key, &c.key
				if _, err := client.CreateTable(t.Context(), in); err != nil {
					t.Fatal(err)
				}
				if err := ready(t.Context(), client, table); err != nil {
					t.Fatal(err)
				}
				if c.filled {
					_, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: item{c.key: text("4711"), "ttl": number(1)}})
					if err != nil {
						t.Fatal(err)
					}
				}
				if c.ttl != "" {
					_, err := client.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
						TableName: &table, TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: &c.ttl, Enabled: aws.Bool(true)},
					})
					if err != nil {
						t.Fatal(err)
					}
				}
				err := dynamostore.CreateTable(t.Context(), client, table)
				_, errNew := dynamostore.New(t.Context(), client, table)
				for _, err := range []error{err, errNew} {
					if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "another name") || strings.Contains(err.Error(), "idemctl") {
						t.Errorf("%v, want %q, another name and no idemctl", err, c.want)
					}
				}
				out, err := client.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: &table})
				if err != nil {
					t.Fatal(err)
				}
				if ttl := out.TimeToLiveDescription; aws.ToString(ttl.AttributeName) != c.ttl {
					t.Errorf("the time to live is %s in %q", ttl.TimeToLiveStatus, aws.ToString(ttl.AttributeName))
				}
			})
		}
	}
}

// A table that was created by other means, and is empty, gets its time to live. An
// emulator that has none is reported with the option for it.
func TestCreateTableTurnsTTLOn(t *testing.T) {
	t.Parallel()
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			client := newClient(s.url(t))
			table := temporary(t, client)
			if _, err := client.CreateTable(t.Context(), dynamostore.TableInput(table)); err != nil {
				t.Fatal(err)
			}
			err := dynamostore.CreateTable(t.Context(), client, table)
			if !s.ttl {
				if err == nil || !strings.HasPrefix(err.Error(), "dynamostore: give New the option WithoutTTL") {
					t.Errorf("%v, want WithoutTTL", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := dynamostore.New(t.Context(), client, table); err != nil {
				t.Error(err)
			}
		})
	}
}

// The store is refused by the compiler where an operation is in lease mode.
func TestIsNoLeaser(t *testing.T) {
	t.Parallel()
	if _, leases := any(new(dynamostore.Store)).(idempotency.Leaser); leases {
		t.Error("the store is an idempotency.Leaser: say so in its documentation and run storetest.RunLeases")
	}
}
