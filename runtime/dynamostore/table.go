package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// tableInput describes the table. Billing is on demand.
func tableInput(table string) *dynamodb.CreateTableInput {
	return &dynamodb.CreateTableInput{
		TableName:            aws.String(table),
		BillingMode:          types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String(attrID), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String(attrID), KeyType: types.KeyTypeHash}},
	}
}

// creationTimeout bounds the wait for a new table.
const creationTimeout = 5 * time.Minute

// CreateTable creates the table, with on-demand billing, waits until it can be
// used, and turns its time to live on. A table that is there is left as it is,
// but for its time to live; whether it is the right one, [New] says. Programs
// that start together may all call it.
func CreateTable(ctx context.Context, client *dynamodb.Client, table string) error {
	_, err := client.CreateTable(ctx, tableInput(table))
	if exists := new(types.ResourceInUseException); err != nil && !errors.As(err, &exists) {
		return fmt.Errorf("dynamostore: create table %s: %w", table, err)
	}
	waiter := dynamodb.NewTableExistsWaiter(client, func(o *dynamodb.TableExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = time.Second/4, 5*time.Second
	})
	if err := waiter.Wait(ctx, &dynamodb.DescribeTableInput{TableName: aws.String(table)}, creationTimeout); err != nil {
		return fmt.Errorf("dynamostore: wait for table %s: %w", table, err)
	}
	on, err := hasTTL(ctx, client, table)
	if on || err != nil {
		return err
	}
	_, err = client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName:               aws.String(table),
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(attrTTL), Enabled: aws.Bool(true)},
	})
	if err == nil {
		return nil
	}
	// Another program may have been faster.
	if on, lookErr := hasTTL(ctx, client, table); on && lookErr == nil {
		return nil
	}
	return fmt.Errorf("dynamostore: turn the time to live of table %s on: %w", table, err)
}

// hasTTL reports whether the table deletes by our attribute.
func hasTTL(ctx context.Context, client *dynamodb.Client, table string) (bool, error) {
	out, err := client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: aws.String(table)})
	if err != nil {
		return false, fmt.Errorf("dynamostore: look whether table %s has a time to live: %w", table, err)
	}
	ttl := out.TimeToLiveDescription
	if ttl == nil {
		return false, nil
	}
	on := ttl.TimeToLiveStatus == types.TimeToLiveStatusEnabled || ttl.TimeToLiveStatus == types.TimeToLiveStatusEnabling
	return on && aws.ToString(ttl.AttributeName) == attrTTL, nil
}

// verify examines the table.
func verify(ctx context.Context, client *dynamodb.Client, table string, withoutTTL bool) error {
	create := "CreateTable makes one, or the commands that this prints: idemctl schema -store dynamodb -table " + table
	out, err := client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: aws.String(table)})
	if missing := new(types.ResourceNotFoundException); errors.As(err, &missing) {
		return fmt.Errorf("dynamostore: there is no table %s in this account and region: %s: %w", table, create, err)
	}
	if err != nil {
		return fmt.Errorf("dynamostore: describe table %s: %s: %w", table, reason(err), err)
	}
	if t := out.Table; !hasKey(t) {
		return fmt.Errorf(`dynamostore: table %s has another key than a partition key "id" of type S and no sort key: use a table of its own for the records: %s`, table, create)
	} else if t.TableStatus != types.TableStatusActive && t.TableStatus != types.TableStatusUpdating {
		return fmt.Errorf("dynamostore: table %s is %s: wait until it is ACTIVE (aws dynamodb wait table-exists --table-name %s)", table, t.TableStatus, table)
	}
	if withoutTTL {
		return nil
	}
	switch on, err := hasTTL(ctx, client, table); {
	case err != nil:
		return fmt.Errorf("%w (%s)", err, reason(err))
	case !on:
		return fmt.Errorf(`dynamostore: table %s would keep expired records for ever: turn its time to live on, in the attribute "ttl": CreateTable does it, or the commands that this prints: `+
			`idemctl schema -store dynamodb -table %s; or say WithoutTTL`, table, table)
	}
	return nil
}

// reason says what to do about err, by which a request has failed.
func reason(err error) string {
	switch {
	case isCode(err, "AccessDeniedException"):
		return "the client's credentials lack a permission, see the package's documentation"
	case isRefusal(err):
		return "DynamoDB refuses the client: check its credentials and its region"
	}
	return "no answer: check the client's credentials, its region and its endpoint"
}

// hasKey reports whether the key of t is the one that [tableInput] describes.
func hasKey(t *types.TableDescription) bool {
	if t == nil || len(t.KeySchema) != 1 || aws.ToString(t.KeySchema[0].AttributeName) != attrID {
		return false
	}
	for _, a := range t.AttributeDefinitions {
		if aws.ToString(a.AttributeName) == attrID {
			return a.AttributeType == types.ScalarAttributeTypeS
		}
	}
	return false
}
