package dynamostore_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemgen/idemgen/runtime/dynamostore"
	"github.com/idemgen/idemgen/runtime/idempotency"
)

// A message is handled under its own id: the account is debited if it has
// enough, in the transaction that stores the answer.
func Example() { //nolint:testableexamples // needs DynamoDB
	ctx := context.Background()
	client := dynamodb.New(dynamodb.Options{Region: "eu-central-1"}) // most programs: dynamodb.NewFromConfig(cfg)
	store, err := dynamostore.New(ctx, client, "idempotency")
	if err != nil {
		log.Fatal(err) // says what to do
	}

	req := idempotency.Request{
		Identity:    idempotency.Identity{Scope: "tenant-7", Operation: "debit", Key: "message-4711"},
		Fingerprint: idempotency.FingerprintOf([]byte("debit 5")),
		Retention:   72 * time.Hour,
	}
	answer, replayed, err := idempotency.Do(ctx, store, req, func(_ context.Context, tx *dynamostore.Tx) (string, error) {
		return "debited", tx.Queue(types.TransactWriteItem{Update: &types.Update{
			TableName:           aws.String("accounts"),
			Key:                 map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: "4711"}},
			UpdateExpression:    aws.String("SET balance = balance - :amount"),
			ConditionExpression: aws.String("balance >= :amount"),
			ExpressionAttributeValues: map[string]types.AttributeValue{
				":amount": &types.AttributeValueMemberN{Value: "5"},
			},
		}})
	})
	if refused := new(dynamostore.RefusedError); errors.As(err, &refused) && refused.Code == "ConditionalCheckFailed" {
		fmt.Println("the balance is too low")
		return
	}
	fmt.Println(answer, replayed, err)
}
