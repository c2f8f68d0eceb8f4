package dynamostore

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemgen/idemgen/runtime/internal/heartbeat"
)

// hold begins the heartbeat of a claim that was made after since. The context
// it returns is that of work; the caller must stop the heartbeat.
func (a *attempt) hold(ctx context.Context, since time.Time) (context.Context, *heartbeat.Heartbeat) {
	return heartbeat.Start(ctx, heartbeat.Claim{Since: since, Lease: a.cfg.lease, Ceiling: a.cfg.ceiling, Extend: a.extend})
}

// extend makes the claim last for another lease, and reports whether it is
// still held.
func (a *attempt) extend(ctx context.Context) (held bool, err error) {
	until := time.Now().Add(a.cfg.lease)
	_, err = a.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                aws.String(a.table),
		Key:                      keyOf(a.id),
		UpdateExpression:         aws.String("SET lease_until = :until, #ttl = :ttl"),
		ConditionExpression:      aws.String(ours),
		ExpressionAttributeNames: use("#token", "#status", "#ttl"),
		ExpressionAttributeValues: item{
			":token": &types.AttributeValueMemberS{Value: a.token},
			":until": number(until.UnixMilli()),
			":ttl":   ttl(until),
		},
	})
	if isCode(err, "ConditionalCheckFailedException") {
		return false, nil
	}
	return err == nil, err
}
