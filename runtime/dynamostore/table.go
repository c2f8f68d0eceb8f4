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
// used, and turns its time to live on. Programs that start together may all call
// it.
//
// A table that is there is left as it is, but for its time to live, which is turned
// on where it is off and the table empty: in one with items DynamoDB might delete
// what is not the store's. To see that, the client needs the permission
// dynamodb:Scan. CreateTable returns an error, and changes nothing, where the table
// has items and no time to live, another key, or its time to live in another
// attribute.
func CreateTable(ctx context.Context, client *dynamodb.Client, table string) error {
	_, err := client.CreateTable(ctx, tableInput(table))
	exists := new(types.ResourceInUseException)
	if err != nil && !errors.As(err, &exists) {
		return fmt.Errorf("dynamostore: create table %s: %s: %w", table, reason(client, err), err)
	}
	made := err == nil
	waiter := dynamodb.NewTableExistsWaiter(client, func(o *dynamodb.TableExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = time.Second/4, 5*time.Second
	})
	out, err := waiter.WaitForOutput(ctx, &dynamodb.DescribeTableInput{TableName: aws.String(table)}, creationTimeout)
	if err != nil {
		return fmt.Errorf("dynamostore: wait for table %s: %w", table, err)
	}
	if !hasKey(out.Table) {
		return wrongKey(table)
	}
	on, err := hasTTL(ctx, client, table)
	if on || err != nil {
		return err
	}
	if err = turnTTLOn(ctx, client, table, made); err == nil {
		return nil
	}
	// Another program may have been faster.
	if on, lookErr := hasTTL(ctx, client, table); on && lookErr == nil {
		return nil
	}
	return err
}

// turnTTLOn turns the time to live of a table on that was just made, or is empty.
func turnTTLOn(ctx context.Context, client *dynamodb.Client, table string, made bool) error {
	if !made {
		found, err := client.Scan(ctx, &dynamodb.ScanInput{
			TableName: aws.String(table), Limit: aws.Int32(1), Select: types.SelectCount, ConsistentRead: aws.Bool(true),
		})
		if err != nil {
			return fmt.Errorf("dynamostore: look whether table %s is empty, before its time to live is turned on: %s: %w", table, reason(client, err), err)
		}
		if found.Count > 0 {
			return withoutTTL(table)
		}
	}
	_, err := client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName:               aws.String(table),
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(attrTTL), Enabled: aws.Bool(true)},
	})
	switch {
	case isUnknownOperation(err):
		return unknownTTL(table, err)
	case err != nil:
		return fmt.Errorf("dynamostore: turn the time to live of table %s on: %s: %w", table, reason(client, err), err)
	}
	return nil
}

// hasTTL reports whether the table deletes by our attribute. It returns an error
// where it deletes by another.
func hasTTL(ctx context.Context, client *dynamodb.Client, table string) (bool, error) {
	out, err := client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: aws.String(table)})
	switch {
	case isUnknownOperation(err):
		return false, unknownTTL(table, err)
	case err != nil:
		return false, fmt.Errorf("dynamostore: look whether table %s has a time to live: %s: %w", table, reason(client, err), err)
	}
	ttl := out.TimeToLiveDescription
	if ttl == nil || ttl.TimeToLiveStatus != types.TimeToLiveStatusEnabled && ttl.TimeToLiveStatus != types.TimeToLiveStatusEnabling {
		return false, nil
	}
	if name := aws.ToString(ttl.AttributeName); name != attrTTL {
		return false, fmt.Errorf("dynamostore: table %s has its time to live in the attribute %q, and a table has one: the records' is %q; choose another name, for a table of their own", table, name, attrTTL)
	}
	return true, nil
}

// verify examines the table.
func verify(ctx context.Context, client *dynamodb.Client, table string, anyTTL bool) error {
	out, err := client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: aws.String(table)})
	if missing := new(types.ResourceNotFoundException); errors.As(err, &missing) {
		return fmt.Errorf("dynamostore: there is no table %s in this account %s: CreateTable makes one, or the commands that this prints: "+
			"idemctl schema -store dynamodb -table %s: %w", table, whereabouts(client), table, err)
	}
	if err != nil {
		return fmt.Errorf("dynamostore: describe table %s: %s: %w", table, reason(client, err), err)
	}
	if t := out.Table; !hasKey(t) {
		return wrongKey(table)
	} else if t.TableStatus != types.TableStatusActive && t.TableStatus != types.TableStatusUpdating {
		return fmt.Errorf("dynamostore: table %s is %s: wait until it is ACTIVE (aws dynamodb wait table-exists --table-name %s)", table, t.TableStatus, table)
	}
	if anyTTL {
		return nil
	}
	on, err := hasTTL(ctx, client, table)
	if err == nil && !on {
		err = withoutTTL(table)
	}
	return err
}

// wrongKey names no command that would change the table, which is somebody else's.
func wrongKey(table string) error {
	return fmt.Errorf(`dynamostore: table %s is none of records: they need a partition key "id" of type S and no sort key; choose another name, for a table of their own`, table)
}

// withoutTTL is for a table that may hold something else than records.
func withoutTTL(table string) error {
	return fmt.Errorf("dynamostore: table %s would keep expired records for ever, since its time to live is off: if it holds nothing but records, turn it on "+
		"(aws dynamodb update-time-to-live --table-name %s --time-to-live-specification Enabled=true,AttributeName=%s; CreateTable does it in an empty table), "+
		"or give New the option WithoutTTL; if not, choose another name, for a table of their own", table, table, attrTTL)
}

// unknownTTL is for emulators.
func unknownTTL(table string, err error) error {
	return fmt.Errorf("dynamostore: give New the option WithoutTTL: what serves table %s knows no time to live, and keeps expired records for ever: %w", table, err)
}

// reason says what to do about err, by which a request has failed.
func reason(client *dynamodb.Client, err error) string {
	switch {
	case client.Options().Region == "":
		return "the client has no region: set AWS_REGION, or Region in its config"
	case isCode(err, "AccessDeniedException"):
		return "the client's credentials lack a permission, see the package's documentation"
	case isRefusal(err):
		return "DynamoDB refuses the client: check its credentials and its region"
	}
	return "no answer " + whereabouts(client) + ": check the client's credentials, its region and its endpoint"
}

// whereabouts says where the client looks.
func whereabouts(client *dynamodb.Client) string {
	where := fmt.Sprintf("in region %q", client.Options().Region)
	if endpoint := client.Options().BaseEndpoint; endpoint != nil {
		where += " at " + *endpoint
	}
	return where
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
