package dynamostore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// attempt is one Execute: a claim and what becomes of it.
type attempt struct {
	*Store
	idempotency.Identity

	id    string // of the item
	token string // says that a claim is this attempt's, and no other's
}

// attempt begins an attempt at id. Its token has 128 random bits, so that no two
// attempts share one, not even in the same process.
func (s *Store) attempt(id idempotency.Identity) *attempt {
	return &attempt{Store: s, Identity: id, id: s.place(id), token: rand.Text()}
}

// place returns the partition key of the record of id. Nothing else derives it.
func (s *Store) place(id idempotency.Identity) string {
	sum := id.ID()
	return s.cfg.prefix + hex.EncodeToString(sum[:])
}

// passed returns the time such that what ends before has ended on every clock, in
// milliseconds as items have it.
func (s *Store) passed() time.Time { return time.Now().Add(-s.cfg.skew).Truncate(time.Millisecond) }

// names are those attributes of conditions that may be reserved words.
var names = map[string]string{"#token": attrToken, "#status": attrStatus, "#ttl": attrTTL}

// use returns those of names that expressions use: DynamoDB refuses others.
func use(used ...string) map[string]string {
	m := map[string]string{}
	for _, name := range used {
		m[name] = names[name]
	}
	return m
}

// ours is the condition that a claim is held under :token.
const ours = "#token = :token AND attribute_not_exists(#status)"

// claimable is the condition of a claim: nothing is there, or nothing that
// counts any more, or this same claim, which the client has sent before.
const claimable = "attribute_not_exists(id) OR (" + ours + ")" +
	" OR (attribute_not_exists(#status) AND lease_until < :passed) OR expires_at < :passed"

// claims is how often a claim is tried, where what stood in its way is gone when
// it is looked at.
const claims = 3

// claim claims the record; or it returns the one that is there. It is not
// cancelled with ctx: an answer that is on its way is better known than not.
func (a *attempt) claim(ctx context.Context) (*record, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.cfg.claimTimeout)
	defer cancel()
	for range claims {
		claimed, found, err := a.put(ctx)
		if err != nil || claimed {
			return nil, err
		}
		if found == nil {
			continue
		}
		rec, err := decode(found)
		if err == nil && rec.status == 0 {
			return nil, idempotency.ErrInFlight
		}
		return rec, err
	}
	return nil, idempotency.ErrInFlight
}

// put puts the claim. Where it cannot, it returns what stands in its way, or nil
// if that was gone when it was read.
func (a *attempt) put(ctx context.Context) (claimed bool, found item, err error) {
	now := time.Now()
	until := now.Add(a.cfg.lease)
	claim := a.newItem()
	claim.setTime(attrLeaseUntil, until)
	claim[attrTTL] = ttl(until)
	_, err = a.client.PutItem(ctx, &dynamodb.PutItemInput{
		TableName:                aws.String(a.table),
		Item:                     claim,
		ConditionExpression:      aws.String(claimable),
		ExpressionAttributeNames: use("#token", "#status"),
		ExpressionAttributeValues: item{
			":token":  claim[attrToken],
			":passed": number(now.Add(-a.cfg.skew).UnixMilli()),
		},
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	var taken *types.ConditionalCheckFailedException
	switch {
	case err == nil:
		return true, nil, nil
	case !errors.As(err, &taken):
		// It may have been carried out: what is answered is the last time that
		// the client has sent it. Without this the key would be in flight for a
		// lease, and nobody at work.
		go a.abandon(ctx)
		if isCode(err, "TransactionConflictException") { // the holder completes just now
			return false, nil, idempotency.ErrInFlight
		}
		return false, nil, unavailable("the key could not be claimed; the handler did not run", err)
	case len(taken.Item) > 0:
		return false, taken.Item, nil
	}
	found, err = a.get(ctx, a.id)
	if err != nil {
		return false, nil, unavailable("the key is taken, and its record could not be read; the handler did not run", err)
	}
	return false, found, nil
}

// get reads an item, consistently. It returns nil where there is none.
func (s *Store) get(ctx context.Context, id string) (item, error) {
	out, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: aws.String(s.table), Key: keyOf(id), ConsistentRead: aws.Bool(true),
	})
	if err != nil || len(out.Item) == 0 {
		return nil, err
	}
	return out.Item, nil
}

func keyOf(id string) item { return item{attrID: &types.AttributeValueMemberS{Value: id}} }

// abandon gives the claim up, so that the key is free. Where that fails it is
// free after the lease.
func (a *attempt) abandon(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.cfg.finishTimeout)
	defer cancel()
	a.giveUp(ctx, a.id, a.token)
}

// end is what became of a claim that was given up.
type end int

const (
	unanswered end = iota // nobody knows
	freed                 // the key is free, and nothing of the claim can be completed
	done                  // its answer is stored
	gone                  // neither is there
)

// giveUp deletes the claim of a token, or says why it is not there.
func (s *Store) giveUp(ctx context.Context, id, token string) end {
	_, err := s.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{
		TableName:                 aws.String(s.table),
		Key:                       keyOf(id),
		ConditionExpression:       aws.String(ours),
		ExpressionAttributeNames:  use("#token", "#status"),
		ExpressionAttributeValues: item{":token": &types.AttributeValueMemberS{Value: token}},
	})
	switch {
	case err == nil:
		return freed
	case !isCode(err, "ConditionalCheckFailedException"):
		return unanswered
	}
	switch found, err := s.get(ctx, id); {
	case err != nil:
		return unanswered
	case found[attrStatus] != nil && found.has(attrToken, token):
		return done
	}
	return gone
}
