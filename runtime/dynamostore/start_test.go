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
		{"missing", nil, []string{"there is no table", "CreateTable"}},
		{"another key", withKey(types.ScalarAttributeTypeS, "pk"), []string{`partition key "id"`}},
		{"binary key", withKey(types.ScalarAttributeTypeB, "id"), []string{`type S`}},
		{"sort key", withKey(types.ScalarAttributeTypeS, "id", "sk"), []string{`no sort key`}},
		{"no time to live", func(*dynamodb.CreateTableInput) {}, []string{"for ever", "WithoutTTL"}},
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
			for _, want := range append(c.want, "idemctl schema -store dynamodb -table "+table) {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %q", err, want)
				}
			}
		})
	}
	for name, opt := range map[string]dynamostore.Option{
		"WithPrefix":        dynamostore.WithPrefix(strings.Repeat("x", 65)),
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
	refusing := func(code string) func(*testing.T) string {
		return func(t *testing.T) string {
			p := newProxy(t, dynalite.url(t))
			p.on("DescribeTable", map[string]fate{"ExpiredTokenException": expire, "AccessDeniedException": deny}[code], 10)
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
		{"no region", func(t *testing.T) string { return dynalite.url(t) }, func(o *dynamodb.Options) { o.Region, o.BaseEndpoint = "", nil }, []string{"its region"}},
		{"expired credentials", refusing("ExpiredTokenException"), nil, []string{"refuses the client", "its credentials"}},
		{"no permission", refusing("AccessDeniedException"), nil, []string{"lack a permission"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			client := newClient(c.url(t), once)
			if c.change != nil {
				client = newClient(c.url(t), once, c.change)
			}
			_, err := dynamostore.New(t.Context(), client, "some-table")
			for _, want := range append(c.want, "some-table") {
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

// The store is refused by the compiler where an operation is in lease mode.
func TestIsNoLeaser(t *testing.T) {
	t.Parallel()
	if _, leases := any(new(dynamostore.Store)).(idempotency.Leaser); leases {
		t.Error("the store is an idempotency.Leaser: say so in its documentation and run storetest.RunLeases")
	}
}
