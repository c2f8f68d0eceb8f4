package dynamostore

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// Lookup implements [idempotency.Keeper].
func (s *Store) Lookup(ctx context.Context, id idempotency.Identity) (idempotency.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.claimTimeout)
	defer cancel()
	r, err := s.find(ctx, id)
	switch {
	case err != nil:
		return idempotency.Record{}, err
	case r.status == 0:
		return idempotency.Record{}, idempotency.ErrNotFound
	}
	resp, err := r.response(ctx, s.cfg.codec)
	return idempotency.Record{
		Identity:    r.Identity,
		Fingerprint: r.fingerprint,
		Response:    resp,
		CreatedAt:   r.createdAt,
		ExpiresAt:   r.expiresAt,
	}, err
}

// find reads the record or claim of id.
func (s *Store) find(ctx context.Context, id idempotency.Identity) (*record, error) {
	found, err := s.get(ctx, s.place(id))
	if err != nil {
		return nil, unavailable("the record could not be read", err)
	}
	if found == nil {
		return nil, idempotency.ErrNotFound
	}
	r, err := decode(found)
	if err == nil && r.Identity != id {
		return nil, idempotency.ErrNotFound
	}
	return r, err
}

// Release implements [idempotency.Keeper]. What is deleted is what was read just
// before: if it has changed meanwhile, it is in flight.
func (s *Store) Release(ctx context.Context, id idempotency.Identity) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.claimTimeout)
	defer cancel()
	r, err := s.find(ctx, id)
	if err != nil {
		return err
	}
	if s.live(r) {
		return idempotency.ErrInFlight
	}
	deleted, err := s.remove(ctx, r, false)
	if err == nil && !deleted {
		err = idempotency.ErrInFlight
	}
	return err
}

// ReleaseEntry implements [idempotency.Lister].
func (s *Store) ReleaseEntry(ctx context.Context, e idempotency.Entry) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.claimTimeout)
	defer cancel()
	r, err := s.find(ctx, e.Identity)
	if err != nil {
		return err
	}
	if r.version() == e.Version {
		if deleted, err := s.remove(ctx, r, e.State == idempotency.StateClaim); deleted || err != nil {
			return err
		}
		if r, err = s.find(ctx, e.Identity); err != nil { // it has changed just now
			return err
		}
	}
	if s.live(r) {
		return idempotency.ErrInFlight
	}
	return idempotency.ErrChanged
}

// live reports whether r is a claim that is held.
func (s *Store) live(r *record) bool { return r.status == 0 && !r.leaseUntil.Before(s.passed()) }

// remove deletes r if it is still there and, unless force says that it may be
// one, no live claim. A deletion that the client sends again finds nothing, and is
// none the worse.
func (s *Store) remove(ctx context.Context, r *record, force bool) (deleted bool, err error) {
	condition, values := "#token = :token AND attribute_exists(#status)", item{}
	values.setString(":token", r.token)
	if r.status == 0 {
		condition = ours
		if !force {
			condition += " AND lease_until < :passed"
			values.setTime(":passed", s.passed())
		}
	}
	_, err = s.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{
		TableName:                 aws.String(s.table),
		Key:                       keyOf(s.place(r.Identity)),
		ConditionExpression:       aws.String("attribute_not_exists(id) OR (" + condition + ")"),
		ExpressionAttributeNames:  use("#token", "#status"),
		ExpressionAttributeValues: values,
	})
	switch {
	case isCode(err, "ConditionalCheckFailedException"):
		return false, nil
	case isCode(err, "TransactionConflictException"): // the holder completes just now
		return false, idempotency.ErrInFlight
	case err != nil:
		return false, unavailable("the record could not be deleted, or nobody knows; look it up", err)
	}
	return true, nil
}

// Sweep implements [idempotency.Keeper]. There is nothing to do: DynamoDB deletes
// records by their time to live.
func (s *Store) Sweep(ctx context.Context) (int64, error) { return 0, ctx.Err() }
