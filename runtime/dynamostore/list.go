package dynamostore

import (
	"context"
	"encoding/hex"
	"fmt"
	"iter"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// listed are the attributes of an entry.
var listed = []string{attrID, attrToken, attrScope, attrOperation, attrKey, attrLeaseUntil, attrStatus, attrBytes, attrCreatedAt, attrExpiresAt}

// List implements [idempotency.Lister]. It scans the table, consistently, in pages
// of DynamoDB's, at most 1 MB each. A scan is paid for the whole table, answers
// included, although they are not sent: for one record give its id. The
// client needs the permission dynamodb:Scan.
//
// Other items of the table are left out. So is a record whose scope, operation or
// key somebody has changed, since its id is of another one; a record that is
// damaged otherwise ends the list with an error that names the item.
//
// Claims have no time at which they were made. States are by the clock of this
// process, see [WithClockSkew].
func (s *Store) List(ctx context.Context, filter idempotency.Filter) iter.Seq2[idempotency.Entry, error] {
	return func(yield func(idempotency.Entry, error) bool) {
		next := s.scan(filter)
		if filter.ID != [16]byte{} {
			next = s.one(filter.ID)
		}
		for more := true; more; {
			var items []item
			var err error
			if items, more, err = next(ctx); err != nil {
				yield(idempotency.Entry{}, unavailable("the records could not be listed", err))
				return
			}
			for _, i := range items {
				e, is, err := s.entry(i)
				if err != nil {
					yield(idempotency.Entry{}, err)
					return
				}
				if is && filter.Selects(e) && !yield(e, nil) {
					return
				}
			}
		}
	}
}

// Stats implements [idempotency.Lister]. It lists all records to count them.
func (s *Store) Stats(ctx context.Context) (idempotency.Stats, error) {
	var stats idempotency.Stats
	for e, err := range s.List(ctx, idempotency.Filter{}) {
		if err != nil {
			return idempotency.Stats{}, err
		}
		stats.Add(e.Operation, e.Counts())
	}
	return stats, nil
}

// pages reads one page after another, and says whether there are more.
type pages func(context.Context) (items []item, more bool, err error)

// one reads one item.
func (s *Store) one(id [16]byte) pages {
	return func(ctx context.Context) ([]item, bool, error) {
		ctx, cancel := context.WithTimeout(ctx, s.cfg.claimTimeout)
		defer cancel()
		projection, names := projection()
		out, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{
			TableName: aws.String(s.table), Key: keyOf(s.cfg.prefix + hex.EncodeToString(id[:])), ConsistentRead: aws.Bool(true),
			ProjectionExpression: projection, ExpressionAttributeNames: names,
		})
		if err != nil || len(out.Item) == 0 {
			return nil, false, err
		}
		return []item{out.Item}, false, nil
	}
}

// scan reads the table. What the filter does not select is not sent.
func (s *Store) scan(filter idempotency.Filter) pages {
	projection, names := projection()
	in := &dynamodb.ScanInput{
		TableName: aws.String(s.table), ConsistentRead: aws.Bool(true),
		ProjectionExpression: projection, ExpressionAttributeNames: names,
	}
	var conditions []string
	values := item{}
	condition := func(format, attribute, value string) {
		if value == "" {
			return
		}
		placeholder := ":" + attribute
		conditions = append(conditions, fmt.Sprintf(format, "#"+attribute, placeholder))
		values.setString(placeholder, value)
	}
	condition("begins_with(%s, %s)", attrID, s.cfg.prefix)
	condition("%s = %s", attrScope, filter.Scope)
	condition("%s = %s", attrOperation, filter.Operation)
	if len(conditions) > 0 {
		in.FilterExpression, in.ExpressionAttributeValues = aws.String(strings.Join(conditions, " AND ")), values
	}
	return func(ctx context.Context) ([]item, bool, error) {
		ctx, cancel := context.WithTimeout(ctx, s.cfg.claimTimeout)
		defer cancel()
		out, err := s.client.Scan(ctx, in)
		if err != nil {
			return nil, false, err
		}
		items := make([]item, len(out.Items))
		for i, found := range out.Items {
			items[i] = found
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
		return items, len(out.LastEvaluatedKey) > 0, nil
	}
}

// projection returns the expression for the attributes of an entry, and the names
// that it uses.
func projection() (*string, map[string]string) {
	used := make(map[string]string, len(listed))
	expression := make([]string, len(listed))
	for i, name := range listed {
		expression[i] = "#" + name
		used["#"+name] = name
	}
	return aws.String(strings.Join(expression, ", ")), used
}

// entry reads an item, unless that is none of this store's records: their ids
// follow from what they say that they are of.
func (s *Store) entry(i item) (e idempotency.Entry, is bool, err error) {
	r, err := decode(i)
	if !i.has(attrID, s.place(r.Identity)) {
		return e, false, nil
	}
	if err != nil {
		return e, false, fmt.Errorf("%w (item %.100q)", err, s.place(r.Identity))
	}
	e = idempotency.Entry{
		Identity: r.Identity, Status: r.status, Bytes: r.bytes,
		CreatedAt: r.createdAt, ExpiresAt: r.expiresAt, LeaseUntil: r.leaseUntil,
		Version: r.version(),
	}
	passed := s.passed()
	switch {
	case r.status != 0 && r.expiresAt.Before(passed):
		e.State = idempotency.StateExpired
	case r.status != 0:
		e.State = idempotency.StateAnswer
	case s.live(r):
		e.State = idempotency.StateClaim
	default:
		e.State = idempotency.StatePassed
	}
	return e, true, nil
}
