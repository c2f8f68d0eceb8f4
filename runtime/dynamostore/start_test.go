package dynamostore_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemgen/idemgen/runtime/dynamostore"
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
		{"missing", nil, []string{"there is no table", "dynamostore.CreateTable", "aws dynamodb create-table --table-name "}},
		{"another key", withKey(types.ScalarAttributeTypeS, "pk"), []string{`partition key "id"`, "aws dynamodb create-table"}},
		{"binary key", withKey(types.ScalarAttributeTypeB, "id"), []string{`type S`}},
		{"sort key", withKey(types.ScalarAttributeTypeS, "id", "sk"), []string{`no sort key`}},
		{"no time to live", func(*dynamodb.CreateTableInput) {}, []string{"for ever", "aws dynamodb update-time-to-live --table-name ", "WithoutTTL"}},
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
			for _, want := range append(c.want, table) {
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
