package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// maxAnswer is the largest answer, in bytes as it is stored: an item has at most 400 KB, and
// there must be room for the rest of it.
const maxAnswer = 350 << 10

// completion is what is written in one step.
type completion struct {
	token  string                    // tells DynamoDB a transaction that is sent again
	record *types.Put                // the answer; nil where there is no key
	id     string                    // of the record
	writes []types.TransactWriteItem // that work has queued
}

// completion returns what is written when work has answered.
func (a *attempt) completion(ctx context.Context, req idempotency.Request, resp idempotency.Response, writes []types.TransactWriteItem) (completion, error) {
	header, body, err := idempotency.EncodeAnswer(ctx, a.cfg.codec, req, resp)
	if err != nil {
		return completion{}, err
	}
	size := len(header) + len(body)
	if size > maxAnswer {
		return completion{}, tooLarge(size)
	}
	now := time.Now()
	expires := now.Add(req.Retention)
	i := a.newItem()
	i[attrStatus] = number(int64(resp.Status))
	i.setBytes(attrFingerprint, req.Fingerprint[:])
	i.setBytes(attrHeader, header)
	i.setBytes(attrBody, body)
	i[attrBytes] = number(int64(size))
	i.setTime(attrCreatedAt, now)
	i.setTime(attrExpiresAt, expires)
	i[attrTTL] = ttl(expires)
	c := completion{
		token: a.token,
		record: &types.Put{
			TableName:                 aws.String(a.table),
			Item:                      i,
			ConditionExpression:       aws.String(ours),
			ExpressionAttributeNames:  use("#token", "#status"),
			ExpressionAttributeValues: item{":token": i[attrToken]},
		},
		id:     a.id,
		writes: writes,
	}
	return c, checkTotal(c.items())
}

// items returns all writes, the answer's first.
func (c *completion) items() []types.TransactWriteItem {
	if c.record == nil {
		return c.writes
	}
	return append([]types.TransactWriteItem{{Put: c.record}}, c.writes...)
}

// once keeps the client from sending a request again by itself: it would tell
// only of the last time, and an answer that was lost before decides what a
// refusal means.
func once(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} }

// send writes c. Where nothing was queued a plain write does, at half the price.
func (s *Store) send(ctx context.Context, c completion) error {
	if len(c.writes) == 0 {
		_, err := s.client.PutItem(ctx, &dynamodb.PutItemInput{
			TableName:                 c.record.TableName,
			Item:                      c.record.Item,
			ConditionExpression:       c.record.ConditionExpression,
			ExpressionAttributeNames:  c.record.ExpressionAttributeNames,
			ExpressionAttributeValues: c.record.ExpressionAttributeValues,
		}, once)
		return err
	}
	_, err := s.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{
		TransactItems:      c.items(),
		ClientRequestToken: aws.String(c.token),
	}, once)
	return err
}

// resendPause is the longest pause before a completion is sent again.
const resendPause = 100 * time.Millisecond

// complete sends c until it is answered for good: its token makes a repetition
// harmless, and the record tells what became of those before. It returns settled
// if the claim is over or may be, so that it must not be given up.
func (s *Store) complete(ctx context.Context, c completion) (settled bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.finishTimeout)
	defer cancel()
	// Later none is sent again, so that each has time to be answered.
	last := time.Now().Add(s.cfg.finishTimeout * 3 / 4)
	uncertain := false // one that was not answered may have been carried out
	for {
		var v verdict
		switch v, err = c.judge(s.send(ctx, c)); v {
		case stored:
			return true, nil
		case refused:
			return s.settle(ctx, c, uncertain, err)
		case unknown:
			uncertain = true
		}
		if time.Now().After(last) {
			if uncertain {
				return true, outcomeUnknown(err)
			}
			return false, unavailable("the request met conflicts, too little capacity, or no DynamoDB, for too long; nothing was kept", err)
		}
		time.Sleep(rand.N(resendPause))
	}
}

// verdict is what the answer to a completion means.
type verdict int

const (
	stored  verdict = iota
	refused         // nothing was kept this time, nor would it be another time
	again           // nothing was kept this time
	unknown         // it may have been carried out
)

// judge says what err, the outcome of sending c, means. A refusal comes with
// what is told of it if nothing was kept.
func (c *completion) judge(err error) (verdict, error) {
	var cancelled *types.TransactionCanceledException
	switch {
	case err == nil:
		return stored, nil
	case errors.As(err, &cancelled):
		if !c.mayPass(cancelled.CancellationReasons) {
			return refused, c.refusal(cancelled, err)
		}
		return again, err
	case isCode(err, "ConditionalCheckFailedException"):
		return refused, errLost
	case isConflict(err), isUnsent(err):
		return again, err
	case isCode(err, "TransactionInProgressException"), !isRefusal(err):
		return unknown, err
	case isUnknownOperation(err):
		return refused, fmt.Errorf("dynamostore: what serves the table has no TransactWriteItems, which queued writes need; nothing is kept: %w", err)
	case len(c.writes) == 0:
		return refused, unavailable("the answer could not be stored; nothing was kept", err)
	}
	return refused, fmt.Errorf("dynamostore: the answer and what was queued were refused, and nothing is kept: %w", err)
}

// mayPass reports whether a transaction that was cancelled for these reasons may
// be carried out when it is sent again.
func (c *completion) mayPass(reasons []types.CancellationReason) bool {
	for _, r := range reasons {
		switch aws.ToString(r.Code) {
		case "", "None", "TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded":
		default:
			return false
		}
	}
	return len(reasons) > 0
}

// refusal returns the error of the first queued write that was refused for good,
// or that of the claim's own.
func (c *completion) refusal(cancelled *types.TransactionCanceledException, err error) error {
	first := len(c.items()) - len(c.writes)
	for i, r := range cancelled.CancellationReasons {
		if i >= first && !c.mayPass([]types.CancellationReason{r}) {
			return &idempotency.CommitError{Err: &RefusedError{
				Index: i - first, Code: aws.ToString(r.Code), Message: aws.ToString(r.Message), Item: r.Item, Err: err,
			}}
		}
	}
	if len(cancelled.CancellationReasons) == 0 {
		return fmt.Errorf("dynamostore: the transaction was cancelled, and nothing is kept: %w", err)
	}
	return errLost
}

// settle finds out what a refused completion has left by giving the claim up:
// one that was sent before and may yet arrive finds it gone, and one that was
// carried out has left the answer. Refusal is what is told if nothing was kept.
func (s *Store) settle(ctx context.Context, c completion, uncertain bool, refusal error) (settled bool, err error) {
	end := unanswered
	if c.record != nil {
		end = s.giveUp(ctx, c.id, c.token)
	}
	switch {
	case end == done:
		return true, nil
	case end == freed, !uncertain:
		return end != unanswered, refusal
	case end == gone:
		return true, recordGone(refusal)
	}
	return true, outcomeUnknown(fmt.Errorf("the last try: %v", refusal)) //nolint:errorlint // it decides nothing
}
