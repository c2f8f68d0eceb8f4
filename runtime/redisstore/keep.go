package redisstore

import (
	"context"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// Lookup implements [idempotency.Keeper].
func (s *Store) Lookup(ctx context.Context, id idempotency.Identity) (idempotency.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.claimTimeout)
	defer cancel()
	f, err := s.find(ctx, id)
	switch {
	case err != nil:
		return idempotency.Record{}, err
	case f.claim():
		return idempotency.Record{}, idempotency.ErrNotFound
	}
	r, err := decode(f.fields)
	if err != nil {
		return idempotency.Record{}, err
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

// found is what lies under a key.
type found struct {
	key, token string
	fields     []any // as decode takes them
}

// claim reports whether f is a claim, which has no status.
func (f found) claim() bool { return f.fields[1] == nil }

// kind is what the scripts call it.
func (f found) kind() string {
	if f.claim() {
		return kindClaim
	}
	return kindAnswer
}

const kindClaim, kindAnswer = "claim", "answer"

// version is [idempotency.Entry.Version]. An answer keeps the token of its claim.
func version(kind, token string) string { return kind + " " + token }

// find reads the record or claim of id.
func (s *Store) find(ctx context.Context, id idempotency.Identity) (found, error) {
	_, key, err := s.place(id)
	if err != nil {
		return found{}, err
	}
	fields, err := lookupScript.Run(ctx, s.client, []string{key}).Slice()
	if err != nil {
		return found{}, unavailable("the record could not be read", err)
	}
	token, rest := split(fields)
	if rest[1] != id.Scope || rest[2] != id.Operation || rest[3] != id.Key {
		return found{}, idempotency.ErrNotFound
	}
	return found{key, token, fields}, nil
}

// Release implements [idempotency.Keeper]. What is deleted is what was read just
// before: if it has changed meanwhile, it is in flight.
func (s *Store) Release(ctx context.Context, id idempotency.Identity) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.claimTimeout)
	defer cancel()
	f, err := s.find(ctx, id)
	switch {
	case err != nil:
		return err
	case f.claim():
		return idempotency.ErrInFlight
	}
	switch kind, err := s.release(ctx, f); {
	case err != nil:
		return err
	case kind != "":
		return idempotency.ErrInFlight
	}
	return nil
}

// ReleaseEntry implements [idempotency.Lister]. A claim that is there is live.
func (s *Store) ReleaseEntry(ctx context.Context, e idempotency.Entry) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.claimTimeout)
	defer cancel()
	f, err := s.find(ctx, e.Identity)
	if err != nil {
		return err
	}
	kind := f.kind()
	if version(kind, f.token) == e.Version && (!f.claim() || e.State == idempotency.StateClaim) {
		kind, err = s.release(ctx, f)
	}
	switch {
	case err != nil:
		return err
	case kind == kindClaim:
		return idempotency.ErrInFlight
	case kind == kindAnswer:
		return idempotency.ErrChanged
	}
	return nil
}

// release deletes f, unless something else lies there by now, and returns its
// kind.
func (s *Store) release(ctx context.Context, f found) (kind string, err error) {
	kind, err = releaseScript.Run(ctx, s.client, []string{f.key}, f.token, f.kind()).Text()
	if err != nil {
		return "", unavailable("the record could not be deleted, or nobody knows; look it up", err)
	}
	return kind, nil
}

// Sweep implements [idempotency.Keeper]. There is nothing to do: Redis deletes
// records when their retention is over.
func (s *Store) Sweep(ctx context.Context) (int64, error) { return 0, ctx.Err() }
