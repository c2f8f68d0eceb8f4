package redisstore

import (
	"context"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// Lookup implements [idempotency.Keeper].
func (s *Store) Lookup(ctx context.Context, id idempotency.Identity) (idempotency.Record, error) {
	_, key, err := s.place(id)
	if err != nil {
		return idempotency.Record{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.claimTimeout)
	defer cancel()
	fields, err := lookupScript.Run(ctx, s.client, []string{key}).Slice()
	switch {
	case err != nil:
		return idempotency.Record{}, unavailable("the record could not be read", err)
	case len(fields) == 0, fields[0] == nil: // a claim has no status
		return idempotency.Record{}, idempotency.ErrNotFound
	}
	r, err := decode(fields)
	switch {
	case err != nil:
		return idempotency.Record{}, err
	case r.Identity != id:
		return idempotency.Record{}, idempotency.ErrNotFound
	}
	resp, err := r.response(ctx, s.cfg.codec)
	return idempotency.Record{
		Identity:    r.Identity,
		Fingerprint: []byte(r.fingerprint),
		Response:    resp,
		CreatedAt:   r.createdAt,
		ExpiresAt:   r.expiresAt,
	}, err
}

// Release implements [idempotency.Keeper].
func (s *Store) Release(ctx context.Context, id idempotency.Identity) error {
	_, key, err := s.place(id)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.claimTimeout)
	defer cancel()
	state, err := releaseScript.Run(ctx, s.client, []string{key}, id.Scope, id.Operation, id.Key).Text()
	switch {
	case err != nil:
		return unavailable("the record could not be deleted, or nobody knows; look it up", err)
	case state == "held":
		return idempotency.ErrInFlight
	case state == "none":
		return idempotency.ErrNotFound
	}
	return nil
}

// Sweep implements [idempotency.Keeper]. There is nothing to do: Redis deletes
// records when their retention is over.
func (s *Store) Sweep(ctx context.Context) (int64, error) { return 0, ctx.Err() }
